import inspect
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import webbrowser
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest
import torch

import tepui
from data.mrpc_files import write
from tepui.cli.main import COMMANDS, LEFT_OUT, SPECIFICATIONS, main
from tepui.cli.parsing import FLAGS
from tepui.report.story import told
from tepui.studies import load_reports

SMALL = ["--model", "MLP(hidden=[8])", "--members", "2", "--set", "progress=none"]


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    out = tmp_path_factory.mktemp("cli") / "comparison"
    main(["compare", *SMALL, "--epochs", "1", "--out", str(out)])
    return out


@pytest.mark.slow
def test_compare_prints_the_table_and_writes_the_page(tmp_path, capsys):
    out = tmp_path / "run"
    arguments = ["--epochs", "1", "--ensembles", "2", "--corruptions", "none"]
    main(["compare", *SMALL, *arguments, "--out", str(out)])
    shown = capsys.readouterr().out
    assert "Ensembles on Digits" in shown
    assert " to " in shown
    (group,) = load_reports([out]).groups
    assert told(group).claim in " ".join(shown.split())
    assert (out / "report.html").exists()
    assert {p.name for p in out.iterdir() if p.is_dir()} == {
        "DeepEnsemble",
        "SAM",
        "SharpBalance",
    }


@pytest.mark.slow
def test_default_comparison_has_corrupted_data(compared):
    document = json.loads((compared / "comparison.json").read_text())
    assert len(document["settings"]["cells"]) == 15 * 5
    for method in document["methods"]:
        assert method["ensembles"][0]["evaluation"]["shifted"] is not None


@pytest.mark.slow
def test_report_is_written_again(compared, tmp_path, capsys):
    main(["report", str(compared), "--out", str(tmp_path)])
    assert (tmp_path / "report.html").read_text() == (
        compared / "report.html"
    ).read_text()
    assert "Ensembles on Digits" in capsys.readouterr().out


def test_report_opens_the_page_where_asked(compared, tmp_path, monkeypatch, capsys):
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda url: bool(opened.append(url)))
    main(["report", str(compared), "--out", str(tmp_path)])
    assert opened == []
    main(["report", str(compared), "--out", str(tmp_path), "--overwrite", "--open"])
    assert opened == [(tmp_path / "report.html").as_uri()]
    said = " ".join(capsys.readouterr().out.split())
    assert said.count(f"next: open {tmp_path / 'report.html'} in a browser") == 2
    assert said.count("no browser was found") == 1


@pytest.mark.slow
def test_runs_tested_alike_stand_in_one_table(compared, tmp_path, capsys):
    run, out = tmp_path / "run", tmp_path / "page"
    main(["train", *SMALL, "--method", "GSAM", "--epochs", "1", "--out", str(run)])
    main(["evaluate", str(run)])
    main(["report", str(compared), str(run), "--out", str(out)])
    page = (out / "report.html").read_text()
    assert "Group 2" not in page
    assert "2 runs side by side" in capsys.readouterr().out
    main(["evaluate", str(run), "--set", "rule=vote", "--overwrite"])
    arguments = ["report", str(compared), str(run), "--out", str(out)]
    with pytest.raises(SystemExit):
        main(arguments)
    assert "report.html exists; pass --overwrite" in capsys.readouterr().err
    assert (out / "report.html").read_text() == page
    main([*arguments, "--overwrite"])
    assert "Group 2" in (out / "report.html").read_text()


def test_train_then_evaluate(tmp_path, capsys):
    out = tmp_path / "run"
    options = ["--method", "SAM(rho=0.2)", "--epochs", "1"]
    options += [
        "--optimizer",
        "AdamW",
        "--set",
        "schedule=Constant",
        "--seeds",
        "3",
        "4",
    ]
    main(["train", *SMALL, *options, "--validation", "0.1", "--out", str(out)])
    config = json.loads((out / "run.json").read_text())["config"]
    assert config["method"]["rho"] == 0.2
    assert config["optimizer"] == tepui.training.described.to_jsonable(tepui.AdamW())
    assert config["seeds"] == [3, 4]
    assert config["validation"]["samples"] == 144
    main(["evaluate", str(out), "--corruptions", "none"])
    document = json.loads((out / "evaluation.json").read_text())
    test = tepui.data.Digits(train=False)
    assert document["clean"] == tepui.evaluate(tepui.load(out), test).clean.document()
    assert "individual accuracy" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["evaluate", str(out), "--corruptions", "none"])
    assert "pass --overwrite" in capsys.readouterr().err
    main(["evaluate", str(out), "--corruptions", "none", "--overwrite"])


