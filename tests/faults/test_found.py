"""Bad calls that the suite found, one by one."""

import pytest
import torch
from torch import nn

import tepui
from tepui.evaluation import prediction_cost
from tepui.losses import gaussian_nll, gaussian_parameters
from tepui.metrics import restrict_classes


def ensemble():
    made = tepui.Ensemble.build(lambda: nn.Linear(4, 3), members=2)
    made.task = tepui.Task("classification")
    return made


DATA = tepui.data.Arrays(torch.randn(6, 4), torch.arange(6) % 3)
NARROW = tepui.data.Arrays(torch.randn(6, 1), torch.arange(6) % 3)
PAIRS = torch.zeros(3, 4)
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
        "outputs must be real",
    ),
    "other samples": (
        lambda: prediction_cost(ensemble(), NARROW),
        r"model must accept samples of shape \(1,\)",
    ),
    "no exchange": (
        lambda: tepui.evaluate(ensemble(), DATA, exchange=3),
        "exchange must be None, or how processes",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_it_is_refused_by_name(name):
    call, message = CALLS[name]
    with pytest.raises(ValueError, match=message):
        call()
