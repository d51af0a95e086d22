"""Weights that are cast all at once, against autocast, which casts them one by one."""

import pytest
import torch
from torch import nn

from tepui.models import MLP, ConvNet, ResNet18
from tepui.training.passes import CastModule, weights_to_cast


def gradients(run, module, x):
    parameters = [p for p in module.parameters() if p.requires_grad]
    before = [buffer.clone() for buffer in module.buffers()]
    with torch.autocast("cpu", torch.bfloat16):
        outputs = run(x)
    loss = outputs.float().square().sum()
    values = torch.autograd.grad(loss, parameters, materialize_grads=True)
    for buffer, value in zip(module.buffers(), before, strict=True):
        buffer.copy_(value)
    return [outputs, *values]


def normed():
    return nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3))


MODELS = {
    "ResNet18": lambda: (ResNet18(width=4), torch.randn(3, 3, 16, 16)),
    "ConvNet": lambda: (ConvNet(), torch.randn(3, 1, 8, 8)),
    "LayerNorm": lambda: (normed(), torch.randn(3, 6)),
    "MLP": lambda: (MLP(6), torch.randn(3, 6)),
}


@pytest.mark.parametrize("name", MODELS)
def test_outputs_and_gradients_are_autocasts_to_the_bit(name):
    torch.manual_seed(0)
    module, x = MODELS[name]()
    expected = gradients(module, module, x)
    found = gradients(CastModule(module, torch.bfloat16), module, x)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


class Tied(nn.Module):
    """A weight that an embedding and a linear layer share, and one nobody uses."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 4)
        self.out = nn.Linear(4, 5, bias=False)
        self.out.weight = self.table.weight
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.unused = nn.Linear(4, 4)

    def forward(self, x):
        return self.out(self.frozen(self.table(x)))


def test_only_weights_of_known_layers_that_nothing_else_uses_are_cast():
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), Tied())
    names = {"0.weight", "0.bias", "2.unused.weight", "2.unused.bias"}
    assert set(weights_to_cast(module)) == names
    assert list(weights_to_cast(nn.Linear(2, 1).double())) == []


def test_a_weight_that_is_not_used_gets_no_gradient():
    module = Tied()
    run = CastModule(module, torch.bfloat16)
    found = gradients(run, module, torch.arange(3))
    expected = gradients(module, module, torch.arange(3))
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)
