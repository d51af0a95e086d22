"""Per-sample Fisher traces against a loop that differentiates every sample."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from naive_fisher import naive_fisher_trace
from tepui.data import Arrays, Digits
from tepui.models import MLP, ConvNet, ResNet18
from tepui.sharpness import fisher_trace, sample_fisher_trace


class PreActivation(nn.Module):
    """A pre-activation block with in-place operations, as in a wide ResNet."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(8), nn.BatchNorm2d(12)
        self.conv1 = nn.Conv2d(8, 12, 3, stride=2, padding=1, bias=False)
        self.conv2 = nn.Conv2d(12, 12, 3, padding=1)
        self.shortcut = nn.Conv2d(8, 12, 1, stride=2)
        self.head = nn.Linear(12, 5)

    def forward(self, x):
        out = F.relu(self.norm1(self.stem(x)), inplace=True)
        inner = F.relu_(self.norm2(self.conv1(out)))
        out = self.conv2(inner)
        out += self.shortcut(F.relu(self.stem(x)))
        return self.head(out.mean((2, 3)))


class Grouped(nn.Module):
    """Groups, dilation, uneven strides, 'same' padding, GroupNorm, 1-D convolution."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(4, 8, (3, 2), stride=(2, 1), padding=(2, 0), groups=2)
        self.norm = nn.GroupNorm(2, 8)
        self.second = nn.Conv2d(8, 8, 3, padding="same", dilation=2, groups=8)
        self.third = nn.Conv1d(8, 6, 3, stride=2, dilation=2, padding=1)
        self.head = nn.Linear(6, 5)

    def forward(self, x):
        out = self.second(torch.tanh(self.norm(self.first(x))))
        return self.head(self.third(out.flatten(2)).mean(2))


class Transformer(nn.Module):
    """Patches, a class token, positions, attention and LayerNorm, as in a ViT."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, stride=4)
        self.token = nn.Parameter(torch.randn(1, 1, 8))
        self.position = nn.Parameter(torch.randn(1, 5, 8) * 0.1)
        self.norm1, self.norm2 = nn.LayerNorm(8), nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.position
        inner = self.norm1(x)
        x = x + self.attention(inner, inner, inner, need_weights=False)[0]
        x = x + self.mlp(self.norm2(x))
        return self.head(x[:, 0])


class Words(nn.Module):
    """Embeddings with padding, a shared layer used three times, a tied output."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 6, padding_idx=0)
        self.kind = nn.Embedding(2, 6)
        self.shared = nn.Linear(6, 6)
        self.norm = nn.LayerNorm(6)
        self.head = nn.Linear(6, 5)

    def forward(self, tokens, kinds):
        x = self.embedding(tokens) + self.kind(kinds)
        for _ in range(3):
            x = self.norm(x + torch.tanh(self.shared(x)))
        return self.head(x.mean(1))


class Tied(nn.Module):
    """Two layers with one weight."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(12, 12), nn.Linear(12, 12)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(torch.tanh(self.first(x.flatten(1))))[:, :5]


def images(shape, samples=9, dtype=torch.float64):
    stream = torch.Generator().manual_seed(1)
    x = torch.randn(samples, *shape, generator=stream, dtype=torch.float64).to(dtype)
    return Arrays(x, torch.randint(5, (samples,), generator=stream))


def words(samples=9):
    stream = torch.Generator().manual_seed(1)
    tokens = torch.randint(11, (samples, 7), generator=stream)
    kinds = torch.randint(2, (samples, 7), generator=stream)
    labels = torch.randint(5, (samples,), generator=stream)
    return Arrays({"tokens": tokens, "kinds": kinds}, labels)


CASES = {
    "mlp": (lambda: MLP(12, (7,), 5), lambda: images((12,))),
    "resnet": (lambda: ResNet18(5, width=4), lambda: images((3, 8, 8))),
    "convnet": (lambda: ConvNet(5, 3, 4), lambda: images((3, 8, 8))),
    "pre-activation": (PreActivation, lambda: images((3, 8, 8))),
    "grouped": (Grouped, lambda: images((4, 7, 6))),
    "transformer": (Transformer, lambda: images((3, 8, 8))),
    "words": (Words, words),
    "tied": (Tied, lambda: images((12,))),
}


