"""A2D: the kernel by hand and at its limits, parallel and sequential members."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import tepui
from diversification_cases import a2d_naive
from strategies import close, ensembles, modest, probs_naive
from tepui.methods import A2D, CoupledBatch
from tepui.methods.a2d import EPSILON, a2d, a2d_of_pairs, over_pairs
from training.cases import (
    assert_different,
    assert_same_bits,
    copied,
    fitted,
    images,
    noisy_net,
    one_thread,
)

single = pytest.fixture(autouse=True)(one_thread)
DOUBLE = {"dtype": torch.float64}
HIGHEST = -math.log(2 * EPSILON * (1 - EPSILON))


def coupled_batch(losses, unlabeled):
    outputs = torch.zeros(len(losses), losses.shape[1], unlabeled.shape[-1])
    return CoupledBatch(outputs, losses, torch.zeros(losses.shape[1]), unlabeled)


def logits_of(*rows):
    """Logits of members that see one sample, from their probabilities."""
    return torch.tensor(rows, **DOUBLE).log()[:, None]


@given(ensembles(min_members=2))
@modest
def test_pairs_match_the_definition(logits):
    members, samples, _ = logits.shape
    probs = probs_naive(logits)
    expected = [
        [a2d_naive(probs[m][n], probs[k][n]) for n in range(samples)]
        for m, k in itertools.combinations(range(members), 2)
    ]
    log_probs = logits.log_softmax(-1)
    close(a2d_of_pairs(log_probs), expected, atol=1e-8)
    first, second = zip(*itertools.combinations(range(members), 2), strict=True)
    pairs = log_probs[list(first)], log_probs[list(second)]
    close(a2d(*pairs), a2d_of_pairs(log_probs))


def test_two_and_three_members_by_hand():
    two = logits_of([0.7, 0.2, 0.1], [0.4, 0.5, 0.1])
    close(a2d_of_pairs(two), [[-math.log(0.7 * 0.6 + 0.3 * 0.4)]])
    three = torch.cat([two, logits_of([0.1, 0.1, 0.8])])
    by_hand = [0.7 * 0.6 + 0.3 * 0.4, 0.7 * 0.9 + 0.3 * 0.1, 0.5 * 0.9 + 0.5 * 0.1]
    close(a2d_of_pairs(three), [[-math.log(value)] for value in by_hand])


def test_the_class_is_the_first_members():
    """Both orders of this pair have different classes and different values."""
    p, q = logits_of([0.7, 0.2, 0.1], [0.1, 0.5, 0.4])
    close(a2d(p, q), [-math.log(0.7 * 0.9 + 0.3 * 0.1)])
    close(a2d(q, p), [-math.log(0.5 * 0.8 + 0.5 * 0.2)])


@given(ensembles(min_members=2))
@modest
def test_values_are_bounded(logits):
    values = a2d_of_pairs(logits.log_softmax(-1))
    assert values.min() >= 0
    assert values.max() <= HIGHEST + 1e-9


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [0.0, 20.0, 1e3, 1e30])
def test_finite_with_finite_gradient_at_one_hot_outputs(dtype, size):
    rows = torch.eye(3, dtype=dtype)[[0, 0, 1]]
    logits = (size * rows[:, None]).requires_grad_()
    values = a2d_of_pairs(logits.log_softmax(-1))
    (gradient,) = torch.autograd.grad(values.sum(), logits)
    assert values.isfinite().all()
    assert gradient.isfinite().all()
    if size >= 1e3:
        expected = torch.tensor([[HIGHEST], [0.0], [0.0]], dtype=dtype)
        torch.testing.assert_close(values, expected, rtol=1e-6, atol=1e-6)


def test_finite_with_finite_gradient_at_probabilities_zero_and_one():
    log_probs = torch.eye(3)[[0, 0, 1]].log()[:, None].requires_grad_()
    values = a2d_of_pairs(log_probs)
    (gradient,) = torch.autograd.grad(values.sum(), log_probs)
    assert values.isfinite().all()
    assert gradient.isfinite().all()


def test_gradient_is_that_of_the_formula():
    logits = torch.randn(3, 4, 5, **DOUBLE, requires_grad=True)

    def values(logits):
        return a2d_of_pairs(logits.log_softmax(-1))

    assert torch.autograd.gradcheck(values, (logits,))


def test_sure_members_that_agree_are_driven_apart():
    """Where a plain probability would round to one, the gradient is still there."""
    logits = torch.tensor([[[15.0, 0.0]], [[15.0, 0.0]]], requires_grad=True)
    (gradient,) = torch.autograd.grad(
        a2d_of_pairs(logits.log_softmax(-1)).sum(), logits
    )
    torch.testing.assert_close(
        gradient[:, 0, 0], torch.full((2,), 0.5), rtol=0.1, atol=0
    )


@pytest.mark.parametrize("shapes", [((2, 3), (2, 4)), ((2, 1), (2, 1))])
def test_shapes_are_checked(shapes):
    with pytest.raises(ValueError, match="log_p and log_q must have the same shape"):
        a2d(*(torch.zeros(shape) for shape in shapes))


@given(st.integers(2, 6))
def test_the_papers_norm_is_half_the_mean(members):
    values = torch.randn(members * (members - 1) // 2, **DOUBLE)
    paper = values.sum() / (members * (members - 1))
    close(over_pairs(values, "paper"), paper)
    close(over_pairs(values, "mean"), 2 * paper)


@pytest.mark.parametrize(("pair_norm", "pairs"), [("paper", 6), ("mean", 3)])
def test_parallel_loss_by_hand(pair_norm, pairs):
    rows = [[0.7, 0.3], [0.6, 0.4], [0.2, 0.8]]
    losses = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], **DOUBLE)
    agreement = sum(a2d_naive(p, q) for p, q in itertools.combinations(rows, 2))
    method = A2D(weight=0.3, pair_norm=pair_norm)
    found = method.loss(coupled_batch(losses, logits_of(*rows)))
    close(found, 3.5 + 0.3 * agreement / pairs)


def test_sequential_loss_by_hand():
    """The third member: its own loss, the class of each earlier member, their mean."""
    now, earlier = [0.2, 0.8], [[0.7, 0.3], [0.4, 0.6]]
    losses = torch.tensor([[1.0, 2.0]], **DOUBLE)
    method = A2D(weight=0.3, parallel=False)
    found = method.loss(coupled_batch(losses, logits_of(now, *earlier)))
    close(found, 1.5 + 0.3 * sum(a2d_naive(p, now) for p in earlier) / 2)
    alone = method.loss(coupled_batch(losses, logits_of(now)))
    close(alone, 1.5)


@pytest.mark.parametrize("members", [2, 3, 7])
@pytest.mark.parametrize("shares", [5, 31])
def test_sequential_members_have_equal_shares_of_the_run(members, shares):
    steps = members * shares
    method, stream = A2D(parallel=False), torch.Generator()
    turns = [method.turn(members, step / steps, stream) for step in range(steps)]
    assert [turn.active for turn in turns] == [(s // shares,) for s in range(steps)]
    assert all(turn.observed == tuple(range(turn.active[0])) for turn in turns)
    for step, turn in enumerate(turns):
        assert turn.progress == pytest.approx(step % shares / shares, abs=1e-9)


@pytest.mark.parametrize("members", [2, 3, 7])
def test_as_many_steps_as_sequential_members_give_each_a_turn(members):
    method, stream = A2D(parallel=False), torch.Generator()
    for steps in range(1, 3 * members):
        turns = [method.turn(members, step / steps, stream) for step in range(steps)]
        all_learn = {turn.active[0] for turn in turns} == set(range(members))
        assert all_learn == (steps >= method.least_steps(members))


def test_a_run_too_short_for_sequential_members_is_refused(tmp_path):
    how = {"unlabeled": unlabeled(), "members": 4, "batch_size": 8, "out": tmp_path}
    message = (
        r"^epochs must give A2D at least 4 steps, so that each of its 4 members can "
        r"have a turn, got '1 of 3 step\(s\)'"
    )
    with pytest.raises(ValueError, match=message):
        fitted(images(), method=A2D(parallel=False), epochs=1, **how)
    assert list(tmp_path.iterdir()) == []
    fitted(images(), method=A2D(), epochs=1, **how)


def unlabeled():
    return images(10, seed=5)


def test_sequential_members_give_earlier_ones_no_gradient():
    """Member 0 ends as if alone; later ones move nobody but themselves."""
    how = {"unlabeled": unlabeled(), "members": 3, "epochs": 3}
    states = []
    ensemble = tepui.Ensemble.build(noisy_net, members=3, seed=3)
    tepui.fit(
        ensemble,
        images(),
        method=A2D(weight=1.0, parallel=False),
        epochs=3,
        batch_size=8,
        unlabeled=how["unlabeled"],
        progress="none",
        callbacks=[lambda record: states.append([copied(m) for m in ensemble.members])],
    )
    for epoch in (1, 2):
        for member in range(3):
            same = assert_same_bits if member != epoch else assert_different
            same(states[epoch - 1][member], states[epoch][member])
    other = fitted(images(), method=A2D(weight=9.0, parallel=False), **how).ensemble
    assert_same_bits(other.members[0], ensemble.members[0])
    assert_different(other.members[1], ensemble.members[1])


@pytest.mark.parametrize("parallel", [True, False])
def test_members_come_to_disagree_on_unlabeled_data(parallel):
    """Two features that both tell the labels, and data on which they differ."""
    stream = torch.Generator().manual_seed(0)
    labels = torch.randint(2, (256,), generator=stream)
    signs = 2.0 * labels[:, None] - 1
    train = tepui.data.Arrays(signs.expand(-1, 2).contiguous(), labels)
    mixed = torch.tensor([[1.0, -1.0], [-1.0, 1.0]]).repeat(64, 1)
    beside = tepui.data.Arrays(mixed, torch.zeros(128, dtype=torch.int64))
    apart = []
    for weight in (0.0, 1.0):
        run = fitted(
            train,
            lambda: torch.nn.Linear(2, 2),
            method=A2D(weight=weight, parallel=parallel),
            unlabeled=beside,
            epochs=20,
            batch_size=32,
            optimizer=tepui.AdamW(lr=0.05),
        )
        predicted = run.ensemble.logits(mixed).argmax(-1)
        apart.append(float((predicted[0] != predicted[1]).double().mean()))
        learned = run.ensemble.logits(train.inputs).argmax(-1)
        assert (learned == labels).all()
    assert apart == [0.0, 1.0]


def test_bad_values_are_named():
    with pytest.raises(ValueError, match=r"weight must be non-negative, got -1"):
        A2D(weight=-1)
    with pytest.raises(ValueError, match="pair_norm must be one of paper, mean"):
        A2D(pair_norm="half")
    with pytest.raises(ValueError, match=r"members must be at least 2 for A2D, got 1"):
        fitted(images(), method=A2D(), members=1, unlabeled=unlabeled())
    with pytest.raises(ValueError, match=r"data set for A2D.*SED.*need none"):
        fitted(images(), method=A2D())


def test_unlabeled_samples_must_fit_the_model():
    with pytest.raises(ValueError, match=r"must accept samples of shape \(1, 5, 5\)"):
        fitted(images(), method=A2D(), unlabeled=images(size=5))


def test_members_must_have_equally_many_outputs():
    def wider():
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 4))

    with pytest.raises(ValueError, match=r"equally many outputs .* got \[3, 4\]"):
        fitted(images(), [noisy_net, wider], method=A2D(), unlabeled=unlabeled())
