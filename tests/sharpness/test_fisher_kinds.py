"""Fisher traces of every kind of layer that has a rule, against a loop in float64."""

import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from naive_fisher import naive_fisher_trace
from strategies import modest
from tepui.data import Arrays
from tepui.sharpness import sample_fisher_trace

SAMPLES, CLASSES, ROWS = 5, 3, 4

seeds = st.integers(0, 2**32)


class Used(nn.Module):
    """Calls a layer once, or twice on inputs that differ, and sums up its outputs."""

    def __init__(self, layer, uses=1, **constants):
        super().__init__()
        self.layer, self.uses, self.constants = layer, uses, constants
        self.head = nn.Linear(4, CLASSES)

    def forward(self, x):
        total = 0
        for use in range(self.uses):
            inputs = x if use == 0 else self.other(x)
            out = torch.tanh(self.layer(inputs, **self.constants)).flatten(1)
            total = total + out @ torch.linspace(
                -1, 1 + use, 4 * out.shape[1], dtype=out.dtype
            ).sin().reshape(-1, 4)
        return self.head(total)

    def other(self, x):
        return x.flip(-1) ** 2 if x.is_floating_point() else x.flip(-1)


def agrees(model, inputs, batch_size=3):
    """Compare with a loop over samples; no warning may be given."""
    model.double()
    targets = torch.randint(CLASSES, (len(inputs),))
    data = Arrays(inputs, targets)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        measured = sample_fisher_trace(model, data, batch_size=batch_size)
    expected = naive_fisher_trace(model, data)
    torch.testing.assert_close(measured, expected, rtol=1e-9, atol=1e-14)


def drawn(*shape):
    return torch.randn(SAMPLES, *shape, dtype=torch.float64)


@given(
    st.integers(1, 3),
    st.sampled_from(["zeros", "circular", "reflect", "replicate"]),
    st.integers(1, 2),
    seeds,
)
@modest
def test_convolutions_of_any_dimension_and_padding(axes, mode, uses, seed):
    torch.manual_seed(seed)
    kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[axes - 1]
    layer = kind(4, 4, 3, stride=2, padding=2, dilation=1, groups=2, padding_mode=mode)
    agrees(Used(layer, uses), drawn(4, *(4, 5, 3)[:axes]))


SCALES = {
    "group norm": lambda: nn.GroupNorm(2, 4),
    "layer norm": lambda: nn.LayerNorm((5, 3)),
    "layer norm without bias": lambda: nn.LayerNorm(3, bias=False),
    "rms norm": lambda: nn.RMSNorm((5, 3)),
    "batch norm": lambda: nn.BatchNorm2d(4),
}


@pytest.mark.parametrize("name", SCALES)
@pytest.mark.parametrize("uses", [1, 2])
def test_normalizations(name, uses):
    torch.manual_seed(0)
    layer = SCALES[name]()
    for tensor in [*layer.parameters(), *layer.buffers()]:
        if tensor.is_floating_point():
            tensor.data.uniform_(0.5, 2)
    agrees(Used(layer, uses), drawn(4, 5, 3))
