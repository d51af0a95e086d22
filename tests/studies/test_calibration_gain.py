"""Whether a calibration helps, by samples that it was not fitted on."""

from math import nan

import pytest
import torch

from tepui.data import Arrays
from tepui.ensembles.ensemble import Ensemble
from tepui.evaluation.applied import AppliedScores
from tepui.studies.calibration_gain import Gain, gain_of
from tepui.studies.statistics import Interval


@pytest.mark.parametrize(
    ("change", "effect"),
    [
        (Interval(-0.1, -0.15, -0.05, 30), "helps"),
        (Interval(0.1, 0.05, 0.15, 30), "hurts"),
        (Interval(-0.01, -0.05, 0.03, 30), "unknown"),
        (Interval(-0.01, -0.05, 0.0, 30), "unknown"),
        (Interval(nan, nan, nan, 0), "unknown"),
        (Interval(0.0, -1e-6, 1e-6, 30), "nothing"),
        (Interval(-2e-6, -3e-6, -1e-6, 30), "nothing"),
    ],
)
def test_the_interval_of_the_change_decides(change, effect):
    scores = AppliedScores(nll=0.5, ece=0.05)
    assert Gain(scores, scores, change, 30).effect == effect


class Passed(torch.nn.Module):
    """Gives its inputs back, times a factor."""

    def __init__(self, scale):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(scale))

    def forward(self, inputs):
        return self.scale * inputs


@pytest.mark.parametrize(
    ("scale", "samples", "helps"), [(4.0, 400, True), (1.0, 30, False)]
)
def test_samples_themselves_say_whether_it_helps(scale, samples, helps):
    draw = torch.Generator().manual_seed(0)
    inputs = torch.randn(samples, 3, generator=draw)
    labels = torch.multinomial(inputs.softmax(-1), 1, generator=draw).squeeze(1)
    data = Arrays(inputs, labels)
    ensemble = Ensemble([Passed(scale)], seed=0)
    ensemble.calibrate(data)
    found = gain_of(ensemble, data, "probability", {"batch_size": 16, "workers": 0})
    assert found.samples == samples
    assert (found.effect == "helps") == helps
    assert (found.after.nll < found.before.nll - 0.05) == helps
