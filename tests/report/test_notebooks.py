"""What notebooks show: pieces of the page, escaped, with a style for them alone."""

import pytest
import torch
from torch import nn

import tepui
from tepui.report.notebooks import html
from tepui.studies import Results, averaged
from tepui.tasks import ClassPrediction


def named(method):
    names = {"item": "a", "dataset": "clean", "architecture": "m", "unit": "none"}
    names |= {"method": method, "metric": "accuracy"}
    row = averaged([0.5, 0.625, 0.875], [], **names)
    return Results("a", method, "", {}, {}, (row,))


BAD = "<script>alert('$x$')</script>"


def data(targets):
    x = torch.linspace(-1, 1, 40).reshape(20, 2)
    return tepui.data.Arrays(x, targets)


TASKS = {
    "classes": (lambda: nn.Linear(2, 3), torch.arange(20) % 3, None),
    "numbers": (lambda: nn.Linear(2, 1), torch.linspace(0, 1, 20), tepui.losses.MSE()),
    "gaussian": (
        lambda: nn.Linear(2, 2),
        torch.linspace(0, 1, 20),
        tepui.losses.GaussianNLL(),
    ),
    "labels": (
        lambda: nn.Linear(2, 2),
        torch.arange(40).reshape(20, 2) % 2.0,
        tepui.losses.BinaryCrossEntropy(),
    ),
    "quantiles": (
        lambda: nn.Linear(2, 3),
        torch.linspace(0, 1, 20),
        tepui.losses.Quantiles((0.1, 0.5, 0.9)),
    ),
}


@pytest.mark.parametrize("name", TASKS)
def test_runs_predictions_and_evaluations_of_every_task_show_themselves(name):
    factory, targets, loss = TASKS[name]
    ensemble = tepui.Ensemble.build(factory, members=2, seed=1)
    how = {"method": tepui.methods.DeepEnsemble(), "epochs": 60, "progress": "none"}
    how["optimizer"] = tepui.AdamW(lr=0.05)
    run = tepui.fit(ensemble, data(targets), **how, **({"loss": loss} if loss else {}))
    found = [
        run,
        ensemble.predict(data(targets)),
        tepui.evaluate(ensemble, data(targets)),
    ]
    for shown in found:
        piece = shown._repr_html_()
        assert str(shown).partition("\n")[0] in piece
        assert piece.startswith('<div class="tepui">')
        assert piece.rstrip().endswith("</div>")
        assert "<script" not in piece


def test_names_are_escaped():
    prediction = ClassPrediction(torch.randn(2, 3, 2), classes=(BAD, f"other {BAD}"))
    for shown in (prediction, named(BAD)):
        piece = shown._repr_html_()
        assert "<script" not in piece
        assert "&lt;script&gt;alert(&#39;$x$&#39;)" in piece


def test_results_are_a_table_with_intervals():
    piece = named("SAM")._repr_html_()
    assert "0.667" in piece
    assert "0.192 to 1.141" in piece


def test_style_stays_within_the_piece():
    piece = named("SAM")._repr_html_()
    style = piece.partition("<style>")[2].partition("</style>")[0].strip()
    assert style.startswith("@scope (.tepui) {")
    assert style.endswith("}")
    assert ":root" not in style
    assert "\nbody" not in style
    assert style.count("{") == style.count("}")


def test_other_things_are_refused():
    with pytest.raises(TypeError, match="of a kind that notebooks show"):
        html(3)
