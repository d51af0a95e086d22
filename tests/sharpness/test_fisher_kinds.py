"""Fisher traces of every kind of layer that has a rule, against a loop in float64."""

import warnings

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import nn

from naive_fisher import naive_fisher_trace
from strategies import modest
from tepui.data import Arrays
from tepui.modules.pruning import prune_
from tepui.sharpness import sample_fisher_trace

SAMPLES, CLASSES, ROWS = 5, 3, 4

small = st.integers(1, 3)
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


TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


@st.composite
def transposed(draw):
    """A transposed convolution with any options, and the size of its input."""
    axes, groups = draw(small), draw(small)
    each = st.lists(small, min_size=axes, max_size=axes).map(tuple)
    kernel, stride, dilation, size = (draw(each) for _ in range(4))
    reach = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    padding = [draw(st.integers(0, most)) for most in reach]
    extra = [draw(st.integers(0, most - 1)) for most in map(max, stride, dilation)]
    spans = zip(size, stride, reach, padding, extra, strict=True)
    assume(all((n - 1) * s + r - 2 * p + e >= 0 for n, s, r, p, e in spans))
    layer = TRANSPOSED[axes - 1](
        2 * groups,
        groups * draw(small),
        kernel,
        stride,
        padding,
        extra,
        groups,
        draw(st.booleans()),
        dilation,
    )
    return layer, (2 * groups, *size)


@given(transposed(), st.integers(1, 2), seeds)
@modest
def test_transposed_convolutions(drawn_layer, uses, seed):
    torch.manual_seed(seed)
    layer, size = drawn_layer
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    agrees(Used(layer, uses), drawn(*size))


def test_transposed_convolutions_of_a_chosen_size_pruned_and_in_channels_last():
    torch.manual_seed(0)
    layer = nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2)
    model = Used(layer, output_size=[8, 8]).to(memory_format=torch.channels_last)
    inputs = drawn(4, 3, 3).contiguous(memory_format=torch.channels_last)
    agrees(model, inputs)
    dense = sample_fisher_trace(
        model, data := Arrays(inputs, torch.arange(SAMPLES) % 3)
    )
    prune_(model, 0.5)
    layer.weight.register_hook(lambda gradient: gradient * layer.weight_mask)
    model.head.weight.register_hook(lambda g: g * model.head.weight_mask)
    sparse = sample_fisher_trace(model, data)
    torch.testing.assert_close(sparse, naive_fisher_trace(model, data))
    assert (sparse != dense).all()


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


@given(
    st.sampled_from(["sum", "mean", "max"]),
    st.sampled_from([None, 0, -1]),
    st.sampled_from(["", "sparse", "weights"]),
    st.integers(1, 6),
    st.integers(1, 2),
    st.sampled_from([torch.int32, torch.int64]),
    seeds,
)
@modest
def test_bags_of_embeddings(mode, padding, option, length, uses, kind, seed):
    assume(option == "" or mode == "sum" or (mode == "mean" and option != "weights"))
    torch.manual_seed(seed)
    sparse = option == "sparse"
    layer = nn.EmbeddingBag(ROWS, 3, mode=mode, padding_idx=padding, sparse=sparse)
    model = Weighted(layer) if option == "weights" else Used(layer, uses)
    agrees(model, torch.randint(ROWS, (SAMPLES, length)).to(kind))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("uses", [1, 2])
def test_bags_of_nothing_but_padding_have_no_gradient(mode, uses):
    torch.manual_seed(0)
    index = torch.tensor([[1, 2], [0, 1], [0, 0], [3, 3], [0, 0]])
    agrees(Used(nn.EmbeddingBag(ROWS, 3, mode=mode, padding_idx=0), uses), index)


class Weighted(nn.Module):
    """A bag whose rows count by what another layer makes of them."""

    def __init__(self, bag):
        super().__init__()
        self.bag, self.gate, self.head = (
            bag,
            nn.Embedding(ROWS, 1),
            nn.Linear(3, CLASSES),
        )

    def forward(self, x):
        weights = torch.sigmoid(self.gate(x)).squeeze(-1)
        return self.head(torch.tanh(self.bag(x, per_sample_weights=weights)))


class Products(nn.Module):
    """A bilinear layer of a sample's two halves."""

    def __init__(self, bias, uses):
        super().__init__()
        self.layer, self.uses = nn.Bilinear(2, 3, 4, bias=bias), uses
        self.head = nn.Linear(4, CLASSES)

    def forward(self, x):
        out = self.layer(x[..., :2], input2=x[..., 2:])
        if self.uses == 2:
            out = torch.tanh(out) + self.layer(x[..., 2:4], x[..., 1:4])
        return self.head(out.reshape(len(x), -1, 4).square().sum(1))


@given(st.lists(small, max_size=2), st.booleans(), st.integers(1, 2), seeds)
@modest
def test_bilinear_layers(shape, bias, uses, seed):
    torch.manual_seed(seed)
    agrees(Products(bias, uses), drawn(*shape, 5))


SCALES = {
    "group norm": lambda: nn.GroupNorm(2, 4),
    "layer norm": lambda: nn.LayerNorm((5, 3)),
    "layer norm without bias": lambda: nn.LayerNorm(3, bias=False),
    "rms norm": lambda: nn.RMSNorm((5, 3)),
    "instance norm": lambda: nn.InstanceNorm2d(4, affine=True),
    "instance norm with statistics": lambda: nn.InstanceNorm2d(
        4, affine=True, track_running_stats=True
    ),
    "batch norm": lambda: nn.BatchNorm2d(4),
    "slope": lambda: nn.PReLU(),
    "slopes": lambda: nn.PReLU(4),
}


@pytest.mark.parametrize("name", SCALES)
@pytest.mark.parametrize("uses", [1, 2])
def test_normalizations_and_slopes(name, uses):
    torch.manual_seed(0)
    layer = SCALES[name]()
    for tensor in [*layer.parameters(), *layer.buffers()]:
        if tensor.is_floating_point():
            tensor.data.uniform_(0.5, 2)
    agrees(Used(layer, uses), drawn(4, 5, 3))


@pytest.mark.parametrize("axes", [1, 3])
def test_instance_norm_of_other_dimensions(axes):
    torch.manual_seed(0)
    kind = nn.InstanceNorm1d if axes == 1 else nn.InstanceNorm3d
    agrees(Used(kind(4, affine=True)), drawn(4, *(5, 3, 2)[:axes]))


def test_slopes_of_plain_features():
    torch.manual_seed(0)
    agrees(Used(nn.PReLU(6)), drawn(6))
