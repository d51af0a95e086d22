"""What a configuration may name: classes of a list, whatever it tries.

Every attempt below runs a whole command with a file of options, and leaves a trace if
anything it names is imported or called.
"""

import json
import sys
from itertools import count
from pathlib import Path

import pytest
import yaml

from tepui.cli.admission import check_classes, listed, named_by_user, refusal
from tepui.cli.main import main
from tepui.core.storage import write_document

GUEST = """
from pathlib import Path
from torch import nn

Path("imported").touch()

class Net(nn.Module):
    def __init__(self, width: int = 3, block: type[nn.Module] = nn.ReLU):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

    def forward(self, x):
        return self.layers(x)

class Other(Net):
    pass

def net(num_classes: int = 3) -> nn.Module:
    Path("called").write_text(str(num_classes))
    return nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))

def bare():
    return Net()

made = Net()
"""
NUMBERS = count()
REFUSED = (
    "must name a class that tepui offers, or one of yours that the command line names "
    "by the same path"
)
TRAIN = ["train", "--members", "2", "--epochs", "1", "--quiet", "--out", "out"]


@pytest.fixture
def guest(tmp_path, monkeypatch):
    """A package of the user's, under a name that no other test has imported."""
    name = f"guest{next(NUMBERS)}"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / name).mkdir()
    (tmp_path / name / "nets.py").write_text(GUEST)
    (tmp_path / name / "__init__.py").write_text(f"from {name}.nets import Net, net\n")
    return name


def attempt(options, *words, command=TRAIN):
    """Run a command with a file of options; return how it ended."""
    Path("options.yaml").write_text(options)
    with pytest.raises(SystemExit) as stop:
        main([*command, "--config", "options.yaml", *words])
    return stop.value.code


def traces():
    """What an attempt may have left behind."""
    kept = {"options.yaml", "__pycache__"}
    return sorted(
        path.name
        for path in Path().iterdir()
        if path.name not in kept and not path.name.startswith("guest")
    )


WRITE = (
    "{class_path: tepui.core.storage.write_json, init_args: {path: p, document: {}}}"
)
NESTED = "{class_path: tepui.cli.main.main, init_args: {arguments: [data, list]}}"
ATTEMPTS = {
    "a function where a model belongs": f"model: {WRITE}",
    "a function where data belong": f"data: {WRITE}",
    "a function where a method belongs": f"method: {WRITE}",
    "a function where a schedule belongs": f"schedule: {WRITE}",
    "a function where an optimizer belongs": f"optimizer: {WRITE}",
    "a function in a list": f"augment: [{WRITE}]",
    "a function where a plain dataclass belongs": f"prune: {WRITE}",
    "a function by its path alone": "model: tepui.cli.main.main",
    "a nested command line": f"model: {NESTED}",
    "other arguments": (
        "model: {class_path: tepui.core.storage.write_json, "
        "dict_kwargs: {path: p, document: {}}}"
    ),
    "a function inside a method": (
        f"method: {{class_path: SharpBalance, init_args: {{base: {WRITE}}}}}"
    ),
    "a function inside data": (
        f"unlabeled: {{class_path: UniformNoise, init_args: {{like: {WRITE}}}}}"
    ),
    "a callable of tepui": (
        "method: {class_path: SharpBalance, "
        "init_args: {score: tepui.sharpness.fisher_trace}}"
    ),
    "a callable of another package": (
        "method: {class_path: SharpBalance, init_args: {score: torch.load}}"
    ),
    "a class for a callable": (
        "method: {class_path: SharpBalance, init_args: {score: tepui.models.MLP}}"
    ),
    "the shell": "model: os.system",
    "a process": "method: {class_path: subprocess.Popen, init_args: {args: [ls]}}",
    "code": "model: {class_path: builtins.eval, init_args: {source: '1'}}",
    "a class of torch": "model: {class_path: torch.nn.Flatten}",
    "a class of torch by its short name": "model: Flatten",
    "a class of tepui that is no model": "model: tepui.methods.SAM",
    "a class of tepui that is no method": "method: tepui.models.MLP",
    "a class of tepui that no option offers": "data: tepui.data.Arrays",
    "a base class": "method: tepui.methods.Method",
    "a class method": "method: tepui.methods.SharpBalance.paper",
    "what a class inherits": "model: tepui.models.MLP.mro",
    "a value of a class": "method: tepui.methods.SharpBalance.base",
    "a module inside a module": "model: tepui.models.mlp.nn.Flatten",
    "a tag that calls": "model: !!python/object/apply:os.system ['touch called']",
    "a tag that imports": "model: !!python/name:guest.Net",
}


