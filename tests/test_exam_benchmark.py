"""The benchmark of exams runs at a small size, and its phases are those of an exam."""

import importlib
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def exam(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("exam")


def test_two_exams_are_timed_by_phase(exam, monkeypatch, tmp_path, capsys):
    file = tmp_path / "seconds.json"
    small = "--images 30 --members 2 --width 1 --severities 5 --batch 20 --device cpu"
    monkeypatch.setattr(sys, "argv", ["exam.py", *small.split(), "--json", str(file)])
    exam.main()
    record = json.loads(file.read_text())
    first, second = record["seconds"]["float32"].values()
    assert set(first) == set(second) == {"whole", *exam.PHASES}
    assert second[exam.COPIES] < first[exam.COPIES] / 10
    assert second[exam.JPEG] < first[exam.JPEG] / 10
    shown = capsys.readouterr().out
    assert "2 members of width 1, 30 images" in shown
    assert shown.count("| float32 |") == 2