NOISE = ["--set", "unlabeled=UniformNoise(shape=[1, 8, 8])"]


def test_train_with_unlabeled_data(tmp_path, capsys):
    out = tmp_path / "run"
    options = [*SMALL, "--epochs", "1", "--method", "A2D(weight=0.05)"]
    main(
        [
            "train",
            *options,
            *NOISE,
            "--set",
            "unlabeled=X(num_samples=70)",
            "--out",
            str(out),
        ]
    )
    config = json.loads((out / "run.json").read_text())["config"]
    assert config["method"]["weight"] == 0.05
    assert config["unlabeled"]["samples"] == 70
    assert config["unlabeled"] != config["data"]
    with pytest.raises(SystemExit):
        main(["train", *options, "--out", str(tmp_path / "other")])
    assert "unlabeled must be a data set for A2D" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["SED"],
        ["DivDis", *NOISE],
        ["A2D", "--method", "DeepEnsemble(parallel=False)", *NOISE],
    ],
)
def test_train_with_every_way_to_disagree(words, tmp_path):
    out = tmp_path / "run"
    options = ["--epochs", "1", "--out", str(out)]
    main(["train", *SMALL, "--method", *words, *options])
    config = json.loads((out / "run.json").read_text())["config"]
    assert config["method"]["class"] == words[0]
    assert len(tepui.load(out)) == 2


