"""Calibration and conformal prediction of an ensemble: applied, saved, refused."""

import math
import warnings

import pytest
import torch
from torch import nn

import tepui
from ensembles.blobs import blobs, overconfident
from tepui import Ensemble, tasks
from tepui.data import Arrays
from tepui.losses import MSE, GaussianNLL, Quantiles
from tepui.methods import DeepEnsemble
from tepui.metrics import ece, ensemble_probs, nll
from tepui.tasks import TaskLacksError


def noisy(samples, seed):
    """A number whose noise grows with the input."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(samples, 1, generator=generator)
    noise = torch.randn(samples, 1, generator=generator)
    return Arrays(x, 2 * x + (0.1 + x) * noise)


METHODS = ("temperature", "vector", "isotonic")


@pytest.mark.parametrize("method", METHODS)
def test_predict_applies_what_calibrate_found(method):
    ensemble, test = overconfident(), blobs(1000, seed=2)
    before = ensemble.predict(test)
    found = ensemble.calibrate(blobs(1000, seed=1), method)
    assert ensemble.calibration is found
    after = ensemble.predict(test)
    loss = nll(after.probs.log().unsqueeze(0), test.targets)
    assert loss < 0.7 * nll(before.logits, test.targets)
    assert ece(before.logits, test.targets) > 0.15
    assert ece(after.probs.log().unsqueeze(0), test.targets) < 0.08
    torch.testing.assert_close(after.probs.sum(-1), torch.ones(1000))
    assert torch.equal(after.labels, after.probs.argmax(-1))
    torch.testing.assert_close(after.confidence, after.probs.amax(-1))
    if method == "isotonic":
        assert torch.equal(after.epistemic, before.epistemic)
    ensemble.calibration = None
    assert torch.equal(ensemble.predict(test).probs, before.probs)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("score", ["threshold", "aps"])
def test_saved_ensembles_predict_the_same(method, score, tmp_path):
    ensemble, test = overconfident(), blobs(200, seed=2)
    ensemble.calibrate(blobs(500, seed=1), method)
    ensemble.conformal(blobs(500, seed=3), 0.8, score)
    ensemble.save(tmp_path)
    again = tepui.load(tmp_path, lambda: nn.Linear(2, 3))
    first, second = ensemble.predict(test), again.predict(test)
    assert torch.equal(first.probs, second.probs)
    assert torch.equal(first.sets, second.sets)
    ensemble.calibration = None
    ensemble.save(tmp_path, overwrite=True)
    assert tepui.load(tmp_path, lambda: nn.Linear(2, 3)).calibration is None


def test_sets_are_made_of_calibrated_probabilities():
    ensemble, held = overconfident(), blobs(1000, seed=1)
    ensemble.calibrate(held)
    ensemble.conformal(blobs(1000, seed=3), 0.9)
    prediction = ensemble.predict(blobs(100, seed=2))
    assert torch.equal(prediction.sets, ensemble.conformity.sets(prediction.probs))
    with pytest.warns(UserWarning, match="are dropped: call conformal again"):
        ensemble.calibrate(held, "vector")
    assert ensemble.conformity is None


def moved(samples, seed):
    """Blobs of which those high up are likelier."""
    data = blobs(4 * samples, seed)
    generator = torch.Generator().manual_seed(seed)
    odds = (2 * data.inputs[:, 1]).sigmoid()
    kept = torch.multinomial(odds, samples, generator=generator)
    return data.subset(kept)


def test_sets_of_each_class_and_by_weights_are_saved(tmp_path):
    ensemble, test = overconfident(), blobs(200, seed=2)
    ensemble.calibrate(blobs(500, seed=1))
    for how in ({"per": "class"}, {"shift": moved(300, 5)}):
        ensemble.conformal(blobs(500, seed=3), 0.8, "aps", **how)
        ensemble.save(tmp_path, overwrite=True)
        again = tepui.load(tmp_path, lambda: nn.Linear(2, 3))
        assert torch.equal(ensemble.predict(test).sets, again.predict(test).sets)
        assert str(again.conformity) == str(ensemble.conformity)
    plain = overconfident()
    plain.conformal(blobs(500, seed=3), 0.8, "aps")
    assert not torch.equal(plain.predict(test).sets, ensemble.predict(test).sets)


def test_every_class_is_covered_as_told():
    held, test = blobs(4000, seed=3), blobs(4000, seed=2)
    coverages = []
    for per in (None, "class"):
        ensemble = overconfident()
        ensemble.conformal(held, 0.8, per=per)
        found = tepui.evaluate(ensemble, test)
        coverages.append(torch.tensor(found.by_class.coverage))
    assert ((coverages[1] - 0.8).abs() < 0.03).all()
    assert (coverages[0] - 0.8).abs().max() > 0.03
    others = held.subset((held.targets > 0).nonzero()[:, 0])
    with pytest.warns(UserWarning, match="class 0: 0"):
        overconfident().conformal(others, 0.8, per="class")


def test_sets_under_an_estimated_shift_hold_on_shifted_data():
    ensemble = overconfident()
    ensemble.conformal(blobs(4000, seed=3), 0.8, shift=moved(2000, 5))
    assert 0 < ensemble.conformity.effective_samples < 4000
    found = tepui.evaluate(ensemble, moved(4000, 6)).applied
    assert abs(found.coverage - 0.8) < 0.02


@pytest.mark.parametrize("how", [{"per": "class"}, {"shift": noisy(20, 1)}], ids=str)
def test_numbers_have_one_limit(how):
    ensemble = Ensemble.build(lambda: nn.Linear(1, 1), 2, task=tasks.Numbers())
    with pytest.raises(ValueError, match=r"(per|shift) must be None for interv"):
        ensemble.conformal(noisy(20, 0), **how)


def test_sets_of_each_class_and_under_shift_are_refused():
    with pytest.raises(ValueError, match="per must be None beside weights"):
        overconfident().conformal(blobs(99), per="class", shift=blobs(9))


def test_sets_without_data_for_them_are_refused():
    prediction = overconfident().predict(torch.zeros(2, 2))
    with pytest.raises(TaskLacksError, match=r"no sets: no data were given for it"):
        _ = prediction.sets
    ensemble = Ensemble.build(lambda: nn.Linear(2, 1), 2, task=tasks.Numbers())
    prediction = ensemble.predict(torch.zeros(2, 2))
    with pytest.raises(TaskLacksError, match=r"no conformal_interval: no data"):
        _ = prediction.conformal_interval
    with pytest.raises(AttributeError, match="'regression' has no sets"):
        _ = prediction.sets


def test_another_rule_than_the_calibrated_one_is_refused():
    ensemble = overconfident()
    ensemble.calibrate(blobs(300), rule="logit")
    with pytest.raises(ValueError, match="rule must be 'logit', for which the en"):
        ensemble.predict(torch.zeros(2, 2))
    assert ensemble.predict(torch.zeros(2, 2), rule="logit").probs.shape == (2, 3)
    ensemble.calibration = None
    ensemble.conformal(blobs(300))
    with pytest.raises(ValueError, match="rule must be 'probability', for which the s"):
        _ = ensemble.predict(torch.zeros(2, 2), rule="vote").sets


def test_training_data_are_known_again(tmp_path):
    train, held = blobs(300, seed=5), blobs(300, seed=6)
    ensemble = Ensemble.build(lambda: nn.Linear(2, 3), 2)
    tepui.fit(ensemble, train, method=DeepEnsemble(), epochs=1, out=tmp_path / "run")
    with pytest.warns(UserWarning, match="dataset holds the training data"):
        ensemble.calibrate(train, "vector")
    loaded = tepui.load(tmp_path / "run", lambda: nn.Linear(2, 3))
    with pytest.warns(UserWarning, match="dataset holds the training data"):
        loaded.conformal(train)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ensemble.calibrate(held)
    tepui.fit(ensemble, held, method=DeepEnsemble(), epochs=1)
    assert ensemble.calibration is None


LOSSES = {
    "residual": (MSE(), 1),
    "normalized": (GaussianNLL(), 2),
    "quantile": (Quantiles((0.1, 0.5, 0.9)), 3),
}


@pytest.mark.parametrize("score", LOSSES)
def test_intervals_of_numbers_hold_as_often_as_promised(score, tmp_path):
    loss, outputs = LOSSES[score]
    ensemble = Ensemble.build(
        lambda: nn.Linear(1, outputs), 2, task=tasks.task_of(loss)
    )
    ensemble.conformal(noisy(2000, 1), 0.9)
    assert ensemble.conformity.score == score
    test = noisy(2000, 2)
    lower, upper = ensemble.predict(test).conformal_interval
    inside = (lower <= test.targets) & (test.targets <= upper)
    assert abs(inside.double().mean() - 0.9) < 4 * math.sqrt(0.09 * 2 / 2000)
    ensemble.save(tmp_path)
    again = tepui.load(tmp_path, lambda: nn.Linear(1, outputs))
    assert torch.equal(again.predict(test).conformal_interval[0], lower)


def test_scores_that_a_task_lacks_are_refused():
    data = noisy(50, 0)
    numbers = Ensemble.build(lambda: nn.Linear(1, 1), 2, task=tasks.Numbers())
    with pytest.raises(ValueError, match="score must be one of residual, normalized"):
        numbers.conformal(data, score="aps")
    with pytest.raises(ValueError, match="score must be one of residual, normalized"):
        numbers.conformal(data, score="quantile")
    with pytest.raises(ValueError, match="seed must be None for intervals"):
        numbers.conformal(data, seed=1)
    with pytest.raises(ValueError, match="task must be one of classes or labels to be"):
        numbers.calibrate(data)
    labels = Ensemble.build(lambda: nn.Linear(1, 2), 2, task=tasks.Labels())
    with pytest.raises(ValueError, match="task must be one of classes that exclude"):
        labels.conformal(Arrays(torch.zeros(4, 1), torch.zeros(4, 2)))
    with pytest.raises(ValueError, match=r"method for labels .* temperature, vector"):
        labels.calibrate(Arrays(torch.zeros(4, 1), torch.zeros(4, 2)), "isotonic")
    with pytest.raises(ValueError, match="method must be one of temperature, vec"):
        overconfident().calibrate(blobs(50), "platt")
    with pytest.raises(ValueError, match="score must be one of threshold, aps"):
        overconfident().conformal(blobs(50), score="residual")


def test_pixels_are_calibrated_one_by_one():
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(20, 2, 5, 4, generator=generator)
    labels = torch.randint(3, (20, 5, 4), generator=generator)
    data = Arrays(images, labels)
    for method in METHODS:
        ensemble = Ensemble.build(
            lambda: nn.Conv2d(2, 3, 1), 2, seed=3, task=tasks.Classes()
        )
        raw = ensemble.predict(images)
        found = ensemble.calibrate(data, method)
        prediction = ensemble.predict(images)
        assert prediction.probs.shape == (20, 3, 5, 4)
        one = found.apply(raw.logits[:, 2:3, :, 4, 1])
        expected = ensemble_probs(one)[0]
        torch.testing.assert_close(prediction.probs[2, :, 4, 1], expected)
        with pytest.raises(ValueError, match="outputs must be of samples for sets"):
            ensemble.conformal(data)


def test_heads_and_the_whole_share_a_calibration():
    body = nn.Sequential(nn.Linear(2, 8), nn.ReLU())
    ensemble = Ensemble.on_features(body, lambda: nn.Linear(8, 3), 2)
    data = blobs(200)
    heads = Arrays(body(data.inputs).detach(), data.targets)
    found = ensemble.heads.calibrate(heads, "vector")
    assert ensemble.calibration is found


def tags(samples, seed=0, size=()):
    """Four labels that may hold together, the last of them rarely."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(samples, 3, *size, generator=generator)
    chances = torch.einsum("nf...,fl->nl...", inputs, torch.eye(3, 4))
    chances[:, 3] -= 2
    drawn = torch.rand(chances.shape, generator=generator)
    return Arrays(inputs, (drawn < chances.sigmoid()).long())


