"""Scripts that make the documents' numbers and pictures can be run."""

import importlib
import sys

import pytest

from pages import ROOT

DOCS, BENCHMARKS = ROOT / "docs", ROOT / "benchmarks"
SCRIPTS = [*sorted(DOCS.glob("make_*.py")), *sorted(BENCHMARKS.glob("*.py"))]
# What these import comes with an extra, or with the package that they read.
NEEDS = {"export": "onnxruntime", "flights": "pandas"}


@pytest.fixture
def script(monkeypatch):
    """Return a script as a module, which is forgotten afterwards."""
    for folder in (ROOT / "tests", BENCHMARKS, DOCS):
        monkeypatch.syspath_prepend(folder)
    before = {*sys.modules}
    yield importlib.import_module
    for name in {*sys.modules} - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith((f"{DOCS}/", f"{BENCHMARKS}/")):
            del sys.modules[name]


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: file.stem)
def test_a_script_finds_what_it_imports(script, file):
    if file.stem in NEEDS:
        pytest.importorskip(NEEDS[file.stem])
    assert script(file.stem)


@pytest.mark.parametrize("more", [[], ["--separately"]], ids=["at once", "separately"])
def test_all_metrics_can_be_timed(script, monkeypatch, capsys, more):
    small = ["--members", "2", "--samples", "100", "--classes", "5"]
    monkeypatch.setattr(sys, "argv", ["metrics.py", *small, *more])
    script("metrics").main()
    assert "all" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("name", ["make_measure_pictures", "make_prediction_pictures"])
def test_every_picture_of_a_measure_is_drawn(script, monkeypatch, tmp_path, name):
    module = script(name)
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    module.main()
    drawn = {file.name for file in tmp_path.iterdir()}
    kept = {file.name for file in (DOCS / "images" / "measures").iterdir()}
    assert drawn
    assert drawn <= kept
