"""Runs that are not there, or are several: the message names what was perhaps meant."""

import os
from pathlib import Path

import pytest

from tepui.cli.folders import check_run, check_there, runs_below
from tepui.cli.main import main


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("flat/a", "flat/b", "flat/deep/c", "sam-001"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "run.json").touch()
    (tmp_path / "runs/empty").mkdir()
    return tmp_path / "runs"


COMMANDS = ("predict", "evaluate", "calibrate", "export", "measure")


@pytest.mark.parametrize("command", [*COMMANDS, "report", "verify"])
def test_the_nearest_run_is_named(command, runs, capsys):
    with pytest.raises(SystemExit):
        main([command, "runs/sam-01"])
    said = "no file or folder runs/sam-01 (did you mean 'runs/sam-001'?)"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_of_runs_names_those_inside(command, runs, capsys):
    with pytest.raises(SystemExit):
        main([command, "runs/flat"])
    assert (
        "runs/flat is not a run but holds some: runs/flat/a, runs/flat/b, "
        "runs/flat/deep/c"
    ) in capsys.readouterr().err


def test_what_is_far_from_all_has_no_hint(runs, capsys):
    with pytest.raises(SystemExit):
        main(["predict", "elsewhere"])
    assert capsys.readouterr().err == "tepui: no file or folder elsewhere\n"


def test_a_run_and_a_folder_of_weights_pass(runs):
    check_run(runs / "flat/a")
    check_run(runs / "empty")
    (runs / "empty/ensemble.safetensors").mkdir()  # a folder is no ensemble
    assert [*runs_below(runs / "empty", 3)] == []


def test_runs_deeper_than_asked_are_not_looked_for(runs):
    assert [path.name for path in runs_below(runs, 2)] == ["a", "b", "sam-001"]


def test_folders_that_may_not_be_read_are_passed_over(runs, monkeypatch):
    def refusing(call):
        def refused(path, *arguments, **options):
            if "deep" in Path(path).parts:
                raise PermissionError(13, "Permission denied", str(path))
            return call(path, *arguments, **options)

        return refused

    monkeypatch.setattr(os, "scandir", refusing(os.scandir))
    monkeypatch.setattr(os, "stat", refusing(os.stat))
    assert [path.name for path in runs_below(runs, 3)] == ["a", "b", "sam-001"]


def test_beside_what_is_missing_only_folders_are_looked_at(runs, monkeypatch):
    (runs.parent / "elsewhere/deep/run").mkdir(parents=True)
    seen, walk = [], os.walk
    monkeypatch.setattr(os, "walk", lambda top: seen.append(str(top)) or walk(top))
    with pytest.raises(FileNotFoundError):
        check_there(Path("missing"))
    assert seen[0] == "."
    assert not any("elsewhere" in folder for folder in seen)


@pytest.mark.parametrize("command", ["predict", "evaluate", "calibrate", "export"])
def test_a_folder_of_other_files_is_no_run(command, tmp_path, capsys):
    words = [command, str(tmp_path), *([str(tmp_path)] * (command == "predict"))]
    with pytest.raises(SystemExit, match="2"):
        main(words)
    said = " ".join(capsys.readouterr().err.split())
    assert "RUN must be the folder of a run or of a saved ensemble, which" in said