@pytest.mark.parametrize("command", ["train", "compare"])
def test_what_is_wrong_with_unlabeled_data_is_said_of_its_option(
    command, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    words = ["--set", "unlabeled=UnlabeledFolder(path=no/where)"]
    with pytest.raises(SystemExit):
        main([command, *words])
    told = " ".join(capsys.readouterr().err.split())
    assert "--unlabeled.path must be a folder of images, got no/where" in told


@pytest.mark.slow
def test_compare_gives_unlabeled_data_to_the_methods_that_need_them(tmp_path, capsys):
    out, methods = tmp_path / "run", ["--methods", "SED", "DivDis", "DeepEnsemble"]
    options = ["--epochs", "1", "--ensembles", "1", "--corruptions", "none"]
    main(["compare", *SMALL, *methods, *options, *NOISE, "--out", str(out)])
    document = json.loads((out / "comparison.json").read_text())
    assert document["settings"]["unlabeled"]["samples"] == 10_000
    for name in ("SED", "DivDis", "DeepEnsemble"):
        config = json.loads((out / name / "0" / "run.json").read_text())["config"]
        assert (config["unlabeled"] is not None) == (name == "DivDis")
    with pytest.raises(SystemExit):
        main(["compare", *SMALL, "--methods", "SED", *NOISE, "--out", str(out / "x")])
    assert "None unless a method uses unlabeled data" in capsys.readouterr().err


def test_options_come_from_yaml_too(tmp_path):
    config = tmp_path / "mine.yaml"
    config.write_text(
        "epochs: 1\nmembers: 2\nquiet: true\nbatch_size: 16\n"
        "model: {class_path: MLP, init_args: {hidden: [4]}}\n"
        "method: {class_path: SAM, init_args: {rho: [0.1, 0.2]}}\n"
        "augment: [{class_path: RandomCrop, init_args: {padding: 1}}]\n"
    )
    out = ["--out", str(tmp_path / "run")]
    main(["train", "--set", "batch_size=32", "--config", str(config), *out])
    written = json.loads((tmp_path / "run" / "run.json").read_text())["config"]
    assert written["method"]["rho"] == [0.1, 0.2]
    assert written["batch_size"] == 32
    assert written["augment"] == [{"class": "RandomCrop", "padding": 1, "fill": 0.0}]


def test_policies_are_named_like_other_augmentations(tmp_path, capsys):
    words = ["--augment", "trivialaugment", "RandomCrop", "AugMix(severity=2.0)"]
    how = ["--model", "MLP(hidden=[4])", "--members", "1", "--epochs", "1"]
    main(
        [
            "train",
            *how,
            *words,
            "--set",
            "progress=none",
            "--out",
            str(tmp_path / "run"),
        ]
    )
    written = json.loads((tmp_path / "run" / "run.json").read_text())["config"]
    assert [step["class"] for step in written["augment"]] == [
        *("TrivialAugment", "RandomCrop", "AugMix")
    ]
    assert written["augment"][2]["severity"] == 2
    with pytest.raises(SystemExit):
        main(["train", *how, "--augment", "RandAugment(level=40)"])
    assert "level must lie in [0, 30], got 40" in capsys.readouterr().err


MODULE = """
from torch import nn

class Net(nn.Module):
    def __init__(self, width: int = 3):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

    def forward(self, x):
        return self.layers(x)
"""


def run(arguments, folder):
    return subprocess.run(
        [sys.executable, "-m", "tepui", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@pytest.mark.slow
def test_a_users_model_is_imported_only_when_named_on_the_command_line(tmp_path):
    (tmp_path / "mine.py").write_text(MODULE + "\nprint('IMPORTED')\n")
    (tmp_path / "c.yaml").write_text("model: {class_path: mine.Net}\n")
    common = ["train", "--epochs", "1", "--members", "2", "--set", "progress=none"]
    refused = run([*common, "--config", "c.yaml", "--out", "a"], tmp_path)
    assert refused.returncode == 2
    assert "model must name a class that tepui offers" in refused.stderr
    assert "IMPORTED" not in refused.stdout
    options = ["--model", "mine.Net(width=5)", "--out", "b"]
    accepted = run([*common, *options], tmp_path)
    assert accepted.returncode == 0, accepted.stderr
    assert "IMPORTED" in accepted.stdout
    unknown = run(["evaluate", "b", "--corruptions", "none"], tmp_path)
    assert unknown.returncode == 2
    assert "--model must be given, as --model mine.Net --model.width 5: " in (
        unknown.stderr
    )


def test_a_config_file_cannot_run_foreign_code(tmp_path, capsys):
    config = tmp_path / "evil.yaml"
    config.write_text(
        "method: {class_path: subprocess.Popen, init_args: {args: [touch, gone]}}\n"
    )
    with pytest.raises(SystemExit):
        main(["train", "--config", str(config), "--out", str(tmp_path / "run")])
    assert "must name a class that tepui offers" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_an_example(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    shown = capsys.readouterr().out
    assert f"tepui {command}" in shown.partition("example: ")[2]
    assert "torch.nn" not in shown
    assert "``" not in shown
    assert not re.search(r"--\w[\w.-]*_", shown)


def test_help_shows_the_options_that_are_taken(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["train", "--method", "DeepEnsemble(help=SharpBalance)"])
    shown = capsys.readouterr().out
    assert "--method.switch-at SWITCH_AT" in shown
    assert "``" not in shown
    words = ["--method", "SharpBalance(switch_at=5)", "--epochs", "1"]
    with pytest.raises(SystemExit):
        main(
            ["train", *words, "--set", "progress=none", "--out", str(tmp_path / "run")]
        )
    assert "switch_at must lie within the run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "--methods", "SMA"], "did you mean 'SAM'"),
        (["compare", "--resume"], "--out must be given to resume"),
        (
            ["train", "--method", "SAM(rho=-1)"],
            "rho must be non-negative",
        ),
        (["train", "--epochs", "0"], "epochs must be positive, got 0"),
        (["evaluate", "nowhere"], "no file or folder nowhere"),
        (["report", "nowhere"], "no file or folder nowhere"),
        (["train", "--set", "device=nowhere"], "device must name a device"),
        (
            ["train", "--loss", "CrossEntropy(label_smoothing=1.5)"],
            "label_smoothing must lie in [0, 1]",
        ),
        (["train", "--optimizer", "SGD(lr=1e30)", *SMALL], "must stay finite"),
        (["train", "--seeds", "1", "2", "--members", "3"], "one seed per member (3)"),
        (["train", "--members", "0"], "members must be positive, got 0"),
        (["compare", "--seeds", "1", "2", "3", "4"], "one seed per member (3)"),
    ],
)
def test_mistakes_end_in_one_line(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


@pytest.mark.parametrize("command", COMMANDS)
def test_an_interruption_before_any_work_says_what_there_is_to_say(
    command, monkeypatch, capsys
):
    def interrupted(words):
        raise KeyboardInterrupt

    monkeypatch.setattr("tepui.cli.main.check_names", interrupted)
    with pytest.raises(SystemExit) as stop:
        main([command])
    assert stop.value.code == 130
    way = ""
    if command in ("reproduce", "sweep"):
        way = "; run the same command again to continue"
    assert capsys.readouterr().err == f"tepui: interrupted{way}\n"


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_a_stopped_run_says_how_to_continue(number, code, tmp_path, capsys):
    words = ["train", "--epochs", "999", "--members", "1", "--out", str(tmp_path / "r")]
    words += ["--model", "ConvNet(width=1)", "--set", "progress=none"]

    def stop():
        while not (tmp_path / "r" / "checkpoint.json").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=stop)
    thread.start()
    try:
        with pytest.raises(SystemExit) as stopped:
            main(words)
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)
    assert stopped.value.code == code
    said = capsys.readouterr().err
    way = f"tepui: to continue, add --resume --out {tmp_path / 'r'} to the same command"
    assert way in said
    assert ("interrupted" in said) == (number == signal.SIGINT)


FEATURES = ["--data", "ArrayFile(path=features.npz)"]


@pytest.fixture
def features(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x, y = np.zeros((4, 3)), np.arange(4) % 2
    np.savez("features.npz", x_train=x, y_train=y, x_test=x, y_test=y)


@pytest.fixture
def _a_run(tmp_path, monkeypatch):
    """A folder that looks like a run's."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "ensemble.safetensors").touch()


@pytest.mark.usefixtures("_a_run")
@pytest.mark.parametrize("command", [["evaluate", "run"], ["compare"]])
def test_features_name_the_option_that_helps(command, features, capsys):
    with pytest.raises(SystemExit):
        main([*command, *FEATURES, "--corruptions", "cifar"])
    error = capsys.readouterr().err
    assert "dataset must be images" in error
    assert "pass --corruptions none" in error


@pytest.mark.usefixtures("_a_run")
def test_text_names_the_option_that_helps(tmp_path, capsys):
    write(tmp_path)
    text = ["--data", f"MRPC(root={tmp_path})"]
    with pytest.raises(SystemExit):
        main(["evaluate", "run", *text, "--corruptions", "cifar"])
    error = capsys.readouterr().err
    assert "dataset must hold images in one tensor" in error
    assert "pass --corruptions none" in error


def test_evaluate_names_the_shape_that_members_cannot_take(compared, features, capsys):
    run = ["evaluate", str(compared / "SAM" / "0"), "--overwrite"]
    with pytest.raises(SystemExit):
        main([*run, *FEATURES, "--corruptions", "none"])
    error = capsys.readouterr().err
    assert "model must accept samples of shape (3,), but: " in error
    assert "Traceback" not in error


def test_corruptions_beside_shifted_data_are_refused(tmp_path, capsys):
    options = ["--corruptions", "cifar", "--shifted", str(tmp_path)]
    with pytest.raises(SystemExit):
        main(["evaluate", str(tmp_path), *options])
    error = capsys.readouterr().err
    assert "--corruptions must be left out with --shifted" in error
    assert "got 'cifar'" in error


def test_unnamed_runs_take_the_next_free_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        main(["train", *SMALL, "--epochs", "1"])
    assert [p.name for p in sorted((tmp_path / "runs").iterdir())] == [
        "train-001",
        "train-002",
    ]


@pytest.mark.slow
def test_seeds_say_how_many_ensembles_there_are(tmp_path):
    options = ["--methods", "SAM", "--epochs", "1", "--corruptions", "none"]
    seeds = ["--seeds", "13", "17", "27", "113"]
    main(["compare", *SMALL, *options, *seeds, "--out", str(tmp_path / "run")])
    document = json.loads((tmp_path / "run" / "comparison.json").read_text())
    found = [e["seeds"] for e in document["methods"][0]["ensembles"]]
    assert found == [[13, 17], [27, 113]]


@pytest.mark.slow
def test_one_class_twice_with_other_values(tmp_path):
    methods = '[{"class_path": "SAM"}, {"class_path": "SAM", "init_args": {"rho": 1}}]'
    options = ["--epochs", "1", "--ensembles", "1", "--corruptions", "none"]
    out = tmp_path / "run"
    main(["compare", *SMALL, "--methods", methods, *options, "--out", str(out)])
    document = json.loads((out / "comparison.json").read_text())
    assert [m["hyperparameters"]["rho"] for m in document["methods"]] == [0.02, 1.0]


@pytest.mark.slow
def test_resuming_with_other_corruptions_measures_again(tmp_path, capsys):
    out = tmp_path / "run"
    options = ["--methods", "SAM", "--epochs", "1", "--ensembles", "1", *SMALL]
    main(["compare", *options, "--set", "corruptions=none", "--out", str(out)])
    assert "corrupted" not in capsys.readouterr().out
    again = ["--corruptions", "cifar", "--out", str(out), "--resume"]
    main(["compare", *options, *again])
    assert "corrupted" in capsys.readouterr().out


def test_tensorboard_files_lie_in_the_run_folder(tmp_path):
    pytest.importorskip("tensorboard")
    out = tmp_path / "run"
    main(
        [
            "train",
            *SMALL,
            "--epochs",
            "1",
            "--set",
            "track=tensorboard",
            "--out",
            str(out),
        ]
    )
    assert list((out / "tensorboard").glob("events.out.tfevents*"))


@pytest.mark.slow
def test_a_run_that_is_stopped_early_says_so_and_is_finished(tmp_path, capsys):
    out = tmp_path / "run"
    rule = ["--set", "early_stopping=EarlyStopping(patience=1, min_delta=1e6)"]
    options = [
        *SMALL,
        "--epochs",
        "5",
        *rule,
        "--set",
        "early_stopping=EarlyStopping(monitor=loss)",
    ]
    main(["train", *options, "--out", str(out)])
    said = capsys.readouterr().out
    assert "stopped after 2 of 5 epochs by EarlyStopping" in said
    assert "trained 2 members" in said
    assert "--resume" not in said
    main(["train", *options, "--out", str(out), "--resume"])
    assert "by EarlyStopping" in capsys.readouterr().out
    main(["evaluate", str(out), "--corruptions", "none"])
    assert (out / "evaluation.json").exists()


@pytest.mark.slow
def test_class_weights_are_part_of_the_loss(tmp_path):
    weights = [str(float(n)) for n in range(1, 11)]
    options = [
        *SMALL,
        "--epochs",
        "1",
        "--loss",
        "CrossEntropy(class_weights=[])",
        *weights,
    ]
    main(["train", *options, "--out", str(tmp_path / "one")])
    methods = ["--methods", "SAM", "--ensembles", "1", "--corruptions", "none"]
    main(["compare", *options, *methods, "--out", str(tmp_path / "all")])
    for run in ("one", "all/SAM/0"):
        config = json.loads((tmp_path / run / "run.json").read_text())["config"]
        assert config["loss"]["class_weights"] == [float(n) for n in range(1, 11)]


@pytest.mark.slow
def test_every_run_of_a_comparison_is_tracked(tmp_path):
    pytest.importorskip("tensorboard")
    options = ["--methods", "SAM", "GSAM", "--ensembles", "2", "--epochs", "1"]
    options += ["--corruptions", "none", "--set", "track=tensorboard", "--at-once", "2"]
    main(["compare", *SMALL, *options, "--out", str(tmp_path / "run")])
    found = {file.parents[2].name for file in tmp_path.rglob("events.out.tfevents*")}
    assert found == {"SAM", "GSAM"}
    assert len([*tmp_path.rglob("events.out.tfevents*")]) == 4
    document = json.loads((tmp_path / "run" / "comparison.json").read_text())
    assert "callbacks" not in document["settings"]


def test_only_known_trackers_are_named(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(
            ["train", *SMALL, "--set", "track=os.system", "--out", str(tmp_path / "x")]
        )
    assert "os.system" in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_line_and_python_have_the_same_defaults(tmp_path):
    main(
        [
            "train",
            "--epochs",
            "1",
            "--set",
            "progress=none",
            "--out",
            str(tmp_path / "command"),
        ]
    )
    tepui.fit(
        tepui.Ensemble.build(tepui.models.ConvNet, members=3),
        tepui.data.Digits(),
        method=tepui.methods.DeepEnsemble(),
        epochs=1,
        out=tmp_path / "python",
        progress="none",
    )
    command, python = (
        json.loads((tmp_path / way / "run.json").read_text())["config"]
        for way in ("command", "python")
    )
    assert command == python


def test_what_a_run_can_be_told_can_be_written(tmp_path, capsys):
    out = tmp_path / "run"
    words = [
        "--set",
        "runner=eager",
        "--set",
        "compile=False",
        "--set",
        "offload=True",
        "--set",
        "clip_norm=1",
    ]
    main(["train", *SMALL, "--epochs", "1", *words, "--out", str(out)])
    config = json.loads((out / "run.json").read_text())["config"]
    assert (config["runner"], config["compile"]) == ("eager", False)
    assert config["clip_norm"] == 1.0
    with pytest.raises(SystemExit):
        main(
            [
                "train",
                "--set",
                "runner=graph",
                "--set",
                "offload=True",
                "--out",
                str(tmp_path / "x"),
            ]
        )
    assert "offload must be False with runner" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["train", "compare"])
def test_every_field_of_the_specifications_is_an_option(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--print-config"])
    offered = {line.partition(":")[0] for line in capsys.readouterr().out.splitlines()}
    told = {field.name for spec in SPECIFICATIONS for field in fields(spec)}
    assert told - offered == LEFT_OUT[command]


@pytest.mark.parametrize("words", [["compare"], ["train", "--method", "SAM"]])
def test_a_printed_configuration_can_be_read_again(words, tmp_path, capsys):
    printed = []
    for more in ([], ["--config", str(tmp_path / "printed.yaml")]):
        with pytest.raises(SystemExit):
            main([words[0], *more, *words[1:], "--print-config"])
        printed.append(capsys.readouterr().out)
        (tmp_path / "printed.yaml").write_text(printed[0])
    assert "batch_size: 64" in printed[0]
    assert printed[0] == printed[1]


@pytest.mark.slow
def test_a_printed_configuration_fits_the_model_to_the_data_again(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(Path(__file__).parents[2] / "docs" / "examples")
    data = ["--data", "dataset.TwoMoons"]
    words = [
        "--model",
        "MLP(hidden=[7])",
        "--members",
        "2",
        "--epochs",
        "1",
        "--set",
        "progress=none",
    ]
    with pytest.raises(SystemExit):
        main(["train", *data, *words, "--print-config"])
    printed = tmp_path / "printed.yaml"
    printed.write_text(capsys.readouterr().out)
    main(["train", *data, *words, "--out", str(tmp_path / "written")])
    main(["train", *data, "--config", str(printed), "--out", str(tmp_path / "read")])
    models = [
        json.loads((tmp_path / way / "run.json").read_text())["config"]["models"]
        for way in ("written", "read")
    ]
    assert models[0] == models[1]
    assert tepui.load(tmp_path / "read").members[0].config == {
        "in_features": 2,
        "hidden": [7],
        "num_classes": 2,
    }


@pytest.mark.parametrize("words", [[], ["--model", "MLP"]])
def test_a_configuration_can_be_printed_before_what_is_required(words, capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["evaluate", *words, "--print-config"])
    printed = capsys.readouterr().out
    assert "batch_size" in printed
    assert "in_features" not in printed


def test_a_run_stops_where_it_is_told_and_goes_on(tmp_path, capsys):
    words = ["train", *SMALL, "--epochs", "2", "--out", str(tmp_path / "run")]
    main([*words, "--set", "stop_after=1"])
    assert (
        "stopped after 1 of 2 epochs; continue with --resume --out"
        in capsys.readouterr().out
    )
    main([*words, "--resume"])
    said = capsys.readouterr().out
    assert "trained 2 members" in said
    assert re.search(r"time: \d+\.\d s: \w+ing \d+ %, ", said)


@pytest.mark.slow
def test_a_branch_is_the_whole_run(tmp_path, capsys):
    begun, branch, whole = (str(tmp_path / name) for name in ("begun", "b", "w"))
    words = ["train", *SMALL, "--epochs", "2"]
    main([*words, "--set", "stop_after=1", "--out", begun])
    late = [*words, "--method", "SAM(start_at=1)"]
    main([*late, "--set", f"branch_from={begun}", "--out", branch])
    main([*late, "--out", whole])
    trained = [tepui.load(folder).state_dict() for folder in (branch, whole)]
    assert all(torch.equal(trained[0][name], trained[1][name]) for name in trained[1])
    with pytest.raises(SystemExit):
        main(
            [
                *words,
                "--method",
                "SAM",
                "--set",
                f"branch_from={begun}",
                "--out",
                begun + "x",
            ]
        )
    assert "method must begin like the run in" in capsys.readouterr().err


def test_flags_are_the_options_that_are_true_or_false():
    owners = [function for function, _ in COMMANDS.values()]
    kinds = {
        name: kind
        for owner in (*owners, *(spec.__init__ for spec in SPECIFICATIONS))
        for name, kind in get_type_hints(owner).items()
    }
    flags = {f"--{name}" for name, kind in kinds.items() if kind in (bool, bool | None)}
    assert set(FLAGS) == flags


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_explained(name):
    function, _ = COMMANDS[name]
    silent = [
        argument
        for argument in inspect.signature(function).parameters
        if not re.search(rf"^\s+{argument}: \S", function.__doc__, re.MULTILINE)
    ]
    assert silent == []
