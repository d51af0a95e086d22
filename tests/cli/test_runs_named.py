"""What is no run is refused in one sentence by every command that opens runs."""

from pathlib import Path

import pytest

from refusals import refused

COMMANDS = ("predict", "evaluate", "calibrate", "export", "measure")
PLACES = {
    "runs/gone": "no file or folder runs/gone",
    "runs": "RUN must be the folder of a run or of a saved ensemble, which",
    "runs/broken": "no file or folder runs/broken",
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_no_run_is_refused(command, place, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("runs/flat").mkdir(parents=True)
    Path("runs/flat/run.json").touch()
    Path("runs/broken").symlink_to("elsewhere")
    said = PLACES[place] if command != "measure" or place != "runs" else "must"
    assert said in refused([command, place], capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


@pytest.mark.parametrize("command", ["report", "verify"])
def test_what_is_not_there_is_said(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    said = refused([command, "runs/gone"], capsys)
    assert said == "tepui: no file or folder runs/gone"
