"""A run keeps the options it was trained by, and is resumed and repeated from them."""

import json
import sys
from pathlib import Path

import pytest
import yaml

import tepui
from tepui.cli.kept_methods import with_methods
from tepui.cli.kept_options import with_kept
from tepui.cli.main import main
from tepui.core.free_folder import is_free
from tepui.core.storage import read_tensors, same_bits
from tepui.methods import GSAM, SAM, DeepEnsemble
from tepui.studies import MethodResult
from tepui.training.described import to_jsonable
from tepui.training.run_folder import KEPT_OPTIONS, OPTIONS

OWN = """
from torch import nn

class Net(nn.Module):
    def __init__(
        self,
        width: int | None = 4,
        num_classes: int = 10,
        api_key: str = "",
        extractor: bool = False,
    ):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))

    def forward(self, x):
        return self.layers(x)

class Unseen(Net):
    pass

def level(logits, labels):
    return 0.25
"""
FILE = "method: SAM(rho=0.1)\nepochs: 2\nmembers: 2\nvalidation: 0.2\nkeep: best\n"
SMALL = ["--members", "2", "--epochs", "2", "--device", "cpu", "--quiet"]
RESUMED = ["train", "--resume", "--out", "run"]
NET = "own_nets.Net"
KEPT_FILE = f"run/{KEPT_OPTIONS}"


class Interrupted(tepui.Callback):
    def on_epoch(self, record):
        raise KeyboardInterrupt


class Refused(tepui.Callback):
    def on_start(self, config):
        raise ConnectionError("nobody answers")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_nets.py").write_text(OWN)
    sys.modules.pop("own_nets", None)
    return tmp_path


@pytest.fixture
def tracked_by(monkeypatch):
    """Let somebody be told of the runs of commands."""

    def told(callback):
        monkeypatch.setattr("tepui.cli.train.trackers_named", lambda names: [callback])

    return told


def ended(words):
    """Return how a command ended that did not end well."""
    with pytest.raises(SystemExit) as end:
        main(words)
    return end.value.code


def kept(run="run"):
    return yaml.safe_load(Path(run, KEPT_OPTIONS).read_text())


def same_weights(*runs):
    files = [Path(run, "ensemble.safetensors") for run in runs]
    return same_bits(*(read_tensors(file, "ensemble")[0] for file in files))


@pytest.mark.slow
def test_a_run_is_repeated_when_its_file_is_lost(here):
    (here / "mine.yaml").write_text(FILE)
    main(["train", "--config", "mine.yaml", "--seed", "7", "--quiet", "--out", "run"])
    (here / "mine.yaml").unlink()
    main(["train", "--config", f"run/{KEPT_OPTIONS}", "--quiet", "--out", "again"])
    assert same_weights("run", "again")
    assert kept() == kept("again")


def test_what_one_command_did_is_not_kept(here):
    main(["train", *SMALL, "--stop-after", "1", "--out", "run"])
    assert not {"out", "resume", "stop_after", "quiet", "config"} & kept().keys()
    main(["train", "--config", f"run/{KEPT_OPTIONS}", "--quiet"])
    assert len(Path("runs/train-001/metrics.jsonl").read_text().splitlines()) == 2


def test_what_is_kept_is_found_from_anywhere(here, monkeypatch):
    main(["train", *SMALL, "--stop-after", "1", "--out", "begun"])
    words = ["--branch-from", "begun", "--data", "Table", "--data.path", "t.csv"]
    (here / "t.csv").write_text("a,b\n" + "".join(f"{n},{n % 2}\n" for n in range(40)))
    main(["train", *SMALL, *words[2:], "--data.target", "b", "--out", "rows"])
    assert kept("rows")["data"]["init_args"]["path"] == str(here / "t.csv")
    main(["train", *SMALL, *words[:2], "--out", "run"])
    assert kept()["branch_from"] == str(here / "begun")
    (here / "elsewhere").mkdir()
    monkeypatch.chdir(here / "elsewhere")
    main(["train", "--config", str(here / "rows" / KEPT_OPTIONS), "--out", "again"])
    assert same_weights(here / "rows", "again")


def test_what_is_left_open_on_purpose_is_kept(here):
    own = ["--model", "own_nets.Net", "--model.width", "null"]
    main(["train", *SMALL, *own, "--out", "run"])
    assert kept()["model"]["init_args"] == {"width": None}