@pytest.mark.parametrize("options", ATTEMPTS.values(), ids=ATTEMPTS.keys())
def test_a_file_names_nothing_outside_the_list(options, guest, capsys):
    assert attempt(options) == 2
    assert traces() == []
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("name", ["Net", "net", "nets.Net", "nets.missing", "missing"])
@pytest.mark.parametrize(
    "options",
    [
        "model: {}",
        "model: {{class_path: {}}}",
        "data: {}",
        "method: {{class_path: SharpBalance, init_args: {{score: {}}}}}",
    ],
)
def test_a_file_alone_imports_nothing_of_a_users_package(name, options, guest, capsys):
    assert attempt(options.format(f"{guest}.{name}")) == 2
    option, path = options.partition(":")[0], f"{guest}.{name}"
    inner = "init_args" in options  # an argument is no option that one could write
    example = "" if inner else f", as --{option} {path}"
    assert f"{REFUSED}{example}, got '{path}'" in capsys.readouterr().err
    assert traces() == []
    assert guest not in sys.modules


def test_environment_variables_name_no_more_than_a_file(guest, monkeypatch, capsys):
    monkeypatch.setenv("JSONARGPARSE_DEFAULT_ENV", "true")
    monkeypatch.setenv("TEPUI_TRAIN__MODEL", f"{guest}.Net")
    assert attempt("{}") == 2
    assert REFUSED in capsys.readouterr().err
    assert traces() == []


def test_a_value_on_the_command_line_is_no_way_around_the_list(guest, capsys):
    assert attempt("{}", "--method", WRITE) == 2
    assert "--method must name a class, got" in capsys.readouterr().err
    assert attempt("{}", "--model", WRITE) == 2
    assert attempt("{}", "--method.score", "torch.load") == 2
    assert traces() == []


def test_an_unlabeled_set_inside_another_is_held_to_the_list(guest, capsys):
    options = f"ood: {{noise: {{class_path: {guest}.nets.Net}}}}"
    assert attempt(options, command=["evaluate", "nowhere"]) == 2
    assert REFUSED in capsys.readouterr().err
    assert traces() == []


@pytest.mark.slow
def test_the_command_line_admits_one_class_and_nothing_beside_it(guest, capsys):
    words = ["--model", f"{guest}.Net"]
    for other in ("nets.Other", "nets.net", "net", "nets.made", "Net.forward"):
        assert attempt(f"model: {guest}.{other}", *words) == 2
        path = f"{guest}.{other}"
        said = f"{REFUSED}, as --model {path}, got '{path}'"
        assert said in capsys.readouterr().err
        spec = f"{{class_path: {guest}.{other}}}"
        assert attempt(f"model: {spec}", *words) == 2
    assert traces() == ["imported"]
    main([*TRAIN, *words])


def test_a_module_with_the_name_of_a_class_stays_closed(guest, capsys):
    twin = GUEST.replace("Net", "Twin")
    Path(guest, "Twin.py").write_text(twin)
    Path(guest, "__init__.py").write_text(f"from {guest}.Twin import Twin\n")
    words = ["--model", f"{guest}.Twin"]
    for other in ("Twin.net", "Twin.Other"):
        for options in ("model: {}", "model: {{class_path: {}}}"):
            assert attempt(options.format(f"{guest}.{other}"), *words) == 2
            path = f"{guest}.{other}"
            said = f"{REFUSED}, as --model {path}, got '{path}'"
            assert said in capsys.readouterr().err
    assert traces() == ["imported"]
    main([*TRAIN, *words])