def built(name, dtype=torch.float64):
    torch.manual_seed(0)
    factory, data = CASES[name]
    model = factory().to(dtype)
    model.train()
    for part in model.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.normal_()
            part.running_var.uniform_(0.5, 2)
            part.weight.data.normal_()
    return model, data()


def scored(name, model, data, batch_size):
    """Return scores; the parameters of one case are said to have no rule."""
    said = r"^token, position, attention.in_proj_weight, .*, 2 more: for"
    warned = pytest.warns(UserWarning, match=said)
    with warned if name == "transformer" else warnings.catch_warnings():
        warnings.simplefilter("always" if name == "transformer" else "error")
        return sample_fisher_trace(model, data, batch_size=batch_size)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("batch_size", [1, 7])
def test_equals_a_loop_over_samples(name, batch_size):
    model, data = built(name)
    measured = scored(name, model, data, batch_size)
    expected = naive_fisher_trace(model, data)
    torch.testing.assert_close(measured, expected, rtol=1e-10, atol=0)


class FewChannels(nn.Module):
    """Convolutions of stride one over few channels, dilated, padded unevenly."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1)
        self.second = nn.Conv2d(4, 4, (2, 3), padding=(0, 2), dilation=(2, 1))
        self.third = nn.Conv2d(4, 3, 3, padding="same", dilation=2, bias=False)
        self.fourth = nn.Conv2d(3, 3, 1)
        self.head = nn.Linear(3, 5)

    def forward(self, x):
        x = torch.tanh(self.second(torch.tanh(self.first(x))))
        return self.head(self.fourth(self.third(x)).mean((2, 3)))


@pytest.mark.parametrize("size", [(9, 7), (8, 8), (5, 12)])
def test_channels_last_in_memory_changes_nothing(size):
    torch.manual_seed(0)
    model, data = FewChannels().double(), images((3, *size))
    expected = naive_fisher_trace(model, data)
    model = model.to(memory_format=torch.channels_last)
    last = data.inputs.contiguous(memory_format=torch.channels_last)
    measured = sample_fisher_trace(model, Arrays(last, data.targets), batch_size=4)
    torch.testing.assert_close(measured, expected, rtol=1e-10, atol=0)


@pytest.mark.parametrize("name", CASES)
def test_float32_equals_a_loop_in_float32(name):
    model, data = built(name)
    exact = naive_fisher_trace(model, data)
    inputs = data.inputs
    if isinstance(inputs, torch.Tensor):
        inputs = inputs.float()
    single = Arrays(inputs, data.targets)
    measured = scored(name, model.float(), single, 7)
    assert measured.dtype == torch.float32
    loop = naive_fisher_trace(model, single)
    torch.testing.assert_close(measured, loop, rtol=1e-5, atol=0)
    torch.testing.assert_close(measured.double(), exact, rtol=1e-4, atol=0)


def test_frozen_parameters_do_not_count():
    model, data = built("convnet")
    for parameter in model.layers.parameters():
        parameter.requires_grad_(False)
    model.classifier.bias.requires_grad_(False)
    measured = sample_fisher_trace(model, data)
    torch.testing.assert_close(
        measured, naive_fisher_trace(model, data), rtol=1e-10, atol=0
    )
    assert not model.layers[0].weight.requires_grad


def test_mean_comes_with_its_standard_error():
    model, data = built("convnet")
    scores = naive_fisher_trace(model, data)
    measured = fisher_trace(model, data, batch_size=4)
    assert measured.value == pytest.approx(float(scores.mean()))
    assert measured.standard_error == pytest.approx(float(scores.std() / 3))


def test_parts_of_a_batch_add_up_to_the_whole(monkeypatch):
    model, data = built("resnet")
    expected = sample_fisher_trace(model, data)
    monkeypatch.setattr("tepui.sharpness.layers.WORKING_ELEMENTS", 1)
    monkeypatch.setattr("tepui.sharpness.recorder.WHOLE_GRADIENT_ELEMENTS", 1)
    torch.testing.assert_close(sample_fisher_trace(model, data), expected)


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # CPUs without bfloat16
def test_bfloat16_keeps_the_order_of_most_samples():
    torch.manual_seed(0)
    model, data = ConvNet(), Digits().subset(range(200))
    exact = sample_fisher_trace(model, data)
    rough = sample_fisher_trace(model, data, autocast=torch.bfloat16)
    assert rough.dtype == torch.float32
    torch.testing.assert_close(rough, exact, rtol=0.15, atol=0)
