"""Calibrations against scikit-learn, scipy and their definitions."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.isotonic import IsotonicRegression

from strategies import close, modest
from tepui.metrics import (
    Isotonic,
    TemperatureScaling,
    VectorScaling,
    ece,
    ensemble_probs,
    fit_calibration,
    nll,
    temperature,
)
from tepui.metrics.calibrators import (
    fit_label_calibration,
)
from tepui.metrics.multilabel import two_classes

METHODS = ("temperature", "vector", "isotonic")
KINDS = (TemperatureScaling, VectorScaling, Isotonic)


def overconfident(samples=2000, members=3, classes=4, seed=0, dtype=torch.float64):
    """Logits that are three times too steep, and too high for class 0."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(members, samples, classes, generator=generator).to(dtype)
    true = 2 * torch.randn(samples, classes, generator=generator).to(dtype)
    labels = torch.distributions.Categorical(logits=true)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        drawn = labels.sample()
    logits = 3 * (true + 0.3 * noise)
    logits[..., 0] += 2
    return logits, drawn


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rule", ["probability", "logit"])
def test_calibration_lowers_the_loss_of_others(method, rule):
    logits, labels = overconfident()
    half = 1000
    fitted = fit_calibration(logits[:, :half], labels[:half], method=method, rule=rule)
    rest = logits[:, half:], labels[half:]
    calibrated = fitted.apply(rest[0])
    assert nll(calibrated, rest[1], rule=rule) < 0.8 * nll(*rest, rule=rule)
    assert ece(calibrated, rest[1], rule=rule) < 0.5 * ece(*rest, rule=rule)


@pytest.mark.parametrize("rule", ["probability", "logit"])
def test_vector_scaling_is_the_minimum_that_scipy_finds(rule):
    logits, labels = overconfident(60, members=2, classes=3)
    fitted = VectorScaling.fit(logits, labels, rule=rule)
    center = 1 / float(temperature(logits, labels, rule=rule))

    def objective(point):
        weight, bias = torch.from_numpy(point).chunk(2)
        loss = nll(logits * weight + bias, labels, rule=rule)
        pull = (weight - center).square().sum() + bias.square().sum()
        return float(loss + pull / 2 / len(labels))

    start = np.concatenate([np.full(3, center), np.zeros(3)])
    found = minimize(objective, start, method="Powell", tol=1e-10)
    point = torch.cat([fitted.weight, fitted.bias]).numpy()
    assert objective(point) <= found.fun + 1e-10
    np.testing.assert_allclose(point, found.x, atol=1e-4)


@pytest.mark.parametrize("rule", ["probability", "logit"])
def test_vector_scaling_of_many_samples_is_near_the_minimum(rule, monkeypatch):
    from tepui.metrics import scaling

    logits, labels = overconfident(8000)
    exact = VectorScaling.fit(logits, labels, rule=rule)
    monkeypatch.setattr(scaling, "_MANY_LOGITS", 1000)
    fitted = VectorScaling.fit(logits, labels, rule=rule)
    assert (fitted.weight - exact.weight).abs().max() < 0.02
    best = nll(exact.apply(logits), labels, rule=rule)
    found = nll(fitted.apply(logits), labels, rule=rule)
    assert best <= found < best + 1e-3


@modest
@given(st.integers(0, 2**31), st.integers(2, 40), st.sampled_from([3, 1000]))
def test_isotonic_maps_are_those_of_scikit_learn(seed, samples, different):
    generator = torch.Generator().manual_seed(seed)
    rows = torch.rand(different, 3, generator=generator, dtype=torch.float64)
    chosen = torch.randint(different, (samples,), generator=generator)
    probs = (rows / rows.sum(-1, keepdim=True))[chosen]
    labels = torch.randint(3, (samples,), generator=generator)
    fitted = Isotonic.fit(probs.log().unsqueeze(0), labels)
    others = torch.rand(50, 3, generator=generator, dtype=torch.float64)
    others = others / others.sum(-1, keepdim=True)
    for data in (probs, others):
        given_probs = ensemble_probs(data.log().unsqueeze(0))
        columns = []
        for c in range(3):
            regression = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
            own = ensemble_probs(probs.log().unsqueeze(0))[:, c]
            regression.fit(own.numpy(), (labels == c).numpy())
            columns.append(regression.predict(given_probs[:, c].numpy()))
        expected = np.stack(columns, 1).clip(1 / (3 * samples))
        expected = expected / expected.sum(1, keepdims=True)
        close(fitted.apply(data.log().unsqueeze(0)).exp()[0], expected, atol=1e-9)


def test_bad_input_is_named():
    logits, labels = overconfident(20)
    with pytest.raises(ValueError, match="method must be one of temperature, vector"):
        fit_calibration(logits, labels, method="vectors")
    for kind in KINDS:
        with pytest.raises(ValueError, match="rule must be one of probability, logit"):
            kind.fit(logits, labels, rule="vote")
    for kind in (VectorScaling, Isotonic):
        fitted = kind.fit(logits, labels)
        with pytest.raises(ValueError, match="logits must have the 4 classes"):
            fitted.apply(logits[..., :3])


def overconfident_labels(samples=400, members=3, labels=3, seed=0):
    """Logits of labels that are three times too steep, and too high for the first."""
    generator = torch.Generator().manual_seed(seed)
    draw = {"generator": generator, "dtype": torch.float64}
    true = 2 * torch.randn(samples, labels, **draw)
    targets = (torch.rand(samples, labels, **draw) < true.sigmoid()).long()
    logits = 3 * (true + 0.3 * torch.randn(members, samples, labels, **draw))
    logits[..., 0] += 2
    return logits, targets


@pytest.mark.parametrize("rule", ["probability", "logit"])
def test_scaling_of_labels_is_the_minimum_that_scipy_finds(rule):
    logits, targets = overconfident_labels(60, members=2)
    fitted = fit_label_calibration(logits, targets, method="vector", rule=rule)
    two = two_classes(logits.flatten(1))
    center = 1 / float(temperature(two, targets.flatten(), rule=rule))
    for label in range(3):  # each on its own, since labels do not meet in the loss
        own, wanted = logits[..., label], targets[:, label]

        def objective(point, own=own, wanted=wanted):
            scaled = two_classes(own * point[0] + point[1])
            pull = (point[0] - center) ** 2 + point[1] ** 2
            return float(nll(scaled, wanted, rule=rule) + pull / 2 / len(wanted))

        exact = {"xatol": 1e-9, "fatol": 1e-14, "maxiter": 4000}
        start = np.array([center, 0.0])
        found = minimize(objective, start, method="Nelder-Mead", options=exact).x
        close(fitted.weight[label], found[0], atol=1e-5)
        close(fitted.bias[label], found[1], atol=1e-5)


@given(st.integers(0, 1000), st.sampled_from(["probability", "logit"]))
@modest
def test_a_temperature_of_labels_is_that_of_choices_between_two(seed, rule):
    logits, targets = overconfident_labels(40, seed=seed)
    fitted = fit_label_calibration(logits, targets, rule=rule)
    two = two_classes(logits)
    best = temperature(two.flatten(1, 2), targets.flatten(), rule=rule)
    assert torch.equal(fitted.apply(logits), logits / best)