def test_a_class_is_admitted_in_the_file_beside_it_and_for_one_command(guest, capsys):
    options = f"model: {{class_path: {guest}.nets.Net, init_args: {{width: 5}}}}"
    Path("options.yaml").write_text(options)
    main([*TRAIN, "--config", "options.yaml", "--model", f"{guest}.Net"])
    assert Path("out/ensemble.safetensors").exists()
    assert attempt(options, "--resume") == 2
    assert REFUSED in capsys.readouterr().err


def test_a_list_on_the_command_line_does_not_open_that_of_a_file(guest, capsys):
    options = f"methods: ['SAM(rho=0.1)', {guest}.nets.Other]"
    words = ["--methods+", "SAM(rho=0.2)", f"{guest}.Net"]
    assert attempt(options, *words, command=["compare", "--dry-run"]) == 2
    assert f"{REFUSED}, got '{guest}.nets.Other'" in capsys.readouterr().err


def test_options_of_a_users_class_may_name_its_neighbors(guest):
    words = ["--model", f"{guest}.Net", "--model.block", f"{guest}.nets.Other"]
    assert named_by_user(words).keys() == {
        f"{guest}.Net",
        f"{guest}.nets.Net",
        f"{guest}.nets.Other",
    }
    main([*TRAIN, *words])
    assert named_by_user([*words[:2], "--model.name", f"{guest}.npz"]).keys() == {
        f"{guest}.Net",
        f"{guest}.nets.Net",
    }
    assert (
        named_by_user(["--model", "MLP", "--model.name", f"{guest}.nets.Other"]) == {}
    )


@pytest.mark.parametrize(
    "words",
    [
        ["--model", "{}"],
        ["--model={}"],
        ["--model", '{{"class_path": "{}"}}'],
        ["--model.class_path", "{}"],
        ["--model.help", "{}"],
        ["--methods", "[SAM, {}]"],
        ["--methods", '[{{class_path: "{}"}}, {{class_path: SAM}}]'],
        ["--methods", '[{}, {{"class_path": "SAM", "init_args": {{"rho": 0.1}}}}]'],
        ["--methods", "[{{class_path: SAM, init_args: {{rho: [1, 2]}}}}, {}]"],
        ["--methods", "SAM", "--methods+", "[{}]"],
        ["--methods+={}"],
        ["--ood", '{{"far": "{}"}}'],
        ["--ood", '{{"far": {{"class_path": "{}"}}}}'],
    ],
)
def test_wherever_the_command_line_names_a_class_it_is_found(words, guest):
    path = f"{guest}.nets.Net"
    found = named_by_user([word.format(path) for word in words])
    assert found.keys() == {path, f"{guest}.Net"}
    assert set(found.values()) == {sys.modules[guest].Net}


@pytest.mark.parametrize(
    "words",
    [
        ["--out", "other.Thing", "--config", "c.yaml"],
        ["--model", "tepui.models.MLP", "--data", "Digits"],
        ["--data.path", "photos.npz", "--model.name", "resnet18.a1_in1k"],
        ["--what", "{class_path: other.Thing}"],
    ],
)
def test_nothing_else_on_the_command_line_is_imported(words):
    assert named_by_user(words) == {}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "{}.Nte"], r"can be imported, got '.*Nte' \(module .* no attrib"),
        (["--model", "{}.nowhere.Net"], r"can be imported, got .*No module named"),
        (["--model", "{}.nets.bare"], r"signature says what it returns .*nn.Module\)"),
        (["--model", "{}.nets.made"], "--model must name a class, or a function"),
        (["--model", "{}.nets"], "--model must name a class, or a function"),
        (["--method", "{}.net"], "--method must name a class, got"),
        (
            ["--model", "{}.net", "--model.num_classes", "7"],
            "--model.num_classes must be left out, since a function takes no options",
        ),
    ],
)
def test_what_an_option_cannot_take_is_said(words, message, guest):
    with pytest.raises(ValueError, match=message):
        named_by_user([word.format(guest) for word in words])


