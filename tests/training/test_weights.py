"""Weights of classes and of samples, against loops that spell them out."""

import json

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

import tepui
from strategies import modest
from tepui.data import Arrays, split
from tepui.losses import CrossEntropy, balanced_weights, cross_entropy
from tepui.methods import SAM, SED, DeepEnsemble
from training.cases import (
    CLASSES,
    Plain,
    StoppedError,
    assert_same_bits,
    fitted,
    images,
    linear,
    numbers,
    stop_after,
)

WEIGHTS = torch.tensor([0.0, 0.5, 2.0, 3.0]).repeat(6)
FACTORS = st.lists(st.floats(0.1, 4), min_size=CLASSES, max_size=CLASSES)


def trained_by(method):
    """Return the options with which a method trains on images."""
    unlabeled = images(16, seed=1) if method.needs_unlabeled else None
    return {"method": method, "unlabeled": unlabeled}


@given(FACTORS, st.floats(0, 1))
@modest
def test_class_weights_are_factors_on_each_class_of_the_target(weights, smoothing):
    logits, targets = torch.randn(6, CLASSES).double(), torch.arange(6) % CLASSES
    found = cross_entropy(logits, targets, smoothing, tuple(weights))
    share = F.one_hot(targets, CLASSES) * (1 - smoothing) + smoothing / CLASSES
    factors = torch.tensor(weights, dtype=torch.float64)
    expected = -(factors * share * logits.log_softmax(1)).sum(1)
    torch.testing.assert_close(found, expected)
    soft = cross_entropy(logits, share, 0.0, tuple(weights))
    torch.testing.assert_close(soft, expected)


def test_class_weights_of_pixels_leave_out_what_has_no_label():
    logits, targets = torch.randn(2, 3, 2, 2), torch.randint(3, (2, 2, 2))
    targets[0, 0, 0] = -100
    factors = torch.tensor([1.0, 2.0, 3.0])
    losses = F.cross_entropy(logits, targets, reduction="none")
    losses = losses * factors[targets.clamp(min=0)]
    expected = torch.stack([losses[0].sum() / 3, losses[1].mean()])
    found = cross_entropy(logits, targets, 0.0, (1.0, 2.0, 3.0))
    torch.testing.assert_close(found, expected)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30))
@modest
def test_balanced_weights_give_every_class_the_same_sum(labels):
    targets = torch.tensor(labels)
    weights = torch.tensor(balanced_weights(targets, 6), dtype=torch.float64)
    assert len(weights) == 6
    each = len(labels) / len({*labels})
    for label in range(6):
        total = float(weights[targets[targets == label]].sum())
        assert total == pytest.approx(each if label in labels else 0)
    assert float(weights[targets].mean()) == pytest.approx(1)


def naive(data, weights, epochs, rho=0.0):
    """Descend the weighted mean loss of all data, step by step."""
    ensemble = tepui.Ensemble.build(linear, members=2, seed=3)
    x, y = data.inputs, data.targets
    for module in ensemble.members:
        module.double()
        for _ in range(epochs):
            parameters = [*module.parameters()]

            def gradient(module=module, parameters=parameters):
                losses = F.cross_entropy(module(x), y, reduction="none")
                return torch.autograd.grad((losses * weights).mean(), parameters)

            here = gradient()
            norm = torch.cat([g.flatten() for g in here]).norm()
            offsets = [rho * g / norm for g in here]
            with torch.no_grad():
                for parameter, offset in zip(parameters, offsets, strict=True):
                    parameter.add_(offset)
            there = gradient()
            with torch.no_grad():
                for parameter, *moves in zip(parameters, offsets, there, strict=True):
                    parameter.sub_(moves[0]).sub_(0.1 * moves[1])
    return ensemble


@pytest.mark.parametrize("rho", [0.0, 0.2])
@pytest.mark.parametrize("how", [{}, {"accumulate": 3}], ids=str)
def test_sample_weights_are_factors_on_losses(rho, how):
    data = numbers(dtype=torch.float64)
    run = fitted(
        data,
        lambda: linear().double(),
        method=SAM(rho=rho) if rho else DeepEnsemble(),
        optimizer=tepui.SGD(lr=0.1, momentum=0.0, weight_decay=0.0),
        schedule=tepui.Constant(),
        batch_size=24,
        epochs=4,
        sample_weights=WEIGHTS,
        **how,
    )
    expected = naive(data, WEIGHTS.double(), 4, rho)
    for found, wanted in zip(
        run.ensemble.parameters(), expected.parameters(), strict=True
    ):
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("method", [DeepEnsemble(), SED(active=2)], ids=repr)
def test_weights_follow_their_samples_wherever_these_are_loaded(method):
    how = {"method": method, "sample_weights": WEIGHTS}
    assert_same_bits(fitted(images(), **how), fitted(Plain(images()), **how))
    assert_same_bits(fitted(images(), **how), fitted(images(), **how, workers=2))