@pytest.mark.parametrize("method", ["temperature", "vector"])
@pytest.mark.parametrize("size", [(), (2, 3)])
def test_labels_that_hold_or_not_are_calibrated(method, size, tmp_path):
    def make():
        return nn.Conv2d(3, 4, 1) if size else nn.Linear(3, 4)

    ensemble = Ensemble.build(make, 3, seed=1, task=tasks.Labels())
    with torch.no_grad():
        for (
            member
        ) in ensemble.members:  # five times too sure, and blind to the rare one
            steep = 5 * torch.eye(4, 3).reshape(member.weight.shape)
            member.weight.copy_(steep + 0.1 * member.weight)
    test = tags(2000, seed=2, size=size)
    before, plain = ensemble.predict(test), tepui.evaluate(ensemble, test)
    ensemble.calibrate(tags(2000, seed=1, size=size), method)
    after, found = ensemble.predict(test), tepui.evaluate(ensemble, test)
    assert found.clean == plain.clean
    wanted = test.targets.double()
    loss = nn.functional.binary_cross_entropy(after.probs.double(), wanted)
    assert found.applied.nll == pytest.approx(loss.item(), rel=1e-4)
    assert found.applied.nll < (0.7 if method == "vector" else 0.95) * plain.clean.nll
    assert found.applied.ece < plain.clean.ece
    rare = [(p.probs[:, 3].mean() - wanted[:, 3].mean()).abs() for p in (before, after)]
    assert (rare[1] < 0.03) == (method == "vector")
    ensemble.save(tmp_path)
    again = tepui.load(tmp_path, make)
    assert torch.equal(again.predict(test).probs, after.probs)


def test_what_was_fitted_for_all_members_is_refused_after_one_was_removed():
    ensemble, data = overconfident(), blobs(60)
    ensemble.calibrate(data)
    del ensemble.members[2]
    with pytest.raises(ValueError, match=r"seeds must be as many as the members \(2"):
        ensemble.predict(data.inputs)
    ensemble.calibration = None
    assert len(ensemble.predict(data.inputs)) == 60
