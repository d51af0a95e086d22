"""Notebooks show what their code gives, and are small."""

import importlib
import json
from pathlib import Path

import pytest

from pages import check_shown

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
LARGEST = 100_000  # bytes


def code_of(file):
    cells = json.loads(file.read_text())["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def kinds_of(outputs):
    return [[o["output_type"], *o.get("data", ())] for o in outputs]


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    return importlib.import_module("make_notebooks")


def test_there_are_two():
    assert [file.stem for file in NOTEBOOKS] == ["own_images", "when_not_to_trust"]


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_is_stored_with_small_outputs_and_no_script(file):
    assert file.stat().st_size < LARGEST
    cells = code_of(file)
    assert [cell["execution_count"] for cell in cells] == [*range(1, len(cells) + 1)]
    assert any("text/html" in o.get("data", {}) for c in cells for o in c["outputs"])
    assert "<script" not in file.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_shows_what_its_code_gives(file, script):
    cells = code_of(file)
    found = script.executed(json.loads(file.read_text()))
    for cell, outputs in zip(cells, found, strict=True):
        check_shown(script.text_of(outputs), script.text_of(cell["outputs"]))
        assert kinds_of(outputs) == kinds_of(cell["outputs"])
