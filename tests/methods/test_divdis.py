"""DivDis: mutual information by its definition, its limits, gradient and memory."""

import math

import pytest
import torch
from hypothesis import given
from torch.utils._python_dispatch import TorchDispatchMode

import tepui
from diversification_cases import information_naive
from strategies import close, ensembles, modest
from tepui.methods import CoupledBatch, DivDis
from tepui.methods.divdis import divdis_mutual_information, divdis_regularizer
from training.cases import fitted, images, one_thread

single = pytest.fixture(autouse=True)(one_thread)
DOUBLE = {"dtype": torch.float64}


@given(ensembles(min_members=2))
@modest
def test_matches_the_definition(logits):
    found = divdis_mutual_information(logits.log_softmax(-1))
    close(found, information_naive(logits.softmax(-1)), atol=1e-9)


@given(ensembles(min_members=2))
@modest
def test_weights_are_shares_of_the_samples(logits):
    weights = torch.rand(logits.shape[1], **DOUBLE) + 0.1
    found = divdis_mutual_information(logits.log_softmax(-1), weights)
    close(found, information_naive(logits.softmax(-1), weights), atol=1e-9)
    close(found, divdis_mutual_information(logits.log_softmax(-1), 7 * weights))


def test_whole_weights_repeat_samples():
    log_probs = torch.randn(3, 4, 5, **DOUBLE).log_softmax(-1)
    times = torch.tensor([1, 3, 2, 1])
    found = divdis_mutual_information(log_probs, times.double())
    close(found, divdis_mutual_information(log_probs.repeat_interleave(times, dim=1)))


def test_zero_for_independent_heads():
    """Every pair of sure predictions once: one head says nothing of the other."""
    sure = torch.eye(3, **DOUBLE).log()
    first, second = sure.repeat_interleave(3, 0), sure.repeat(3, 1)
    close(divdis_mutual_information(torch.stack([first, second])), [0.0])
    even = torch.full((4, 5, 3), 1 / 3, **DOUBLE).log()
    close(divdis_mutual_information(even), [0.0] * 6, atol=1e-9)


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_log_of_classes_for_equal_sure_heads(classes):
    sure = torch.eye(classes, **DOUBLE).log().repeat(4, 1)
    found = divdis_mutual_information(torch.stack([sure] * 3))
    close(found, [math.log(classes)] * 3, atol=1e-9)


def test_two_heads_by_hand():
    """Two samples; the joint is the mean of two outer products."""
    probs = torch.tensor([[[0.8, 0.2], [0.4, 0.6]], [[0.5, 0.5], [0.1, 0.9]]], **DOUBLE)
    joint = [[0.22, 0.38], [0.08, 0.32]]
    left, right = [0.6, 0.4], [0.3, 0.7]
    expected = sum(
        joint[d][e] * math.log(joint[d][e] / (left[d] * right[e]))
        for d in range(2)
        for e in range(2)
    )
    close(divdis_mutual_information(probs.log()), [expected])


@pytest.mark.parametrize("weighted", [False, True])
def test_gradient_is_that_of_the_definition(weighted):
    """The shortcut leaves out a derivative that is zero for normalized outputs."""
    logits = torch.randn(3, 6, 4, **DOUBLE, requires_grad=True)
    weights = torch.rand(6, **DOUBLE) if weighted else None
    found = divdis_mutual_information(logits.log_softmax(-1), weights).sum()
    naive = information_naive(logits.softmax(-1), weights).sum()
    values = [torch.autograd.grad(value, logits)[0] for value in (found, naive)]
    close(*values)
    assert values[0].abs().max() > 1e-3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_finite_with_finite_gradient_at_probabilities_zero_and_one(dtype):
    for sure in (1e4 * torch.eye(4, dtype=dtype), torch.zeros(4, 4, dtype=dtype)):
        logits = torch.stack([sure, sure.flip(0)]).requires_grad_()
        value = divdis_mutual_information(logits.log_softmax(-1)).sum()
        (gradient,) = torch.autograd.grad(value, logits)
        assert value.isfinite()
        assert gradient.isfinite().all()


def test_weights_that_are_all_zero_give_zero():
    log_probs = torch.randn(2, 3, 4).log_softmax(-1)
    assert float(divdis_mutual_information(log_probs, torch.zeros(3))) == 0


