"""SED: the weights, the loss by hand, its expectation over all draws, its options."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given

from diversification_cases import a2d_naive
from strategies import close, labeled_ensembles, modest, probs_naive
from tepui.core.seeding import generator
from tepui.methods import SED, CoupledBatch
from tepui.methods.sed import sed_alpha
from training.cases import (
    one_thread,
)

single = pytest.fixture(autouse=True)(one_thread)
DOUBLE = {"dtype": torch.float64}


def alpha_naive(logits, labels, floor=1e-3):
    losses = F.cross_entropy(logits.mean(0), labels, reduction="none").tolist()
    mean = max(sum(losses) / len(losses), floor)
    return [loss / mean**2 for loss in losses]


def agreement_naive(logits, alpha):
    """Mean over pairs of the weighted kernel, a loop over pairs and samples."""
    probs = probs_naive(logits)
    pairs = list(itertools.combinations(range(len(logits)), 2))
    values = [
        weight * a2d_naive(probs[m][n], probs[k][n])
        for m, k in pairs
        for n, weight in enumerate(alpha)
    ]
    return sum(values) / len(values)


def coupled_batch(logits, labels):
    losses = torch.stack([F.cross_entropy(o, labels, reduction="none") for o in logits])
    return CoupledBatch(logits, losses, labels, None)


def some(members=4, samples=6, classes=3, seed=0):
    stream = torch.Generator().manual_seed(seed)
    logits = torch.randn(members, samples, classes, generator=stream, **DOUBLE)
    return logits, torch.randint(classes, (samples,), generator=stream)


@given(labeled_ensembles())
@modest
def test_alpha_matches_its_definition(case):
    close(sed_alpha(*case), alpha_naive(*case), atol=1e-9)


def test_alpha_carries_no_gradient():
    logits, labels = some()
    logits.requires_grad_()
    assert not sed_alpha(logits, labels).requires_grad
    total = SED(weight=0.5, active=2).loss(coupled_batch(logits[:2], labels))
    fixed = sed_alpha(logits[:2], labels)
    by_hand = coupled_batch(logits[:2], labels).losses.mean()
    p, q = logits[:2].softmax(-1)
    y = p.argmax(-1, keepdim=True)
    p, q = p.gather(1, y)[:, 0], q.gather(1, y)[:, 0]
    kernel = -(p * (1 - q) + (1 - p) * q).log()
    by_hand = by_hand + 0.5 * (fixed * kernel).mean() / 2
    found, expected = (torch.autograd.grad(v, logits)[0] for v in (total, by_hand))
    close(found, expected)


@pytest.mark.parametrize("members", [2, 3])
@pytest.mark.parametrize(("pair_norm", "scale"), [("paper", 0.5), ("mean", 1.0)])
def test_loss_by_hand(members, pair_norm, scale):
    logits, labels = some(members)
    method = SED(weight=0.3, active=members, pair_norm=pair_norm)
    agreement = agreement_naive(logits, alpha_naive(logits, labels))
    main = F.cross_entropy(logits.flatten(0, 1), labels.repeat(members))
    close(
        method.loss(coupled_batch(logits, labels)),
        float(main) + 0.3 * scale * agreement,
    )


@pytest.mark.parametrize("alpha", ["active", "all", "none"])
def test_alpha_listens_to_whom_it_says(alpha):
    """Two drawn members come first; the others are there for alpha alone."""
    logits, labels = some(4)
    weights = {
        "active": alpha_naive(logits[:2], labels),
        "all": alpha_naive(logits, labels),
        "none": [1.0] * len(labels),
    }[alpha]
    together = coupled_batch(logits[:2], labels)
    heard = logits if alpha == "all" else logits[:2]
    found = SED(weight=0.3, alpha=alpha, active=2).loss(
        CoupledBatch(heard, together.losses, labels, None)
    )
    expected = together.losses.mean() + 0.15 * agreement_naive(logits[:2], weights)
    close(found, expected)


def test_all_members_may_learn_while_few_disagree():
    logits, labels = some(4)
    together = coupled_batch(logits, labels)
    found = SED(weight=0.3, main="all", active=2).loss(together)
    few = agreement_naive(logits[:2], alpha_naive(logits[:2], labels))
    close(found, together.losses.mean() + 0.15 * few)


@pytest.mark.parametrize("main", ["active", "all"])
@pytest.mark.parametrize("alpha", ["all", "none"])
@pytest.mark.parametrize("active", [2, 3, 5])
def test_the_expectation_over_all_draws_is_the_full_loss(main, alpha, active):
    """Enumerates every subset; with ``alpha="active"`` the weights change too."""
    logits, labels = some(5)
    drawn, full = (
        SED(weight=0.7, active=n, alpha=alpha, main=main) for n in (active, 5)
    )
    values = []
    for subset in itertools.combinations(range(5), active):
        rest = [m for m in range(5) if m not in subset]
        learning = [*subset, *rest] if main == "all" else [*subset]
        heard = [*subset, *rest] if alpha == "all" or main == "all" else [*subset]
        losses = coupled_batch(logits[learning], labels).losses
        values.append(drawn.loss(CoupledBatch(logits[heard], losses, labels, None)))
    assert len(values) == math.comb(5, active)
    close(torch.stack(values).mean(), full.loss(coupled_batch(logits, labels)))


@pytest.mark.parametrize("active", [2, 3])
def test_members_are_drawn_evenly_without_replacement(active):
    method, members, draws = SED(active=active), 5, 2000
    counts = dict.fromkeys(itertools.combinations(range(members), active), 0)
    for step in range(draws):
        turn = method.turn(members, 0.25, generator(7, "active", step))
        assert turn.observed == ()
        assert turn.progress == 0.25
        counts[turn.active] += 1
    expected = draws / len(counts)
    spread = 5 * math.sqrt(expected)
    assert all(abs(count - expected) < spread for count in counts.values())
