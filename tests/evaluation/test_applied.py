"""What calibration and sets give, beside the plain scores."""

import math

import pytest
import torch
from torch import nn

import tepui
from ensembles.blobs import blobs, overconfident
from tepui import Ensemble, tasks
from tepui.data import Arrays
from tepui.data.shifts import Shifts
from tepui.evaluation.results import by_severity
from tepui.metrics import ece, nll


@pytest.mark.parametrize("method", ["temperature", "vector", "isotonic"])
def test_calibrated_scores_stand_beside_the_plain_ones(method):
    ensemble, test = overconfident(), blobs(800, seed=2)
    plain = tepui.evaluate(ensemble, test)
    assert plain.applied is None
    assert "applied" not in plain.document()
    ensemble.calibrate(blobs(800, seed=1), method)
    found = tepui.evaluate(ensemble, test)
    assert found.clean == plain.clean
    probs = ensemble.predict(test).probs.log().unsqueeze(0)
    assert found.applied.nll == pytest.approx(nll(probs, test.targets).item(), rel=1e-4)
    assert found.applied.ece == pytest.approx(ece(probs, test.targets).item(), abs=1e-4)
    assert found.applied.nll < 0.7 * found.clean.nll
    assert math.isnan(found.applied.coverage)
    assert found.document()["applied"]["clean"]["coverage"] is None
    assert "  calibrated  " in str(found)
    assert "sets" not in str(found)


def test_coverage_breaks_as_data_are_shifted():
    ensemble = overconfident()
    ensemble.conformal(blobs(2000, seed=1), 0.9)
    shifted = {
        (kind, level): blobs(1000, seed=level, noise=1 + level)
        for kind in ("a", "b")
        for level in (1, 3)
    }
    found = tepui.evaluate(ensemble, blobs(2000, seed=2), shifted=shifted)
    assert found.applied.promised == 0.9
    assert "\n  sets  " in str(found)
    assert abs(found.applied.coverage - 0.9) < 4 * math.sqrt(0.09 / 1000)
    assert math.isnan(found.applied.nll)
    levels = by_severity(found.applied_shifted)
    assert list(levels) == [1, 3]
    assert 0.9 > levels[1].coverage + 0.1 > levels[3].coverage + 0.1
    assert 1 <= found.applied.size <= 3
    document = found.document()["applied"]["severities"]
    assert document["3"]["coverage"] == levels[3].coverage
    assert f"{levels[3].coverage:.4g}" in str(found)


def test_natural_shifts_stand_apart_from_corrupted_copies():
    ensemble = overconfident()
    ensemble.calibrate(blobs(1000, seed=1))
    ensemble.conformal(blobs(1000, seed=5), 0.9)
    sketch, copy = blobs(500, seed=3, noise=4), blobs(500, seed=4, noise=2)
    shifted = Shifts({("a", 1): copy}, {"sketch": sketch})
    found = tepui.evaluate(ensemble, blobs(500, seed=2), shifted=shifted)
    alone = {
        name: tepui.evaluate(ensemble, data).applied
        for name, data in (("copy", copy), ("sketch", sketch))
    }
    applied = found.applied_shifted
    assert applied == {("a", 1): alone["copy"], ("sketch", 0): alone["sketch"]}
    natural = found.document()["applied"]["natural"]
    assert natural == {"sketch": alone["sketch"].document()}
    assert str(found).count("sketch") == 2  # plain scores, those of sets


def test_another_rule_or_fewer_classes_leave_it_out():
    ensemble, test = overconfident(), blobs(100, seed=2)
    ensemble.calibrate(blobs(300, seed=1))
    assert tepui.evaluate(ensemble, test, rule="vote").applied is None
    two = Arrays(test.inputs, test.targets.clamp(max=1))
    mask = torch.tensor([True, True, False])
    assert tepui.evaluate(ensemble, two, classes=mask).applied is None
    ensemble.calibration = None
    ensemble.conformal(blobs(300, seed=1))
    assert tepui.evaluate(ensemble, test, rule="logit").applied is None


def test_pixels():
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(20, 2, 5, 4, generator=generator)
    labels = images.argmax(1)
    labels[::3] = 2
    labels[0, 0, 0] = -100
    data = Arrays(images, labels)
    ensemble = Ensemble.build(lambda: nn.Conv2d(2, 3, 1), 2, task=tasks.Classes())
    with torch.no_grad():
        for member in ensemble.members:
            member.weight[:2, :, 0, 0] += 3 * torch.eye(2)
    for method in ("temperature", "isotonic"):
        ensemble.calibrate(data, method)
        assert tepui.evaluate(ensemble, data).applied.nll < 1.2
