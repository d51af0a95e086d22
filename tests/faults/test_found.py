"""Bad calls that the suite found, one by one."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import tepui
from tepui import tasks
from tepui.data import ImageFiles, Texts, write_corrupted
from tepui.evaluation import prediction_cost
from tepui.losses import (
    binary_cross_entropy,
    cross_entropy,
    gaussian_nll,
    gaussian_parameters,
    pinball,
    squared_error,
)
from tepui.metrics import (
    conformal_quantile,
    gaussian_quantiles,
    interval_width,
    restrict_classes,
)
from tepui.sharpness import mean_of
from tepui.studies import paired_difference
from tepui.tasks import ClassPrediction, LabelPrediction
from tepui.theory import unroll_sam


def ensemble():
    made = tepui.Ensemble.build(lambda: nn.Linear(4, 3), members=2)
    made.task = tasks.Classes()
    return made


DATA = tepui.data.Arrays(torch.randn(6, 4), torch.arange(6) % 3)
NARROW = tepui.data.Arrays(torch.randn(6, 1), torch.arange(6) % 3)
LOST = tepui.data.Arrays(DATA.inputs * math.nan, DATA.targets)
PAIRS = torch.zeros(3, 4)
IMAGES = tepui.data.Arrays(torch.zeros(2, 3, 8, 8).byte(), torch.arange(2))


def kept(extractor=nn.Flatten, dataset=DATA, **how):
    return tepui.cached_features(extractor(), dataset, "cache", **how)


CALLS = {
    "a number": (lambda: ensemble().predict(torch.tensor(1.0)), "inputs must be sever"),
    "no classes": (
        lambda: restrict_classes(torch.tensor(1.0), torch.zeros(1), torch.ones(1)),
        "logits must have classes along",
    ),
    "half an axis": (
        lambda: gaussian_parameters(PAIRS, 0.5),
        "axis must be an integer",
    ),
    "no such axis": (lambda: gaussian_parameters(PAIRS, -1), "axis must be at least 0"),
    "complex": (
        lambda: gaussian_nll(PAIRS.to(torch.complex64), torch.zeros(3)),
        r"outputs must be floating point, got torch\.complex64",
    ),
    "whole numbers": (
        lambda: squared_error(PAIRS.long(), PAIRS),
        r"outputs must be floating point, got torch\.int64",
    ),
    "true means": (
        lambda: gaussian_nll(PAIRS.bool(), torch.zeros(3, 2)),
        r"outputs must be floating point, got torch\.bool",
    ),
    "other samples": (
        lambda: prediction_cost(ensemble(), NARROW),
        r"model must accept samples of shape \(1,\)",
    ),
    "no exchange": (
        lambda: tepui.evaluate(ensemble(), DATA, exchange=3),
        "exchange must be None, or how processes",
    ),
    "whole logits": (
        lambda: cross_entropy(PAIRS.long(), torch.arange(3)),
        r"outputs must be floating point, got torch\.int64",
    ),
    "true logits": (
        lambda: binary_cross_entropy(PAIRS.bool(), PAIRS),
        r"outputs must be floating point, got torch\.bool",
    ),
    "complex quantiles": (
        lambda: pinball(PAIRS.to(torch.complex64), PAIRS, (0.5,)),
        r"outputs must be floating point, got torch\.complex64",
    ),
    "no levels": (lambda: pinball(PAIRS, PAIRS, ()), r"levels must lie in \(0, 1\)"),
    "true ends": (
        lambda: interval_width(PAIRS, PAIRS.bool()),
        r"upper must be floating point, got torch\.bool",
    ),
    "other ends": (
        lambda: interval_width(PAIRS, PAIRS[:2]),
        r"lower must have shape \(2, 4\), to go with upper, got \(3, 4\)",
    ),
    "complex means": (
        lambda: gaussian_quantiles(PAIRS.to(torch.complex64), PAIRS, [0.5]),
        r"means must be floating point, got torch\.complex64",
    ),
    "one score": (
        lambda: conformal_quantile(torch.tensor(1.0), 0.5),
        r"scores must have shape \(samples, …\), got \(\)",
    ),
    "whole scores": (
        lambda: conformal_quantile(torch.arange(3), 0.9),
        r"scores must be floating point, got torch\.int64",
    ),
    "lost scores": (
        lambda: conformal_quantile(torch.full((3,), math.nan), 0.5),
        "scores must not be NaN",
    ),
    "true outputs": (
        lambda: ClassPrediction(torch.ones(2, 3, 4).bool()),
        r"^outputs must be floating point, got torch\.bool",
    ),
    "flat outputs": (
        lambda: LabelPrediction(torch.ones(2, 3)),
        r"^outputs must have shape \(members, samples, labels, …\), got \(2, 3\)",
    ),
    "infinite difference": (
        lambda: paired_difference([math.inf, 1.0], [0.0, 0.0]),
        r"first and second must differ by finite numbers, got \[inf, 1\.0\]",
    ),
    "lost gram": (
        lambda: unroll_sam(
            np.eye(3) * math.nan, np.ones(3), np.zeros(3), num_steps=2, eta=0.1, rho=0.1
        ),
        "gram must hold finite numbers, got '9 that are not'",
    ),
    "no values": (
        lambda: mean_of(torch.tensor(1.0), {}),
        r"^values must hold at least one, got \(\)",
    ),
    "lost values": (
        lambda: mean_of(torch.full((5,), math.nan), {}),
        r"^values that the model gives must not be NaN, got '5 NaN value\(s\) of 5'",
    ),
    "other extractor": (
        lambda: kept(lambda: nn.Linear(7, 3)),
        r"extractor must accept samples of shape \(4,\)",
    ),
    "mixed samples": (
        lambda: kept(lambda: nn.Flatten(0)),
        r"extractor must keep 6 samples apart, got \(24,\)",
    ),
    "lost features": (
        lambda: kept(dataset=LOST),
        "extractor must give no NaN for the samples, got 24",
    ),
    "no batch": (lambda: kept(batch_size=0), "batch_size must be positive, got 0"),
    "fewer workers": (lambda: kept(workers=-1), "workers must be non-negative, got -1"),
    "lost label": (
        lambda: ImageFiles([Path("a.png")], [math.nan]),
        r"targets must be integers, got torch\.float32",
    ),
    "fewer targets": (
        lambda: Texts(["a", "b"], [0]),
        r"must have as many samples as targets \(1\), got 2",
    ),
    "few tokens": (
        lambda: Texts(["a"], [0], vocabulary=9),
        "size must be greater than 1027, got 9",
    ),
    "half a token": (
        lambda: Texts(["a"], [0], length=9.5),
        r"length must be an integer, got 9\.5",
    ),
    "no layout": (
        lambda: write_corrupted(tepui.data.corrupted(IMAGES), "x", layout="array"),
        "layout must be one of arrays, folders, got 'array'",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_it_is_refused_by_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call, message = CALLS[name]
    with pytest.raises(ValueError, match=message):
        call()
    assert [*tmp_path.iterdir()] == []