def test_secrets_are_not_kept(here):
    own = ["--model", "own_nets.Net", "--model.api_key", "HIDDEN"]
    main(["train", *SMALL, *own, "--out", "run"])
    files = [file for file in Path("run").rglob("*") if file.is_file()]
    assert not [file for file in files if b"HIDDEN" in file.read_bytes()]


def test_an_interrupted_run_knows_its_options(here, tracked_by):
    tracked_by(Interrupted())
    assert ended(["train", *SMALL, "--validation", "0.2", "--out", "run"]) == 130
    recorded = json.loads(Path("run", OPTIONS).read_text())
    assert recorded["data"]["class_path"].endswith(".Digits")
    assert kept()["validation"] == recorded["validation_share"] == 0.2


@pytest.mark.slow
@pytest.mark.parametrize("heads", [False, True])
def test_a_run_that_fails_at_first_leaves_no_options_in_the_way(
    heads, here, tracked_by
):
    words = ["train", *SMALL, "--out", "run"]
    if heads:
        main(["train", *SMALL, "--model.width", "4", "--out", "body"])
        words += ["--extractor", "body"]
    tracked_by(Refused())
    assert ended(words) == 2
    assert heads or is_free(Path("run"))
    tracked_by(tepui.Callback())
    main([*words, "--seed", "3"])
    assert kept()["seed"] == 3


@pytest.mark.parametrize("name", [OPTIONS, KEPT_OPTIONS])
@pytest.mark.parametrize("more", [[], ["--extractor", "body"]])
def test_a_file_of_the_users_own_is_not_replaced(name, more, here):
    main(["train", *SMALL, "--model.width", "4", "--out", "body"])
    Path("run").mkdir()
    Path("run", name).write_text("epochs: 1\n")
    assert ended(["train", *SMALL, *more, "--out", "run"]) == 2
    assert Path("run", name).read_text() == "epochs: 1\n"


@pytest.mark.slow
def test_a_run_goes_on_by_its_own_options(here):
    (here / "mine.yaml").write_text(FILE)
    main(["train", "--config", "mine.yaml", "--quiet", "--out", "whole"])
    words = ["--config", "mine.yaml", "--quiet", "--stop-after", "1"]
    main(["train", *words, "--out", "run"])
    (here / "mine.yaml").unlink()
    main(RESUMED)
    assert same_weights("run", "whole")


@pytest.mark.slow
def test_what_contradicts_a_run_is_refused_by_name(here, capsys):
    began = ["--method", "SAM(rho=0.1)", "--augment", "HorizontalFlip"]
    main(["train", *SMALL, *began, "--stop-after", "1", "--out", "run"])
    before = Path("run", KEPT_OPTIONS).read_text()
    for option, value in {"method.rho": "0.2", "method": "GSAM", "epochs": "3"}.items():
        assert ended([*RESUMED, f"--{option}", value]) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"tepui: {option.split('.')[0]} must be what the run in")
    assert Path("run", KEPT_OPTIONS).read_text() == before
    main([*RESUMED, *began, "--members", "2", "--workers", "0", "--quiet"])


def test_the_command_that_began_a_run_resumes_it(here):
    words = [*RESUMED, *SMALL, "--seeds+", "3", "5"]
    main([*words, "--stop-after", "1"])
    main(words)
    assert Path("run/ensemble.safetensors").exists()


def test_a_file_that_is_written_takes_the_place_of_kept_options(here, capsys):
    main(["train", *SMALL, "--stop-after", "1", "--out", "run"])
    (here / "mine.yaml").write_text(FILE)
    assert ended([*RESUMED, "--config", "mine.yaml"]) == 2
    assert "must be what the run in run was started with" in capsys.readouterr().err


def test_options_of_a_folder_name_no_code(here, capsys):
    own = ["--model", "own_nets.Net"]
    main(["train", *SMALL, *own, "--model.width", "6", "--stop-after", "1"])
    del sys.modules["own_nets"]
    words = ["train", "--resume", "--out", "runs/train-001"]
    file = Path("runs/train-001", KEPT_OPTIONS)
    assert file.read_text().startswith("# tepui train --config FILE --model own_nets.N")
    assert ended(words) == 2
    said = capsys.readouterr().err
    assert "one of yours that the command line names by the same path, as --model " in (
        said
    )
    assert f"got 'own_nets.Net' (in {file})" in said
    assert "own_nets" not in sys.modules
    text = file.read_text()
    for path in ("os.system", "own_nets.Unseen", "tepui.fit"):
        file.write_text(text.replace("own_nets.Net\n  init", f"{path}\n  init"))
        assert path in file.read_text()
        assert ended(words) == 2
        assert f"got '{path}'" in capsys.readouterr().err
    file.write_text(f"!!python/object/apply:os.system ['echo']\n{text}")
    assert ended(words) == 2
    file.write_text(text)
    main([*words, *own])


