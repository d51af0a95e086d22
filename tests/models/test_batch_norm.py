"""BatchNorm, sum and ReLU as one operation, against torch's own in float64."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tepui.models import ConvNet, ResNet18, WideResNet40x2
from tepui.models.base import Chain
from tepui.models.batch_norm import normalized

SHAPES = [(8, 16, 6, 5), (3, 70, 4, 4), (128, 8, 8, 8), (2, 5, 1, 1), (9, 130, 7, 3)]
CASES = [(adds, relu) for adds in (False, True) for relu in (False, True)]


def operands(shape, adds):
    """Return x, an addend and a gradient; the means are large beside the spread."""
    stream = torch.Generator().manual_seed(0)
    centers = 30 * torch.randn(shape[1], generator=stream)[:, None, None]
    x, added, grad = (torch.randn(shape, generator=stream) for _ in range(3))
    return 2 * x + centers, added if adds else None, grad


def norm_of(channels):
    stream = torch.Generator().manual_seed(1)
    norm = nn.BatchNorm2d(channels, momentum=0.3)
    for tensor in (norm.weight, norm.bias, norm.running_mean):
        tensor.data.copy_(torch.randn(channels, generator=stream))
    return norm


def everything(norm, x, added, grad, relu):
    """Return the result, all gradients and the running statistics."""
    x = x.detach().requires_grad_()
    added = None if added is None else added.detach().requires_grad_()
    out = normalized(norm, x, added=added, relu=relu)
    leaves = [t for t in (x, norm.weight, norm.bias, added) if t is not None]
    values = torch.autograd.grad(out, leaves, grad.to(out))
    return [out.detach(), *values, norm.running_mean, norm.running_var]


@pytest.mark.parametrize(("adds", "relu"), CASES)
def test_it_is_the_chain_of_torchs_operations(adds, relu):
    x, added, _ = operands((8, 16, 6, 5), adds)
    expected = norm_of(16)(x)
    expected = expected if added is None else expected + added
    expected = F.relu(expected) if relu else expected
    assert torch.equal(normalized(norm_of(16), x, added=added, relu=relu), expected)


def test_a_hook_on_a_relu_is_called():
    chain = Chain(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2))
    x = torch.randn(2, 1, 8, 8)
    expected, seen = nn.Sequential.forward(chain, x), []
    assert torch.equal(chain(x), expected)
    chain[2].register_forward_hook(lambda *_: seen.append(True))
    assert torch.equal(chain(x), expected)
    assert seen == [True]


gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def on_gpu(function):
    for mark in gpu:
        function = mark(function)
    return function


@on_gpu
@pytest.mark.parametrize(("adds", "relu"), CASES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_kernels_are_close_to_float64(shape, adds, relu):
    x, added, grad = operands(shape, adds)
    exact = everything(
        norm_of(shape[1]).double(),
        x.double(),
        None if added is None else added.double(),
        grad.double(),
        relu,
    )
    layout = {"memory_format": torch.channels_last}
    x, added, grad = (
        None if t is None else t.cuda().to(**layout) for t in (x, added, grad)
    )
    norm = norm_of(shape[1]).cuda()
    found = everything(norm, x, added, grad, relu)
    assert int(norm.num_batches_tracked) == 1
    names = ("out", "dx", "dweight", "dbias", "dadded", "mean", "variance")
    kept = [name for name in names if adds or name != "dadded"]
    for name, one, other in zip(kept, found, exact, strict=True):
        # Gradients of two rows cancel to zero, from terms of this size.
        scale = max(float(other.abs().max()), 1.0)
        error = float((one.double().cpu() - other).abs().max())
        assert error <= 2e-4 * scale, (name, error, scale)


@on_gpu
def test_kernels_take_half_precision_and_any_layout():
    x, added, grad = (t.cuda() for t in operands((32, 24, 8, 8), True))
    half = [t.bfloat16() for t in (x, added, grad)]
    norm = norm_of(24).cuda()
    found = everything(norm, half[0], half[1], half[2], True)
    exact = everything(norm_of(24).cuda().double(), *(t.double() for t in half), True)
    assert found[0].dtype == torch.bfloat16
    for one, other in zip(found, exact, strict=True):
        error = (one.double() - other).norm() / other.norm()
        assert float(error) < 0.01


@on_gpu
@pytest.mark.parametrize("factory", [ResNet18, WideResNet40x2, ConvNet])
def test_networks_with_kernels_have_the_gradients_of_those_without(
    factory, monkeypatch
):
    torch.manual_seed(0)
    module = factory(width=8, in_channels=3).cuda()
    x = torch.randn(16, 3, 32, 32, device="cuda")

    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)

    def gradient():
        loss = module(x).square().mean()
        return torch.autograd.grad(loss, list(module.parameters()))

    fused = gradient()
    monkeypatch.setattr("tepui.models.batch_norm._kernels", lambda: None)
    for one, other in zip(fused, gradient(), strict=True):
        assert float((one - other).norm()) <= 1e-2 * float(other.norm()) + 1e-5


@on_gpu
@pytest.mark.parametrize(("adds", "relu"), CASES)
def test_kernels_in_eval_mode_use_the_running_statistics(adds, relu):
    x, added, _ = operands((9, 70, 7, 3), adds)
    x, added = (None if t is None else t.cuda() for t in (x, added))
    norm = norm_of(70).cuda().eval()
    with torch.no_grad():
        found = normalized(norm, x, added=added, relu=relu)
    expected = normalized(norm, x, added=added, relu=relu)  # with gradients: torch's
    torch.testing.assert_close(found, expected.detach(), rtol=1e-4, atol=1e-4)
    assert found.is_contiguous(memory_format=torch.channels_last)


@on_gpu
def test_results_repeat_to_the_bit():
    values = [t.cuda() for t in operands((128, 64, 16, 16), True)]
    first, second = (everything(norm_of(64).cuda(), *values, True) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert torch.equal(one, other)
