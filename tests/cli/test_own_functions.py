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

def rows(logits, labels):
    return logits[0]

number = 3

def size(model, data, *, loss, generator):
    from tepui.sharpness import mean_of
    return mean_of(next(model.parameters()).detach().abs().flatten(), {})

again = size
def dusk(images, severity, draws):
    return images * (1 - 0.15 * severity)

def fog(images, severity, draws):
    return images
"""


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


def test_measures_are_named_by_their_paths(run, capsys):
    words = ["--data", "Digits", "--what", "sharpness", "--samples", "5"]
    own = ["--measures", "my_functions.size"]
    main(["measure", str(run), *words, *own, "--out", str(run.parent / "out")])
    document = json.loads((run.parent / "out" / "measure.json").read_text())
    assert document["sharpness"]["size"]["mean"] > 0
    assert "worst_case" in document["sharpness"]
    assert "size" in capsys.readouterr().out


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


METRICS = ["evaluate", "run", "--data", "Digits", "--corruptions", "none", "--metrics"]
TYPES = ["corrupt", "--out", "out", "--types"]
MEASURES = ["measure", "run", "--out", "out"]
SIZE = ["--measures", "my_functions.size"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*METRICS, "spread"], "function must be a path"),
        ([*METRICS, "nowhere.spread"], "function must name what can be imported"),
        ([*METRICS, "my_functions.gone"], "imported, got 'my_functions.gone'"),
        ([*METRICS, "my_functions.number"], "function must be a function, got 'my_f"),
        ([*METRICS, "my_functions.rows"], "metrics['rows'] must return a scalar"),
        ([*TYPES, "my_functions.fog"], "types must name functions that are called oth"),
        ([*TYPES, "my_functions.number"], "function must be a function, got"),
        ([*MEASURES, *SIZE, "my_functions.again"], "measures must name each function"),
        ([*MEASURES, *SIZE, "worst_case"], "function must be"),
        ([*MEASURES, *SIZE, "tepui.sharpness.fisher_trace"], "be none of tepui's"),
        ([*MEASURES, "--what", "diversity", *SIZE], "hold sharpness"),
    ],
)
def test_mistakes_are_named_before_anything_is_made(words, message, run, capsys):
    assert message in refused(words, capsys)
    assert not (run.parent / "out").exists()
    assert not (run / "evaluations/clean.json").exists()