@pytest.mark.parametrize("value", ["two words", "a,b", "c}d", 'e"f'])
@pytest.mark.parametrize("form", ["json", "call", "option"])
def test_secrets_are_hidden_however_they_are_written(form, value, here):
    secret = f"{value}HIDDEN"
    own = {
        "json": [json.dumps({"class_path": NET, "init_args": {"api_key": secret}})],
        "call": [f"{NET}(api_key={secret!r})"],
        "option": [NET, "--model.api_key", secret],
    }
    main(["train", *SMALL, "--model", *own[form], "--out", "run"])
    files = [file for file in Path("run").rglob("*") if file.is_file()]
    assert not [file for file in files if b"HIDDEN" in file.read_bytes()]


@pytest.mark.parametrize("words", [RESUMED, ["train", "--config", KEPT_FILE]])
def test_a_hidden_secret_is_asked_for_again(words, here, capsys):
    own = ["--model", NET, "--model.api_key", "HIDDEN"]
    main(["train", *SMALL, *own, "--stop-after", "1", "--out", "run"])
    assert ended([*words, "--model", NET]) == 2
    said = capsys.readouterr().err
    assert "--model.api_key must be written on the command line" in said
    assert "run folders keep no secrets" in said
    main([*words, *own, "--quiet"])


def test_a_value_of_several_lines_is_kept(here):
    written = json.dumps({"class_path": NET, "init_args": {"width": 3}}, indent=1)
    main(["train", *SMALL, "--model", written, "--stop-after", "1", "--out", "run"])
    assert kept()["model"]["init_args"] == {"width": 3}
    main([*RESUMED, "--model", NET])


def test_only_runs_are_taken_for_runs(here):
    (here / "4").mkdir()
    own = f"{NET}(width=4, extractor=True)"
    main(["train", *SMALL, "--model", own, "--out", "run"])
    assert kept()["model"]["init_args"] == {"width": 4, "extractor": True}


def test_options_of_the_working_folder_are_nobodys(here):
    Path(KEPT_OPTIONS).write_text("# tepui train --config FILE\nout: run\nepochs: 2\n")
    assert with_kept(["train", "--resume", "true"]) == ["train", "--resume", "true"]


@pytest.mark.parametrize(
    "words",
    [
        ["train", "--quiet"],
        ["train", "--device", "cpu", "--workers", "0"],
        ["compare", "--quiet"],
        ["compare", "--executor", "slurm", "--slurm.partition", "x", "--dry-run"],
    ],
)
def test_a_name_of_a_folder_that_is_not_there_begins_no_default_run(
    here, words, capsys
):
    assert ended([*words, "--resume", "--out", "runn"]) == 2
    assert "--out must be the folder of what shall go on" in capsys.readouterr().err
    assert not Path("runn").exists()


def test_a_script_begins_and_resumes_by_one_command(here):
    main(["train", *SMALL, "--resume", "--stop-after", "1", "--out", "run"])
    main(["train", *SMALL, "--resume", "--out", "run"])
    assert kept()["epochs"] == int(SMALL[SMALL.index("--epochs") + 1])


def test_somebodys_file_in_a_run_is_neither_read_nor_replaced(here):
    main(["train", *SMALL, "--stop-after", "1", "--out", "run"])
    Path(KEPT_FILE).write_text("epochs: 1\n")
    assert with_kept(RESUMED) == RESUMED
    main([*RESUMED, *SMALL])
    assert Path(KEPT_FILE).read_text() == "epochs: 1\n"


METHODS = ["--methods", "DeepEnsemble", "SAM(rho=0.1)", "--ensembles", "1"]
COMPARED = [*SMALL, *METHODS, "--sharpness", "0", "--corruptions", "none"]
COMPARED += ["--ood", "noise=UniformNoise", "--shifted", "again=Digits"]


