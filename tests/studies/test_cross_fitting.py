"""What calibration does to samples it was not fitted on, against the plain way."""

import pytest
import torch

from tepui import tasks
from tepui.ensembles.meaning import HeldOut
from tepui.metrics import TemperatureScaling, nll
from tepui.studies.calibration_gain import FOLDS, loss_changes


def held(samples, scale, seed=0):
    """Return logits that are right as often as they say where the scale is one."""
    draw = torch.Generator().manual_seed(seed)
    logits = torch.randn(2, samples, 4, generator=draw)
    probs = logits.softmax(-1).mean(0)
    labels = torch.multinomial(probs, 1, generator=draw).squeeze(1)
    return HeldOut(scale * logits, labels, tasks.Classes())


def test_each_sample_is_calibrated_by_the_others():
    found = held(23, 3.0)
    changes = loss_changes(found, "temperature", "probability")
    order = torch.randperm(23, generator=torch.Generator().manual_seed(0))
    fold = order.tensor_split(FOLDS)[0]
    rest = torch.tensor([n for n in range(23) if n not in fold.tolist()])
    fitted = TemperatureScaling.fit(found.outputs[:, rest], found.targets[rest])
    one = fold[:1]
    logits, label = found.outputs[:, one], found.targets[one]
    expected = nll(fitted.apply(logits), label) - nll(logits, label)
    assert float(changes[one]) == pytest.approx(float(expected), rel=1e-4)


@pytest.mark.parametrize("method", ["temperature", "vector", "isotonic"])
def test_overconfidence_is_mended_for_every_method(method):
    changes = loss_changes(held(400, 5.0), method, "probability")
    assert changes.shape == (400,)
    assert changes.mean() < -0.1


def test_a_map_of_many_numbers_does_harm_where_nothing_is_to_be_mended():
    changes = loss_changes(held(40, 1.0), "isotonic", "probability")
    assert changes.mean() > 0


def test_fewer_samples_than_folds_say_nothing():
    assert len(loss_changes(held(FOLDS - 1, 1.0), "temperature", "probability")) == 0


def test_labels_that_hold_or_not_count_by_sample():
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 300, 3, generator=draw)
    targets = torch.bernoulli(logits.sigmoid().mean(0), generator=draw)
    sure = HeldOut(6 * logits, targets, tasks.Labels())
    changes = loss_changes(sure, "temperature", "probability")
    assert changes.shape == (300,)
    assert changes.mean() < -0.1


def test_pixels_without_a_label_do_not_count():
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(1, 40, 3, 2, 2, generator=draw)
    probs = logits[0].movedim(1, -1).softmax(-1).reshape(-1, 3)
    labels = torch.multinomial(probs, 1, generator=draw).reshape(40, 2, 2)
    labels[:, 0, 0] = -100
    found = HeldOut(4 * logits, labels, tasks.Classes())
    changes = loss_changes(found, "temperature", "probability")
    assert changes.shape == (40,)
    assert changes.isfinite().all()
    assert changes.mean() < 0
