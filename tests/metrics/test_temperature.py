"""Temperature scaling against scipy's minimizer, autograd and closed forms."""

import math
import sys

import pytest
import torch
from scipy.optimize import minimize_scalar

from strategies import close
from tepui.metrics import nll, temperature
from tepui.metrics.temperature import _derivatives

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


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("beta", [0.1, 1.0, 3.0])
def test_derivatives_are_those_of_autograd(rule, beta):
    logits, labels = case()
    at = torch.tensor(beta, dtype=torch.float64, requires_grad=True)
    if rule == "logit":
        log_probs = (at * logits.mean(0)).log_softmax(-1)
    else:
        log_probs = (at * logits).log_softmax(-1).logsumexp(0) - math.log(3)
    loss = -log_probs.gather(1, labels[:, None]).mean()
    (slope,) = torch.autograd.grad(loss, at, create_graph=True)
    (bend,) = torch.autograd.grad(slope, at)
    actual = _derivatives(logits, labels, rule, beta)
    close(
        torch.tensor(actual, dtype=torch.float64),
        [slope.item(), bend.item()],
        atol=1e-10,
    )


@pytest.mark.parametrize("rule", RULES)
def test_scaled_logits_scale_the_temperature(rule):
    logits, labels = case()
    once = temperature(logits, labels, rule=rule)
    close(temperature(3 * logits, labels, rule=rule), 3 * once.item(), atol=1e-7)
    close(temperature(logits / once, labels, rule=rule), 1.0, atol=1e-7)


def test_two_classes_in_closed_form():
    # Margins of 4; right three times in four: log 3 would be the calibrated margin.
    logits = torch.tensor([[4.0, 0.0]]).expand(1, 4, 2).double()
    close(temperature(logits, torch.tensor([0, 0, 0, 1])), 4 / math.log(3), atol=1e-8)


def test_a_start_from_fewer_samples_ends_in_the_same_place(monkeypatch):
    logits, labels = case()
    expected = temperature(logits, labels).item()
    monkeypatch.setattr(sys.modules[temperature.__module__], "_MANY", 300)
    close(temperature(logits, labels), expected, atol=1e-9)


def test_float32_is_close_to_float64():
    logits, labels = case()
    wide, narrow = temperature(logits, labels), temperature(logits.float(), labels)
    assert narrow.dtype == torch.float32
    assert narrow.item() == pytest.approx(wide.item(), rel=1e-4)


@pytest.mark.parametrize(
    ("label", "bound", "reason"),
    [
        (0, 0.01, "0.01: no held-out sample is wrong"),
        (1, 100.0, "100: the logits tell"),
    ],
)
def test_a_loss_without_minimum_ends_at_the_bound_and_says_why(label, bound, reason):
    logits = torch.tensor([[[4.0, 0.0]]], dtype=torch.float64)
    with pytest.warns(UserWarning, match=f"at its bound, {reason}") as log:
        actual = temperature(logits, torch.tensor([label]))
    assert actual.item() == pytest.approx(bound, rel=1e-3)
    assert log[0].filename == __file__


def test_constant_logits_need_no_temperature():
    assert temperature(torch.zeros(2, 3, 4), torch.tensor([0, 1, 2])) == 1


def test_a_vote_has_no_temperature():
    with pytest.raises(ValueError, match="rule must be one of probability, logit"):
        temperature(*case(), rule="vote")