def test_a_function_makes_the_model_as_the_data_need_it(guest):
    main([*TRAIN, "--model", f"{guest}.net"])
    assert Path("called").read_text() == "10"
    words = ["--model", f"{guest}.net", "--what", "diversity", "--out", "measured"]
    main(["measure", "out", *words])
    assert (
        "accuracy" in json.loads(Path("measured/measure.json").read_text())["diversity"]
    )


def test_a_file_gives_no_arguments_to_a_function(guest):
    options = f"model: {{class_path: {guest}.net, init_args: {{num_classes: 99}}}}"
    Path("options.yaml").write_text(options)
    main([*TRAIN, "--model", f"{guest}.net", "--config", "options.yaml"])
    assert Path("called").read_text() == "10"  # the classes of the data


def test_only_classes_of_the_list_are_built():
    known = listed()
    spec = {"class_path": "tepui.methods.SAM", "init_args": {"rho": 0.1}}
    check_classes({"a": [spec, {"b": (spec,)}]}, known)
    for path in ("tepui.methods.SAM.mro", "os.system"):
        for values in ({"class_path": path}, {"a": [spec, {"class_path": path}]}):
            with pytest.raises(ValueError, match="class_path must name a class"):
                check_classes(values, known)
    with pytest.raises(ValueError, match="must be named on the command line, got 'dum"):
        check_classes({"a": [json.dumps]}, known)
    check_classes({"a": [json.dumps]}, known | {"json.dumps": json.dumps})


def test_a_package_with_the_name_of_a_class_stays_closed(guest, capsys):
    """What was not imported yet, in files and in folders, is closed as well."""
    inner = Path(guest, "Twin", "folder")
    inner.mkdir(parents=True)
    for file in (inner / "nets.py", inner.parent / "nets.py"):
        file.write_text(GUEST.replace("imported", "imported too"))
    (inner.parent / "__init__.py").write_text(GUEST.replace("Net", "Twin"))
    Path(guest, "__init__.py").write_text(f"from {guest}.Twin import Twin\n")
    words = ["--model", f"{guest}.Twin"]
    for other in ("Twin.nets.Net", "Twin.nets.net", "Twin.folder.nets.Net"):
        assert attempt(f"model: {guest}.{other}", *words) == 2
        path = f"{guest}.{other}"
        said = f"{REFUSED}, as --model {path}, got '{path}'"
        assert said in capsys.readouterr().err
    assert traces() == ["imported"]


def test_a_file_reads_no_further_file(guest, capsys):
    Path("further.yaml").write_text("epochs: 2")
    assert attempt("config: further.yaml") == 2
    rule = "--config must be written on the command line, not in a file"
    assert f"{rule}, got" in capsys.readouterr().err
    main([*TRAIN, "--config", "further.yaml"])


def test_a_file_names_no_cluster(guest, capsys):
    options = "ray: {address: '203.0.113.1:10001'}"
    command = ["compare", "--executor", "ray", "--out", "out"]
    assert attempt(options, command=command) == 2
    assert "--ray.address must be written on the comm" in capsys.readouterr().err
    assert traces() == []


def test_a_class_that_takes_no_further_arguments_is_given_none(guest, capsys):
    options = "model: {class_path: MLP, dict_kwargs: {shell: ls}}"
    assert attempt(options) == 2
    assert "dict_kwargs must be left out, since MLP takes" in capsys.readouterr().err
    assert traces() == []


def test_messages_help_whoever_mistypes(guest, capsys):
    attempt("method: SMA")
    message = "method must name a class of tepui, got 'SMA' (did you mean 'SAM'?)"
    assert capsys.readouterr().err == f"tepui: {message} (in options.yaml)\n"
    attempt(f"model: {{class_path: {guest}.Net}}")
    assert capsys.readouterr().err == (
        f"tepui: model {REFUSED}, as --model {guest}.Net, got '{guest}.Net' "
        "(in options.yaml)\n"
    )
    attempt("method: tepui.models.MLP")
    assert "method must name a class of the kind that" in capsys.readouterr().err
    assert refusal("anything else") is None


