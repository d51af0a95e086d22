"""Metrics of the caller's own appear beside the built-in scores."""

import math
from statistics import fmean

import pytest
import torch
from torch import nn

import tepui
from tepui import Ensemble, metrics
from tepui.data import Arrays

NOISE = torch.Generator().manual_seed(0)
X, Y = torch.randn(40, 4, generator=NOISE), torch.arange(40) % 3
DATA = Arrays(X, Y)
SHIFTED = {("noise", 1): Arrays(X + 1, Y), ("noise", 2): Arrays(X + 2, Y)}


@pytest.fixture
def ensemble():
    return Ensemble.build(lambda: nn.Linear(4, 3), members=3, seed=13)


def spread(logits, labels):
    return logits.std(0).mean()


def first_class(logits, labels):
    return float((labels == 0).double().mean())


OWN = {"spread": spread, "first_class": first_class, "aurc": metrics.aurc}


def test_they_are_called_with_the_logits_and_labels_of_every_data_set(ensemble):
    result = tepui.evaluate(ensemble, DATA, shifted=SHIFTED, metrics=OWN)
    cells = {"clean": (DATA, result.clean)}
    cells |= {cell: (SHIFTED[cell], result.shifted[cell]) for cell in SHIFTED}
    for data, scores in cells.values():
        logits = ensemble.logits(data.inputs)
        assert scores.custom == pytest.approx(
            {
                "spread": spread(logits, Y).item(),
                "first_class": 14 / 40,
                "aurc": metrics.aurc(logits, Y).item(),
            },
            rel=1e-5,
        )
        assert list(scores.values())[-3:] == list(OWN)
    mean = fmean(scores.custom["spread"] for scores in result.shifted.values())
    assert result.corrupted_mean.custom["spread"] == pytest.approx(mean)
    assert list(result.by_severity()[2].custom) == list(OWN)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_finite_is_shown_as_undefined(ensemble, value):
    result = tepui.evaluate(ensemble, DATA, metrics={"odd": lambda x, y: value})
    assert result.clean.custom["odd"] == pytest.approx(value, nan_ok=True)
    assert result.document()["clean"]["odd"] is None


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ([spread], r"^metrics must be a mapping or None"),
        ({"spread": 3}, r"^metrics\['spread'\] must be a function, got 3"),
        ({"nll": spread}, r"^metrics must have other names than .*, got 'nll'"),
        (
            {"rows": lambda logits, labels: logits.mean(0)},
            r"^metrics\['rows'\] must return a scalar, got .*40, 3",
        ),
    ],
)
def test_bad_metrics_are_refused_and_nothing_is_stored(
    ensemble, metrics, message, tmp_path
):
    with pytest.raises(ValueError, match=message):
        tepui.evaluate(ensemble, DATA, metrics=metrics, out=tmp_path)
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]