class Largest(TorchDispatchMode):
    """Notes the largest tensor that any operation returns."""

    values = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        for tensor in found if isinstance(found, tuple | list) else [found]:
            if isinstance(tensor, torch.Tensor):
                self.values = max(self.values, tensor.numel())
        return found


def test_no_tensor_grows_with_both_batch_and_pairs_of_classes():
    heads, samples, classes = 3, 64, 20
    logits = torch.randn(heads, samples, classes, requires_grad=True)
    with Largest() as mode:
        value = divdis_mutual_information(logits.log_softmax(-1)).sum()
        torch.autograd.grad(value, logits)
    assert mode.values <= max(heads**2 * classes**2, heads * samples * classes)


def test_shape_is_checked():
    with pytest.raises(ValueError, match=r"log_probs must have shape .* got \(2, 3\)"):
        divdis_mutual_information(torch.zeros(2, 3))


def test_regularizer_by_hand():
    target = torch.tensor(
        [[[0.8, 0.2], [0.4, 0.6]], [[0.5, 0.5], [0.1, 0.9]]], **DOUBLE
    )
    source = torch.tensor([[[0.5, 0.5]], [[0.7, 0.3]]], **DOUBLE)
    divergences = [
        p * math.log(p / 0.6) + (1 - p) * math.log((1 - p) / 0.4) for p in (0.6, 0.3)
    ]
    found = divdis_regularizer(target.log(), source.log())
    close(found, sum(divergences) / 2)


def test_regularizer_moves_only_the_unlabeled_side():
    target, source = torch.randn(2, 3, 4, 5, requires_grad=True).log_softmax(-1)
    value = divdis_regularizer(target, source)
    gradients = torch.autograd.grad(value, (target, source), allow_unused=True)
    assert gradients[0].abs().max() > 0
    assert gradients[1] is None


def test_loss_by_hand():
    outputs, beside = torch.randn(2, 3, 6, 4, **DOUBLE)
    losses = torch.rand(3, 6, **DOUBLE)
    found = DivDis(weight=0.7, regularizer=0.3).loss(
        CoupledBatch(outputs, losses, torch.zeros(6), beside)
    )
    information = information_naive(beside.softmax(-1)).mean()
    mean, source = beside.softmax(-1).mean(1), outputs.softmax(-1).mean((0, 1))
    leaning = torch.nn.functional.kl_div(
        source.log().expand_as(mean), mean, reduction="none"
    )
    expected = losses.mean() + 0.7 * information + 0.3 * leaning.sum(1).mean()
    close(found, expected)


def test_heads_become_independent_on_unlabeled_data():
    stream = torch.Generator().manual_seed(0)
    labels = torch.randint(2, (256,), generator=stream)
    signs = 2.0 * labels[:, None] - 1
    train = tepui.data.Arrays(signs.expand(-1, 2).contiguous(), labels)
    free = torch.randint(2, (256, 2), generator=stream) * 2.0 - 1
    beside = tepui.data.Arrays(free, labels)
    found = []
    for weight in (0.0, 10.0):
        run = fitted(
            train,
            lambda: torch.nn.Linear(2, 2),
            method=DivDis(weight=weight, regularizer=weight),
            unlabeled=beside,
            epochs=20,
            batch_size=64,
            optimizer=tepui.AdamW(lr=0.05),
        )
        logits = run.ensemble.logits(free)
        found.append(float(divdis_mutual_information(logits.log_softmax(-1))))
        learned = run.ensemble.logits(train.inputs).argmax(-1)
        assert (learned == labels).all()
    assert found[1] < 0.02 < 0.1 < found[0]


def test_bad_values_are_named():
    with pytest.raises(ValueError, match=r"weight must be non-negative, got -1"):
        DivDis(weight=-1)
    with pytest.raises(ValueError, match=r"regularizer must be non-negative, got -2"):
        DivDis(regularizer=-2)
    with pytest.raises(ValueError, match="members must be at least 2 for DivDis"):
        fitted(images(), method=DivDis(), members=1, unlabeled=images())
    with pytest.raises(ValueError, match=r"data set for DivDis.*SED.*need none"):
        fitted(images(), method=DivDis())
