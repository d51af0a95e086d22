"""Losses and weights that are no longer finite: what is named, what is kept."""

import math
import re

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import tepui
from tepui.data import Arrays
from tepui.methods import DeepEnsemble
from tepui.training.run_folder import RunFolder
from training.cases import CHECKPOINT, CLASSES, checkpointed, fitted, linear, numbers


class ExplodingLoss:
    """Cross-entropy that is not finite in one call of the training passes."""

    def __init__(self, at, value):
        self.at = at
        self.value = value
        self.calls = 0

    def __call__(self, outputs, targets):
        losses = nn.functional.cross_entropy(outputs, targets, reduction="none")
        self.calls += 1
        return losses + (self.value if self.calls == self.at else 0.0)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_divergence_names_member_step_and_checkpoint(tmp_path, value):
    # Three steps an epoch and member: call 11 is member 1's second step of epoch 1.
    schedule = tepui.Cosine()
    message = re.escape(
        f"loss of member 1 must stay finite, got {value} at step 4; "
        f"last good checkpoint: {tmp_path / CHECKPOINT}"
    )
    how = {"epochs": 3, "schedule": schedule, "factory": linear}
    with pytest.raises(tepui.TrainingDiverged, match=message):
        fitted(numbers(), loss=ExplodingLoss(11, value), out=tmp_path, **how)
    history = RunFolder(tmp_path).load_checkpoint().history
    assert [record.epoch for record in history] == [0]
    for tensors, _ in checkpointed(tmp_path):
        assert all(torch.isfinite(tensor).all() for tensor in tensors.values())
    whole = fitted(numbers(), loss=ExplodingLoss(0, value), **how)
    resumed = fitted(
        numbers(), loss=ExplodingLoss(0, value), out=tmp_path, resume=True, **how
    )
    assert resumed.history[-1].loss == whole.history[-1].loss


@pytest.mark.parametrize("out", [None, "run"])
def test_divergence_in_the_first_epoch_says_that_there_is_no_checkpoint(tmp_path, out):
    place = None if out is None else tmp_path / out
    message = "last good checkpoint: none was kept"
    with pytest.raises(tepui.TrainingDiverged, match=message):
        fitted(numbers(), linear, loss=ExplodingLoss(1, math.nan), out=place)


def spoiled():
    """Rows with NaN in two columns, and one infinite target."""
    x, y = torch.ones(24, 5), torch.zeros(24)
    x[3, 1], x[3, 4], x[20, 4], y[0] = math.nan, math.nan, -math.inf, math.inf
    return x, y


def one_number():
    return nn.Linear(5, 1)


class Named(nn.Linear):
    def forward(self, a, b):
        return super().forward(a) + b


@pytest.mark.parametrize("wrap", [Arrays, TensorDataset])
def test_data_that_are_not_finite_are_refused_before_training(tmp_path, wrap):
    x, y = spoiled()
    how = {"loss": tepui.losses.MSE(), "out": tmp_path / "run"}
    for inputs, targets, rows in ((x, torch.zeros(24), 2), (torch.ones(24, 5), y, 1)):
        message = (
            rf"dataset must be finite .*, got 'NaN or infinity in {rows} of 24 rows"
        )
        with pytest.raises(ValueError, match=message):
            fitted(wrap(inputs, targets), one_number, **how)
    named = Arrays({"a": x, "b": torch.ones(24, 1)}, torch.zeros(24))
    with pytest.raises(ValueError, match="dataset must be finite"):
        fitted(named, lambda: Named(5, 1), **how)
    good = Arrays(torch.ones(24, 5), torch.zeros(24))
    with pytest.raises(ValueError, match="validation must be finite"):
        fitted(good, one_number, validation=Arrays(x, torch.zeros(24)), **how)
    assert not (tmp_path / "run").exists()


def test_numbers_that_overflow_are_told_to_be_scaled(tmp_path):
    data = Arrays(torch.full((24, 5), 1e30), torch.zeros(24))
    with pytest.raises(tepui.TrainingDiverged, match="at step 0; last good"):
        fitted(data, one_number, loss=tepui.losses.MSE(), out=tmp_path)
    with pytest.raises(FileNotFoundError, match="targets scaled to about 1"):
        tepui.load(tmp_path)


def test_weights_that_explode_in_the_last_step_are_not_kept_as_good(tmp_path):
    """The loss before that step is finite, yet every later one would be NaN."""
    how = {
        "optimizer": tepui.SGD(lr=1e38, momentum=0),
        "schedule": tepui.MultiStep(milestones=(), warmup=0),
        "batch_size": 24,
        "factory": lambda: nn.Sequential(linear(), nn.Linear(CLASSES, CLASSES)),
    }
    large = Arrays(numbers().inputs * 1e3, numbers().targets)
    message = "weights of member 0 must stay finite, got infinite or NaN values at step"
    with pytest.raises(tepui.TrainingDiverged, match=message):
        fitted(large, out=tmp_path, **how)
    assert not (tmp_path / CHECKPOINT).exists()


def test_large_weights_whose_sum_overflows_are_no_divergence():
    def large():
        layer = linear()
        nn.init.constant_(layer.bias, 3e38)  # equal logits, whatever their size
        return layer

    run = fitted(numbers(), large, optimizer=tepui.SGD(lr=1e-3, weight_decay=0.0))
    member = run.ensemble.members[0]
    assert member.bias.isfinite().all()
    assert member.bias.sum().isinf()


def test_a_likelihood_is_learned_of_numbers_with_hardly_any_noise():
    """Its gradient grows as one over the variance, and is bounded by default."""
    x = torch.randn(150, 2, generator=torch.Generator().manual_seed(0))
    data = Arrays(x, x @ torch.tensor([0.8, 0.6]))
    how = {"loss": tepui.losses.GaussianNLL(), "epochs": 60, "progress": "none"}

    def learned(**more):
        ensemble = tepui.Ensemble.build(lambda: tepui.models.MLP(2, num_classes=2), 2)
        tepui.fit(ensemble, data, method=DeepEnsemble(), **how, **more)
        return tepui.evaluate(ensemble, data).clean

    assert learned().rmse < 0.05
    with pytest.raises(tepui.training.TrainingDiverged):
        learned(clip_norm=1e30)