def test_weights_stay_with_samples_that_are_not_held_out():
    data = images(24)
    index = Arrays(torch.arange(24.0), torch.arange(24))
    rows = split(index, 0.25, seed=0)[0].targets
    by_share = fitted(data, validation=0.25, sample_weights=WEIGHTS)
    train, held_out = split(data, 0.25, seed=0)
    by_data = fitted(train, validation=held_out, sample_weights=WEIGHTS[rows])
    assert_same_bits(by_share, by_data)
    assert by_share.history[0].loss == by_data.history[0].loss


def test_validation_is_not_weighted():
    held_out = images(9, seed=1)
    run = fitted(images(), validation=held_out, sample_weights=WEIGHTS, epochs=1)
    for module, loss in zip(
        run.ensemble.members, run.history[0].validation_loss, strict=True
    ):
        module.eval()
        with torch.no_grad():
            expected = F.cross_entropy(module(held_out.inputs), held_out.targets)
        assert loss == pytest.approx(float(expected), rel=1e-5)


def test_a_run_goes_on_with_the_weights_it_began_with(tmp_path):
    how = {"out": tmp_path, "epochs": 3}
    whole = fitted(images(), sample_weights=WEIGHTS, epochs=3)
    with pytest.raises(StoppedError):
        fitted(images(), sample_weights=WEIGHTS, callbacks=[stop_after(1)], **how)
    for other in (None, WEIGHTS + 1):
        with pytest.raises(ValueError, match="sample_weights must be what the run"):
            fitted(images(), resume=True, sample_weights=other, **how)
    run = fitted(images(), resume=True, sample_weights=WEIGHTS.tolist(), **how)
    assert_same_bits(run, whole)
    config = json.loads((tmp_path / "run.json").read_text())["config"]
    assert config["sample_weights"]["samples"] == 24


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (torch.ones(23), r"sample_weights must hold one number per sample \(24\)"),
        (torch.ones(24, 1), r"sample_weights must hold one number per sample \(24\)"),
        ([-1.0] * 24, "sample_weights must be finite, not negative"),
        ([float("nan")] * 24, "sample_weights must be finite, not negative"),
        ([0.0] * 24, "positive for some sample, got .numbers from 0 to 0"),
        (["a"] * 24, "sample_weights must hold numbers"),
    ],
    ids=str,
)
def test_bad_sample_weights_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        fitted(images(), sample_weights=weights)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ((1.0, -1.0, 1.0), "class_weights must be numbers that are not negative"),
        ((0.0, 0.0, 0.0), "class_weights must be numbers that are not negative"),
        ((), "class_weights must be numbers that are not negative"),
        ((1.0, 2.0), r"one number for each of 3 classes, got"),
        ((1.0, float("inf"), 1.0), "class_weights must be"),
        (3.0, "class_weights must be"),
    ],
    ids=str,
)
def test_bad_class_weights_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        fitted(images(), loss=CrossEntropy(class_weights=weights))


def test_balanced_weights_are_those_of_what_members_learn_from(tmp_path):
    data = images().subset(torch.tensor([0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 4, 5]))
    word = CrossEntropy(class_weights="balanced")
    told = CrossEntropy(class_weights=balanced_weights(data.targets))
    run = fitted(data, loss=word, out=tmp_path)
    assert_same_bits(run.ensemble, fitted(data, loss=told).ensemble)
    counts = torch.bincount(data.targets).tolist()
    recorded = json.loads((tmp_path / "run.json").read_text())["config"]["loss"]
    assert recorded["class_weights"] == [12 / (3 * count) for count in counts]
    fitted(data, loss=word, out=tmp_path, resume=True)
    held_out = fitted(data, loss=word, validation=0.25)
    learned, _ = split(data, 0.25, seed=0)
    told = CrossEntropy(class_weights=balanced_weights(learned.targets))
    expected = fitted(data, loss=told, validation=0.25)
    assert_same_bits(held_out.ensemble, expected.ensemble)


def test_what_cannot_be_balanced_is_refused():
    word = CrossEntropy(class_weights="balanced")
    data = images().subset(torch.nonzero(torch.arange(24) % 3 != 1)[:, 0])
    rule = "class_weights must be numbers, since none has class 1, got"
    with pytest.raises(ValueError, match=rule):
        fitted(data, loss=word)
    named = Arrays(data.inputs, data.targets, classes=("cat", "dog", "cow"))
    with pytest.raises(ValueError, match=r"since none has class 1 \('dog'\)"):
        fitted(named, loss=word)
    soft = Arrays(data.inputs, torch.full((len(data), 3), 1 / 3))
    with pytest.raises(
        ValueError, match="class_weights must be numbers but for labels"
    ):
        fitted(soft, loss=word)
    with pytest.raises(ValueError, match="numbers but for labels held in memory"):
        fitted(Plain(images()), loss=word)
    with pytest.raises(ValueError, match="class_weights must be numbers where no data"):
        word(torch.zeros(1, 3), torch.tensor([0]))
    with pytest.raises(ValueError, match="class_weights must be"):
        CrossEntropy(class_weights="balance")
