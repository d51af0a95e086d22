"""What has no rule is scored right all the same, and told with its cost."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

from naive_fisher import naive_fisher_trace
from tepui.data import Arrays
from tepui.sharpness import fisher_trace, sample_fisher_trace

SAMPLES, POSITIONS, WIDTH, CLASSES = 7, 5, 4, 3


class Around(nn.Module):
    """A layer of any kind between two linear ones."""

    def __init__(self, layer, run=None, first=True):
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH) if first else nn.Identity()
        self.layer, self.run = layer, run or (lambda layer, x: layer(x))
        self.last = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        return self.last(self.run(self.layer, self.first(x)).mean(1))


def sequences():
    torch.manual_seed(0)
    x = torch.randn(SAMPLES, POSITIONS, WIDTH, dtype=torch.float64)
    return Arrays(x, torch.randint(CLASSES, (SAMPLES,)))


def first_of(layer, x):
    return layer(x)[0]


def positions_first(layer, x):
    returned = layer(x.transpose(0, 1))
    returned = returned[0] if isinstance(returned, tuple) else returned
    return returned.transpose(0, 1)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(WIDTH))

    def forward(self, x):
        return torch.tanh(x * self.scale)


class OwnLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH))

    def forward(self, x):
        return torch.tanh(F.linear(x, self.weight))


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


ATTENTION = nn.MultiheadAttention
LAYERS = {
    "rnn": (lambda: nn.RNN(4, 4, batch_first=True), first_of),
    "lstm, positions first": (lambda: nn.LSTM(4, 4, 2), positions_first),
    "attention": (
        lambda: ATTENTION(4, 2, batch_first=True, add_bias_kv=True),
        lambda layer, x: layer(x, x, x, need_weights=False)[0],
    ),
    "attention with weights": (
        lambda: ATTENTION(4, 2, batch_first=True),
        lambda layer, x: layer(x, x, x)[0],
    ),
    "spectral norm": (lambda: spectral_norm(nn.Linear(4, 4)), None),
    "weight norm": (lambda: weight_norm(nn.Linear(4, 4)), None),
    "own parameter": (Scaled, None),
    "own weight": (OwnLinear, None),
    "subclass": (lambda: Doubled(4, 4), None),
    "slopes": (lambda: nn.PReLU(POSITIONS), None),
    "instance norm": (lambda: nn.InstanceNorm1d(POSITIONS, affine=True), None),
    "transposed": (
        lambda: nn.ConvTranspose1d(POSITIONS, 2, 2),
        lambda layer, x: layer(x)[..., :WIDTH],
    ),
    "positions first": (lambda: nn.Linear(4, 4), positions_first),
}
SAID = ": for the Fisher trace of Around these are differentiated sample by sample"
NAMES = r"^(layer\.[\w.]+(, )?)+(\d+ more)?"


def scored(model, data, message, batch_size=4):
    """Score with exactly one warning, and compare with a loop over samples."""
    model.double()
    with pytest.warns(UserWarning, match=message) as said:
        measured = sample_fisher_trace(model, data, batch_size=batch_size)
    assert len(said) == 1
    expected = naive_fisher_trace(model, data)
    torch.testing.assert_close(measured, expected, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("first", [True, False])
def test_layers_without_a_rule(name, first):
    make, run = LAYERS[name]
    torch.manual_seed(0)
    scored(Around(make(), run, first), sequences(), NAMES + SAID)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
def test_encoders_do_not_take_the_kernel_that_hides_their_layers(first, norm_first):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(4, 2, 6, batch_first=True, norm_first=norm_first)
    model = Around(layer, first=first).double()
    layer.self_attn.requires_grad_(False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sample_fisher_trace(model, sequences())  # all others are seen
    layer.self_attn.requires_grad_(True)
    scored(model, sequences(), rf"^(layer\.self_attn\.[\w.]+(, )?){{4}}{SAID}")
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.parametrize("positions", [2, 4])
def test_layers_whose_samples_come_second(positions):
    """Two are as many as the samples of the check, which their shape does not tell."""
    torch.manual_seed(0)
    data = sequences()
    data = Arrays(data.inputs[:, :positions].contiguous(), data.targets)
    scored(Around(nn.Linear(4, 4), positions_first), data, NAMES + SAID)


def test_it_is_said_once_per_scoring():
    torch.manual_seed(0)
    model, data = Around(Scaled()).double(), sequences()
    for _ in range(2):
        with pytest.warns(UserWarning, match=f"^layer.scale{SAID}") as said:
            fisher_trace(model, data, batch_size=2)
        assert len(said) == 1
        assert said[0].filename == __file__


class Rounding(Around):
    """Errs by 1 % where TF32 is allowed, other than one sample at a time."""

    def forward(self, x):
        error = 0.01 if torch.backends.cudnn.allow_tf32 and len(x) > 1 else 0.0
        return super().forward(x) * (1 + error)


def test_rounding_that_is_allowed_is_not_taken_for_hidden_uses(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sample_fisher_trace(Rounding(nn.Tanh()).double(), sequences())
