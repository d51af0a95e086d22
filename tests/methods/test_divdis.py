"""DivDis: mutual information by its definition, its limits, gradient and memory."""

import pytest
import torch
from hypothesis import given
from torch.utils._python_dispatch import TorchDispatchMode

from diversification_cases import information_naive
from strategies import close, ensembles, modest
from tepui.methods.divdis import divdis_mutual_information, divdis_regularizer
from training.cases import one_thread

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


def test_zero_for_independent_heads():
    """Every pair of sure predictions once: one head says nothing of the other."""
    sure = torch.eye(3, **DOUBLE).log()
    first, second = sure.repeat_interleave(3, 0), sure.repeat(3, 1)
    close(divdis_mutual_information(torch.stack([first, second])), [0.0])
    even = torch.full((4, 5, 3), 1 / 3, **DOUBLE).log()
    close(divdis_mutual_information(even), [0.0] * 6, atol=1e-9)


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


def test_regularizer_moves_only_the_unlabeled_side():
    target, source = torch.randn(2, 3, 4, 5, requires_grad=True).log_softmax(-1)
    value = divdis_regularizer(target, source)
    gradients = torch.autograd.grad(value, (target, source), allow_unused=True)
    assert gradients[0].abs().max() > 0
    assert gradients[1] is None
