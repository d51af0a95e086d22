"""Where a person stumbled once: what is said there now."""

import json
import subprocess
import sys

import pytest

import tepui
from refusals import refused
from tepui.cli.main import main

QUIET = ["--set", "progress=none"]
TWO = ["--model", "MLP(hidden=[8])", "--members", "2", *QUIET]
SMALL = [*TWO, "--epochs", "1"]


def test_resuming_where_nothing_is_begins_and_says_so(tmp_path, capsys):
    out = str(tmp_path / "run")
    main(["train", *SMALL, "--resume", "--out", out])
    assert f"nothing to continue in {out}" in capsys.readouterr().err
    assert tepui.load(out)
    main(["train", *SMALL, "--resume", "--out", out])
    assert "nothing to continue" not in capsys.readouterr().err


@pytest.fixture(scope="module")
def held_out(tmp_path_factory):
    run = tmp_path_factory.mktemp("stumbles") / "run"
    main(["train", *SMALL, "--validation", "0.2", "--out", str(run)])
    return run


def test_only_what_differs_is_named_when_a_run_is_resumed(tmp_path, capsys):
    words = ["train", *SMALL, "--out", str(tmp_path / "run")]
    main([*words, "--method", "SAM(rho=0.1)"])
    other = ["--method", "SAM(rho=0.2)", "--set", "batch_size=32", "--resume"]
    said = refused([*words, *other], capsys)
    assert "method must be what the run in" in said
    assert "(rho: 0.1) to resume it, got 0.2; so must batch_size" in said
    assert "{" not in said


def test_a_diverged_run_says_what_to_do(tmp_path, capsys):
    rate = ["--optimizer", "SGD(lr=1e30)"]
    said = refused(["train", *SMALL, *rate, "--out", str(tmp_path / "run")], capsys)
    assert "must stay finite" in said
    assert "begin another run in a new folder (--out), with a lower learning" in said
    corrected = ["train", *SMALL, "--out"]
    for words in (["predict"], ["evaluate"], ["report"], corrected):
        said = refused([*words, tmp_path / "run"], capsys)
        assert "diverged and has no ensemble (" in said
        assert "must stay finite" in said
        assert "begin another in a new folder, with a lower learning rate" in said
        assert "clip_norm=1 (--set clip_norm=1)" in said
        assert "resume" not in said
        assert "tepui evaluate" not in said


def test_a_run_that_has_not_ended_is_not_to_be_evaluated(tmp_path, capsys):
    stopped = ["--epochs", "2", "--set", "stop_after=1", "--out", str(tmp_path / "run")]
    main(["train", *TWO, *stopped])
    said = refused(["report", tmp_path / "run"], capsys)
    assert "has not ended; finish it with resume=True (--resume)" in said
    assert "tepui evaluate" not in said


def test_a_resumed_comparison_keeps_its_methods(tmp_path, capsys):
    out = tmp_path / "all"
    words = ["compare", *SMALL, "--ensembles", "1", "--set", "corruptions=none"]
    words += ["sharpness=0", "--resume", "--out", str(out), "--methods"]
    main([*words, "SAM"])
    main([*words, "GSAM"])
    document = json.loads((out / "results.json").read_text())
    assert [*document["settings"]["runs"]] == ["SAM", "GSAM"]
    capsys.readouterr()
    said = refused([*words, "DeepEnsemble", "--set", "batch_size=32"], capsys)
    assert "methods must hold those of" in said
    assert "(SAM, GSAM), since these differ: batch_size, got 'DeepEnsemble'" in said
    assert not (out / "DeepEnsemble").exists()


def test_warnings_are_shown_without_the_place_in_the_source(tmp_path):
    script = (
        "import warnings, tepui.cli.settings as s, tepui.cli.main as m\n"
        "def settings():\n    warnings.warn('mind this')\n"
        "s.settings = settings\n"
        "m.main(['settings'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stderr == "warning: mind this\n"


def test_options_that_hold_something_else_are_told_what_to_write(tmp_path, capsys):
    (tmp_path / "photos").mkdir()
    folder = ["--data", f"ImageFolder(path={tmp_path / 'photo'})"]
    for words, told in (
        (
            ["--set", "early_stopping=7"],
            "stopping must be written such as EarlyStopping(patience=5), got 7",
        ),
        (
            ["--loss", "CrossEntropy(class_weights=balance)"],
            "got 'balance' (did you mean 'balanced'?)",
        ),
        (["--set", "device=gpu"], "device must name a device, got 'gpu'"),
        (folder, f"path must be a folder of images, got {tmp_path / 'photo'}"),
    ):
        out = tmp_path / "run"
        said = refused(["train", *SMALL, *words, "--out", out], capsys)
        assert told in said
        assert "<class" not in said
        assert not out.exists()


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("photos", "ImageFolder(path=photos)"),
        ("t.csv", "Table(path=t.csv, target=COLUMN)"),
        ("t.parquet", "Table(path=t.parquet, target=COLUMN)"),
        ("x.npz", "ArrayFile(path=x.npz)"),
    ],
)
def test_a_path_that_is_no_data_set_is_told_how_it_is_written(
    name, written, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).mkdir() if name == "photos" else (tmp_path / name).touch()
    for option, text in (("--data", name), ("--ood", f"far={name}")):
        said = refused(["compare", option, text], capsys)
        assert f"{option}: data must be written {written}, got '{name}'" in said


@pytest.mark.parametrize("command", ["train", "compare"])
def test_a_corrected_command_runs_in_the_folder_of_the_refused_one(
    command, held_out, tmp_path, capsys
):
    words = [command, "--members", "2", "--epochs", "1", *QUIET]
    words += ["--out", str(tmp_path / "out")]
    if command == "train":
        words += ["--extractor", str(held_out)]
    else:
        words += ["--ensembles", "1", "--methods", "SAM"]
        words += ["--set", "corruptions=none", f"extractor={held_out}"]
    assert "class_weights must hold one number for each" in refused(
        [*words, "--loss", "CrossEntropy(class_weights=[1, 2])"], capsys
    )
    main(words)
    made = {"train": "heads/ensemble.safetensors", "compare": "results.json"}
    assert (tmp_path / "out" / made[command]).is_file()