@pytest.mark.parametrize(
    ("said", "example"),
    [
        ("Importing 'nets.Net' is not allowed", "path, as --model nets.Net, got"),
        ("Unexpected import path format: nets:Net", "path, such as nets.Net, got"),
        ("Unexpected import path format: a b:c", "path, such as mypackage.Net, got"),
    ],
)
def test_a_class_of_ones_own_is_refused_with_what_to_write(said, example):
    assert example in refusal(f'Parser key "model": {said}')


def test_what_is_no_single_class_has_no_such_example():
    said = "Importing 'mine.Way' is not allowed"
    assert "--methods" not in refusal(f'Parser key "methods": {said}')


@pytest.mark.parametrize("command", ["reproduce", "sweep"])
def test_no_recipe_is_imported_that_nobody_wrote(command, guest, monkeypatch, capsys):
    name = {"reproduce": "ITEMS", "sweep": "RECIPE"}[command]
    value = f"[{guest}.nets]" if command == "reproduce" else f"{guest}.nets"
    monkeypatch.setenv("JSONARGPARSE_DEFAULT_ENV", "true")
    monkeypatch.setenv(f"TEPUI_{command.upper()}__{name}", value)
    assert attempt("{}", command=[command]) == 2
    assert attempt(f"{name.lower()}: {value}", command=[command]) == 2
    assert traces() == []
    assert guest not in sys.modules


def remembering(target):
    """Write down a run of a table with a target."""
    given = {"path": "x.csv", "target": target}
    named = {"class_path": "tepui.data.files.table.Table", "init_args": given}
    Path("run").mkdir()
    write_document(Path("run/options.json"), "options", {"data": named})


OF_TABLES = [["--data", "Table:x.csv"], ["--shifted", "x=x.csv"]]
TARGETS = {
    "an option": "--model={}.nets.bare",
    "a file of options": "--config=evil.yaml",
    "a path": "{}.nets.Other",
    "a letter": "-y",
    "a number": "3",
}


@pytest.mark.parametrize("words", OF_TABLES)
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
def test_a_target_of_a_run_is_no_further_word(target, words, guest, capsys):
    remembering(target.format(guest))
    Path("evil.yaml").write_text("batch_size: 7")
    with pytest.raises(SystemExit) as stop:
        main(["evaluate", "run", *words, "--print-config"])
    assert stop.value.code == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    table = printed["data"] or printed["shifted"]["x"]
    assert table["init_args"]["target"] == target.format(guest)
    assert printed["batch_size"] != 7
    assert guest not in sys.modules


@pytest.mark.parametrize("words", OF_TABLES)
@pytest.mark.parametrize("target", ["class_path: {}.Net", 3, {"class_path": "{}.Net"}])
def test_a_target_of_a_run_names_no_class(target, words, guest, capsys):
    remembering(json.loads(json.dumps(target).replace("{}", guest)))
    with pytest.raises(SystemExit) as stop:
        main(["evaluate", "run", *words])
    assert stop.value.code == 2
    assert "Traceback" not in capsys.readouterr().err
    assert guest not in sys.modules


def test_a_target_of_a_run_admits_nothing_that_a_file_names(guest, capsys):
    remembering(f"{guest}.nets.Other")
    command = ["evaluate", "run", "--data", "Table:x.csv", "--model", f"{guest}.Net"]
    assert attempt(f"metrics: [{guest}.nets.Other]", command=command) == 2
    assert "--metrics must be written on the command line" in capsys.readouterr().err
    options = f"ood: {{a: {{class_path: {guest}.nets.Other}}}}"
    assert attempt(options, command=command) == 2
    assert REFUSED in capsys.readouterr().err
