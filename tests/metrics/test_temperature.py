"""Temperature scaling against scipy's minimizer, autograd and closed forms."""

import math
import warnings

import pytest
import torch
from scipy.optimize import minimize_scalar
from torch.nn.functional import one_hot

from strategies import close
from tepui.metrics import (
    ensemble_log_probs,
    ensemble_predictions,
    ensemble_probs,
    nll,
    temperature,
)

RULES = ("probability", "logit")


def case(members: int = 3, scale: float = 4.0, seed: int = 0):
    """Overconfident logits: the labels are drawn from milder ones."""
    generator = torch.Generator().manual_seed(seed)
    common = torch.randn(1, 400, 5, generator=generator).double()
    individual = torch.randn(members, 400, 5, generator=generator).double()
    mild = common + 0.5 * individual
    probs = mild.softmax(-1).mean(0)
    return scale * mild, torch.multinomial(probs, 1, generator=generator)[:, 0]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("members", "scale"), [(1, 4.0), (3, 4.0), (5, 0.2), (3, 30.0)]
)
def test_minimizes_the_loss_as_scipy_does(rule, members, scale):
    logits, labels = case(members, scale)
    actual = temperature(logits, labels, rule=rule)
    expected = minimize_scalar(
        lambda log: nll(logits / math.exp(log), labels, rule=rule).item(),
        bounds=(math.log(0.01), math.log(100)),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert actual.item() == pytest.approx(math.exp(expected.x), rel=1e-5)
    assert nll(logits / actual, labels, rule=rule) <= expected.fun + 1e-12


@pytest.mark.parametrize(("scale", "label", "bound"), [(1e-4, 0, 0.01), (1, 1, 100.0)])
def test_a_loss_without_minimum_ends_at_the_bound_and_says_why(scale, label, bound):
    logits = scale * torch.tensor([[[4.0, 0.0]]], dtype=torch.float64)
    with pytest.warns(UserWarning, match=f"at its bound, {bound:g}: check") as log:
        actual = temperature(logits, torch.tensor([label]))
    assert actual.item() == pytest.approx(bound, rel=1e-3)
    assert log[0].filename == __file__


def binary(margin: float, right: int, wrong: int):
    """Samples of one margin between two classes, some of them wrong."""
    logits = torch.tensor([[margin, 0.0]]).expand(1, right + wrong, 2).double()
    return logits, torch.tensor([0] * right + [1] * wrong)


@pytest.mark.parametrize("rule", RULES)
def test_samples_that_are_all_right_support_laplace_s_rule_and_no_more(rule):
    logits, labels = binary(0.5, 18, 0)
    said = "is 0.17 and not 0.01: none of 18 held-out samples is wrong, which vouches"
    with pytest.warns(UserWarning, match=said) as log:
        actual = temperature(logits, labels, rule=rule)
    # 19 of 20 would be right: the margin of that confidence is log 19.
    close(actual, 0.5 / math.log(19), atol=1e-6)
    assert log[0].filename == __file__


def imagined_weights(logits, labels, rule):
    """One right and one wrong sample, spread as the ensemble expects them."""
    probs = ensemble_probs(logits, rule=rule)
    real, top = (one_hot(y, probs.shape[1]) for y in (labels, probs.argmax(-1)))
    right, wrong = top * probs, (1 - top) * probs
    return real + right / right.sum() + wrong / wrong.sum()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("members", "mistakes"), [(1, 0), (3, 0), (1, 4), (3, 9)])
def test_few_mistakes_are_joined_by_an_imagined_one(rule, members, mistakes):
    logits, _ = case(members, scale=1)
    labels = ensemble_predictions(logits, rule=rule)
    unsure = ensemble_probs(logits, rule=rule).max(-1).values.argsort()[:mistakes]
    labels[unsure] = (labels[unsure] + 1) % 5
    weights = imagined_weights(logits, labels, rule)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        actual = temperature(logits, labels, rule=rule)

    def loss(log):
        log_probs = ensemble_log_probs(logits / math.exp(log), rule=rule)
        return -(weights * log_probs).sum().item()

    low, high = math.log(0.01), 0
    found = minimize_scalar(
        loss, bounds=(low, high), method="bounded", options={"xatol": 1e-10}
    )
    assert 0.02 < actual.item() == pytest.approx(math.exp(found.x), rel=1e-5)
