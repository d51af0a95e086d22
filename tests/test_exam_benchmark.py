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
    asked, corrupted = [], exam.corrupted

    def noted(*data, **how):
        copies = corrupted(*data, **how)
        asked.append((how.get("keep", False), copies))
        return copies

    monkeypatch.setattr(exam, "corrupted", noted)
    exam.main()
    record = json.loads(file.read_text())
    first, second = record["seconds"]["float32"].values()
    assert set(first) == set(second) == {"whole", *exam.PHASES}
    kept = [copies for keep, copies in asked if keep]
    assert len(kept) == 2
    for copies in kept:  # what the second exam finds is what the first one made
        assert all(copies[cell] is copies[cell] for cell in copies)
    shown = capsys.readouterr().out
    assert "2 members of width 1, 30 images" in shown
    assert shown.count("| float32 |") == 2
