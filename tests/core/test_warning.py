"""Warnings point at the line that called tepui, through every door."""

import inspect
import warnings

import pytest
import torch
from torch import nn

import tepui
from tepui.core.warning import warn
from tepui.data import Arrays
from tepui.metrics import TemperatureScaling, fit_calibration

LABELS = torch.arange(12) % 2
DATA = Arrays(torch.eye(2)[LABELS], LABELS)
LOGITS = torch.eye(2)[LABELS].unsqueeze(0)


def ensemble() -> tepui.Ensemble:
    """Two members that are always right and not sure."""
    members = [nn.Linear(2, 2, bias=False) for _ in range(2)]
    with torch.no_grad():
        for size, member in enumerate(members, 1):
            member.weight.copy_(size * torch.eye(2))
    return tepui.Ensemble(members)


CALLS = {
    "calibrate": lambda: ensemble().calibrate(DATA),
    "fit_calibration": lambda: fit_calibration(LOGITS, LABELS),
    "TemperatureScaling": lambda: TemperatureScaling.fit(LOGITS, LABELS),
    "conformal": lambda: ensemble().conformal(DATA, 0.99),
    "in a module": lambda: _Warning()(torch.zeros(1)),
}


class _Warning(nn.Module):
    @torch.no_grad()
    def forward(self, inputs):
        with torch.random.fork_rng():
            warn("mind this")
        return inputs


@pytest.mark.parametrize("name", CALLS)
def test_a_warning_points_at_the_caller(name):
    call = CALLS[name]
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always")
        call()
    assert {warning.filename for warning in log} == {__file__}
    if name != "in a module":
        assert {w.lineno for w in log} == {inspect.getsourcelines(call)[1]}


def test_a_category_is_kept():
    with pytest.warns(RuntimeWarning, match="beyond"):
        warn("beyond", RuntimeWarning)
