"""What a prediction costs: counted by hand, and shared parts once."""

from itertools import count
from types import SimpleNamespace

import torch
from torch import nn

from tepui import Ensemble
from tepui.data import Arrays
from tepui.evaluation import prediction_cost


def data():
    return Arrays(torch.randn(6, 4), torch.arange(6) % 3)


def test_parameters_operations_and_time_are_those_counted_by_hand(monkeypatch):
    watch = SimpleNamespace(perf_counter=count(0, 0.25).__next__)
    monkeypatch.setattr("tepui.evaluation.cost.time", watch)
    ensemble = Ensemble.build(
        lambda: nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)), 3
    )
    cost = prediction_cost(ensemble, data())
    linear = 4 * 5 + 5 + 5 * 3 + 3
    assert cost.parameters == 3 * (linear + 10)
    # Running mean and variance, and a whole number that counts batches.
    assert cost.bytes == 3 * (4 * (linear + 10 + 10) + 8)
    assert cost.operations == 3 * 2 * (4 * 5 + 5 * 3)
    assert cost.seconds == 0.25
    assert cost.peak_bytes is None
    assert all(part.training for part in ensemble.modules())


def test_a_shared_extractor_counts_once():
    body = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
    ensemble = Ensemble.on_features(body, lambda: nn.Linear(8, 3), 5)
    cost = prediction_cost(ensemble, data())
    assert cost.parameters == 4 * 8 + 8 + 5 * (8 * 3 + 3)
    assert cost.operations == 2 * (4 * 8 + 5 * 8 * 3)
