"""Own functions, named on the command line: --metrics, --measures, --types."""

import json
import sys

import pytest
import torch

import tepui
from refusals import refused
from tepui.cli.main import main
from tepui.core.spec import read
from tepui.data import Digits
from tepui.evaluation import read_evaluation
from tepui.models import MLP

MINE = """
print("imported")

def spread(logits, labels):
    return logits.std(0).mean()

def rows(logits, labels):
    return logits[0]

number = 3

def size(model, data, *, loss, generator):
    from tepui.sharpness import mean_of
    return mean_of(next(model.parameters()).detach().abs().flatten(), {})

again = size
def accuracy(logits, labels):
    return spread(logits, labels)

def dusk(images, severity, draws):
    return images * (1 - 0.15 * severity)

def fog(images, severity, draws):
    return images
"""
SPREAD, AURC = ["--metrics", "my_functions.spread"], ["--metrics", "tepui.metrics.aurc"]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A saved ensemble beside a file of functions, in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "my_functions", raising=False)
    (tmp_path / "my_functions.py").write_text(MINE)
    tepui.Ensemble.build(lambda: MLP(hidden=(4,)), members=2).save(tmp_path / "run")
    yield tmp_path / "run"
    sys.modules.pop("my_functions", None)


def evaluated(run, *words):
    main(["evaluate", str(run), "--data", "Digits", "--corruptions", "none", *words])
    return read_evaluation(run)


def test_measures_are_named_by_their_paths(run, capsys):
    words = ["--data", "Digits", "--what", "sharpness", "--samples", "5"]
    own = ["--measures", "my_functions.size"]
    main(["measure", str(run), *words, *own, "--out", str(run.parent / "out")])
    document = json.loads((run.parent / "out" / "measure.json").read_text())
    assert document["sharpness"]["size"]["mean"] > 0
    assert "worst_case" in document["sharpness"]
    assert "size" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--measures", "my_functions.again"], "measures must name each function"),
        (["--measures", "worst_case"], "function must be"),
        (["--measures", "tepui.sharpness.fisher_trace"], "must be none of tepui's"),
        (["--what", "diversity", "--measures"], "hold sharpness"),
    ],
)
def test_measures_that_could_not_be_told_apart_are_refused(run, words, message, capsys):
    out = run.parent / "out"
    assert message in refused(
        ["measure", str(run), *words, "my_functions.size", "--out", str(out)], capsys
    )
    assert not out.exists()


BROKEN = {
    "metrics": "def broken(logits, labels):\n    return {}['gone']\n",
    "model": "from torch import nn\n\nclass Broken(nn.Module):\n"
    "    def forward(self, x):\n        return gone(x)\n",
    "method": "from tepui.methods import SAM\n\nclass Broken(SAM):\n"
    "    def __post_init__(self):\n        raise ValueError('odd')\n",
}


@pytest.mark.filterwarnings("ignore:members")  # without weights they are identical
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("metrics", "line 2, in broken: KeyError: 'gone'"),
        ("model", "line 5, in forward: NameError: "),
        ("method", "line 5, in __post_init__: ValueError: odd"),
    ],
)
def test_an_error_in_ones_own_code_names_its_line(kind, said, run, capsys):
    (run.parent / f"broken_{kind}.py").write_text(BROKEN[kind])
    name = "broken" if kind == "metrics" else "Broken"
    words = [f"--{kind}", f"broken_{kind}.py:{name}", "--data", "Digits"]
    words = ["evaluate", run, *words] if kind == "metrics" else ["train", *words]
    assert f"broken_{kind}.py, {said}" in refused(words, capsys)


def test_a_corruption_of_ones_own_is_written_and_evaluated_on(run):
    words = ["--types", "contrast", "my_functions.dusk", "--out", "copies"]
    main(["corrupt", *words])
    written = tepui.data.corrupted_files("copies", Digits(train=False))
    assert written.names == ("contrast", "dusk")
    dusk = read("my_functions.dusk", "function", own=True)
    made = tepui.data.corrupted(Digits(train=False), types=[dusk])["dusk", 2]
    assert torch.equal(written["dusk", 2].inputs, made.inputs)
    main(["evaluate", str(run), "--data", "Digits", "--copies", "copies"])
    cells = read_evaluation(run)["cells"]
    assert {cell["type"] for cell in cells} == {"contrast", "dusk"}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("my_functions.fog", "types must name functions that are called otherwise"),
        ("my_functions.number", "function must be a function, got"),
        ("my_functions.gone", "function must name what can be imported, got"),
    ],
)
def test_a_corruption_that_cannot_be_is_refused(run, path, message, capsys):
    assert message in refused(["corrupt", "--types", path, "--out", "copies"], capsys)
    assert not (run.parent / "copies").exists()


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("spread", "function must be a path"),
        ("nowhere.spread", "function must name what can be imported"),
        ("my_functions.gone", "imported, got 'my_functions.gone'"),
        ("my_functions.number", "function must be a function, got 'my_functions.n"),
    ],
)
def test_mistakes_are_named(run, path, message, capsys):
    with pytest.raises(SystemExit):
        evaluated(run, "--metrics", path)
    assert message in " ".join(capsys.readouterr().err.split())