def scores(folder):
    methods = json.loads(Path(folder, "comparison.json").read_text())["methods"]
    return {each["label"]: each["ensembles"][0]["evaluation"] for each in methods}


@pytest.mark.slow
def test_a_comparison_goes_on_by_its_own_options(here, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("tepui.cli.compare.trackers_named", lambda _: [Interrupted()])
        assert ended(["compare", *COMPARED, "--out", "run"]) == 130
    assert json.loads(Path("run", OPTIONS).read_text())["data"]
    main(["compare", "--resume", "--out", "run", "--quiet"])
    main(["compare", *COMPARED, "--out", "whole"])
    assert scores("run") == scores("whole")
    assert kept() == kept("whole")


@pytest.mark.slow
def test_a_comparison_takes_other_methods_by_its_own_options(here, capsys):
    main(["compare", *COMPARED, "--out", "run"])
    again = ["compare", "--resume", "--out", "run", "--quiet"]
    main([*again, "--methods", "GSAM"])
    every = ["DeepEnsemble", "SAM", "GSAM"]
    assert [*scores("run")] == every
    assert [each["class_path"].split(".")[-1] for each in kept()["methods"]] == every
    assert kept()["methods"][1]["init_args"]["rho"] == 0.1
    main(again)  # by all of them, of which nothing is left
    assert [*scores("run")] == every
    main(["compare", "--config", KEPT_FILE, "--quiet", "--out", "other"])
    assert scores("other") == scores("run")


WRITTEN = "# tepui compare --config FILE\nmethods:\n- class_path: GSAM\nepochs: 2\n"


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ([GSAM()], ["DeepEnsemble", "SAM", "GSAM"]),
        ([GSAM(), DeepEnsemble()], ["DeepEnsemble", "SAM", "GSAM"]),
        # With another SAM the one in the table would get another name, and be lost.
        ([SAM(rho=0.1), SAM(rho=0.2)], None),
        ([SAM(rho=0.3), DeepEnsemble()], None),
    ],
)
def test_options_name_the_methods_of_a_table(asked, names):
    known = {each.label: each for each in TABLE}
    text = with_methods(WRITTEN, known, asked)
    if names is None:
        assert text == WRITTEN
        return
    first, _, rest = text.partition("\n")
    assert first == WRITTEN.splitlines()[0]
    found = yaml.safe_load(rest)
    assert found["epochs"] == 2
    assert [each["class_path"].split(".")[-1] for each in found["methods"]] == names
    assert found["methods"][1]["init_args"]["rho"] == 0.3


TABLE = [
    MethodResult("DeepEnsemble", to_jsonable(DeepEnsemble()), ()),
    MethodResult("SAM", to_jsonable(SAM(rho=0.3)), ()),
]


@pytest.mark.slow
def test_who_trains_a_comparison_is_said_each_time(here):
    main(["compare", *COMPARED, "--at-once", "2", "--out", "run"])
    assert kept()["at_once"] == 2
    assert not {"executor", "ray", "slurm", "dry_run", "out"} & kept().keys()


def test_a_command_does_not_read_the_options_of_another(here):
    main(["train", *SMALL, "--stop-after", "1", "--out", "run"])
    words = ["--resume=true", "--out", "run"]
    assert with_kept(["compare", *words]) == ["compare", *words]
    assert with_kept(["train", *words])[:3] == ["train", "--config", KEPT_FILE]


@pytest.mark.slow
def test_functions_of_a_comparison_are_named_again(here, capsys):
    own = ["--metrics", "own_nets.level"]
    main(["compare", *COMPARED, *own, "--out", "run"])
    Path("run", "comparison.json").unlink()
    assert ended(["compare", "--resume", "--out", "run"]) == 2
    assert "--metrics must be written on the command line" in capsys.readouterr().err
    main(["compare", "--resume", "--out", "run", *own, "--quiet"])
    assert scores("run")["SAM"]["clean"]["level"] == 0.25


@pytest.mark.slow
def test_a_comparison_that_is_measured_again_keeps_what_it_was_measured_on(here):
    main(["compare", *COMPARED, "--out", "run"])
    again = ["compare", "--resume", "--out", "run", "--quiet"]
    main([*again, "--corruptions", "cifar"])
    assert kept()["corruptions"] == "cifar"
    main(["compare", "--config", KEPT_FILE, "--quiet", "--out", "other"])
    assert scores("run") == scores("other")
