import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import clip_grad_norm_

import tepui
from strategies import modest
from tepui import SGD, AdamW
from tepui.core.members import for_member
from tepui.data.arrays import Batch
from tepui.training.optimizer import capturable, clip
from training.cases import member_of, mlp, numbers


def batch(dtype=torch.float32):
    data = numbers(dtype=dtype)
    return Batch(data.inputs, data.targets, torch.arange(len(data)))


def gradients_of(module, **how):
    return member_of(module, **how).gradient(batch())


class Summed(nn.Module):
    """Two parameters whose gradients autograd returns as one tensor."""

    def __init__(self):
        super().__init__()
        self.base = nn.Parameter(torch.randn(4, 3))
        self.change = nn.Parameter(torch.zeros(4, 3))

    def forward(self, x):
        return x @ (self.base + self.change)


@given(st.floats(1e-3, 1e3), st.integers(0, 2**32), st.floats(1e-3, 1e3))
@modest
def test_clip_equals_torch(max_norm, seed, size):
    stream = torch.Generator().manual_seed(seed)
    shapes = [(3, 2), (5,), ()]
    gradients = [size * torch.randn(shape, generator=stream) for shape in shapes]
    parameters = [nn.Parameter(torch.zeros(shape)) for shape in shapes]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient.clone()
    clip_grad_norm_(parameters, max_norm)
    clip(gradients, max_norm)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        torch.testing.assert_close(gradient, parameter.grad)


def test_clip_keeps_gradients_whose_norm_overflows_their_type():
    values = [torch.full((400, 400), 1e3, dtype=torch.float16)]
    clip(values, 100.0)
    assert values[0].dtype == torch.float16
    assert values[0].double().norm().item() == pytest.approx(100, rel=1e-3)


def test_clip_scales_gradients_that_share_memory_once():
    values = gradients_of(Summed()).values
    assert values[0].data_ptr() == values[1].data_ptr()
    clip(values, 0.01)
    total = torch.linalg.vector_norm(torch.stack(values))
    assert float(total) == pytest.approx(0.01, rel=1e-3)


def test_accumulation_adds_gradients_that_share_memory_once():
    module = Summed()
    whole, parts = gradients_of(module), gradients_of(module, accumulate=4)
    assert float(parts.loss) == pytest.approx(float(whole.loss))
    for one, other in zip(whole.values, parts.values, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    ("spec", "theirs"),
    [
        (
            SGD(lr=0.2, momentum=0.8, weight_decay=0.01, nesterov=True),
            lambda p: torch.optim.SGD(
                p, lr=0.2, momentum=0.8, weight_decay=0.01, nesterov=True
            ),
        ),
        (
            SGD(lr=0.2, momentum=0.0, weight_decay=0.0),
            lambda p: torch.optim.SGD(p, lr=0.2),
        ),
        (
            AdamW(lr=0.02, betas=(0.8, 0.9), eps=1e-6, weight_decay=0.1),
            lambda p: torch.optim.AdamW(
                p, lr=0.02, betas=(0.8, 0.9), eps=1e-6, weight_decay=0.1
            ),
        ),
    ],
)
def test_specs_step_like_torch(spec, theirs):
    ours = mlp()
    reference = copy.deepcopy(ours)
    optimizers = [spec(list(ours.parameters())), theirs(reference.parameters())]
    for step in range(4):
        for module, optimizer in zip((ours, reference), optimizers, strict=True):
            stream = torch.Generator().manual_seed(step)
            for parameter in module.parameters():
                parameter.grad = torch.randn(parameter.shape, generator=stream)
            optimizer.step()
    assert type(optimizers[0]) is type(optimizers[1])
    for one, other in zip(ours.parameters(), reference.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("kind", [SGD, AdamW])
def test_values_may_differ_between_members(kind):
    spec = kind(lr=(0.1, 0.2), weight_decay=[0.0, 0.5])
    built = [for_member(spec, i, 2)([nn.Parameter(torch.zeros(1))]) for i in range(2)]
    groups = [optimizer.param_groups[0] for optimizer in built]
    assert [group["lr"] for group in groups] == [0.1, 0.2]
    assert [group["weight_decay"] for group in groups] == [0.0, 0.5]


def test_fit_gives_every_member_its_own_learning_rate():
    ensemble = tepui.Ensemble.build(mlp, members=2)
    run = tepui.fit(
        ensemble,
        numbers(),
        method=tepui.methods.DeepEnsemble(),
        epochs=1,
        optimizer=SGD(lr=(0.1, 0.3)),
        schedule=tepui.Constant(),
        device="cpu",
        progress="none",
    )
    assert run.history[0].learning_rate == pytest.approx((0.1, 0.3))


def test_only_tensor_rates_of_known_optimizers_can_be_captured():
    weights = [nn.Parameter(torch.zeros(1))]
    assert not capturable(torch.optim.SGD(weights, lr=0.1))
    assert capturable(torch.optim.SGD(weights, lr=torch.tensor(0.1)))
    assert not capturable(torch.optim.RMSprop(weights, lr=torch.tensor(0.1)))
    assert capturable(torch.optim.AdamW(weights, lr=torch.tensor(0.1), capturable=True))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SGD(lr=0), "lr must be positive, got 0"),
        (lambda: SGD(lr=(0.1, -0.1)), r"lr must be positive, got \(0.1, -0.1\)"),
        (lambda: SGD(weight_decay=-1.0), "weight_decay must be non-negative, got -1.0"),
        (lambda: SGD(momentum=1.0), r"momentum must lie in \[0, 1\), got 1.0"),
        (lambda: AdamW(lr=float("nan")), "lr must be a finite number .*, got nan"),
        (
            lambda: AdamW(weight_decay=(0.0, -1.0)),
            r"weight_decay must be non-negative, got \(0.0, -1.0\)",
        ),
        (
            lambda: for_member(SGD(lr=(0.1, 0.2, 0.3)), 0, 2),
            r"lr must have one value per member \(2\), got 3",
        ),
    ],
)
def test_bad_values_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
