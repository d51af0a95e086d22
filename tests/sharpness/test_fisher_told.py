"""What has no rule is scored right all the same, and told with its cause and cost."""

import logging
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
ROWS = 6


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


def tokens():
    torch.manual_seed(0)
    index = torch.randint(ROWS, (SAMPLES, POSITIONS))
    return Arrays(index, torch.randint(CLASSES, (SAMPLES,)))


def first_of(layer, x):
    return layer(x)[0]


def positions_first(layer, x):
    returned = layer(x.transpose(0, 1))
    returned = returned[0] if isinstance(returned, tuple) else returned
    return returned.transpose(0, 1)


def cell_by_cell(layer, x):
    state = None
    for step in x.unbind(1):
        state = layer(step, state)
    return (state[0] if isinstance(state, tuple) else state)[:, None]


def attended(layer, x):
    return layer(x, x, x, need_weights=False)[0]


def attended_with_weights(layer, x):
    return layer(x, x, x)[0]


def encoder(**options):
    return nn.TransformerEncoderLayer(WIDTH, 2, 6, batch_first=True, **options)


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


ONE, ALL = "2", "5"  # passes for a batch of four: all samples at once, or one by one

SEQUENCES = {
    "rnn": (lambda: nn.RNN(4, 4, batch_first=True), first_of, "RNN", ALL),
    "lstm": (lambda: nn.LSTM(4, 4, 2, batch_first=True), first_of, "LSTM", ALL),
    "gru": (lambda: nn.GRU(4, 4, batch_first=True), first_of, "GRU", ALL),
    "lstm, positions first": (lambda: nn.LSTM(4, 4), positions_first, "LSTM", ALL),
    "rnn cell": (lambda: nn.RNNCell(4, 4), cell_by_cell, "RNNCell", ALL),
    "lstm cell": (lambda: nn.LSTMCell(4, 4), cell_by_cell, "LSTMCell", ALL),
    "gru cell": (lambda: nn.GRUCell(4, 4), cell_by_cell, "GRUCell", ALL),
    "attention": (
        lambda: nn.MultiheadAttention(4, 2, batch_first=True, add_bias_kv=True),
        attended,
        "MultiheadAttention",
        ONE,
    ),
    "attention with weights": (
        lambda: nn.MultiheadAttention(4, 2, batch_first=True),
        attended_with_weights,
        "MultiheadAttention",
        ONE,
    ),
    "spectral norm": (
        lambda: spectral_norm(nn.Linear(4, 4)),
        None,
        "ParametrizedLinear",
        ONE,
    ),
    "weight norm": (
        lambda: weight_norm(nn.Linear(4, 4)),
        None,
        "ParametrizedLinear",
        ONE,
    ),
    "own parameter": (Scaled, None, "Scaled", ONE),
    "own weight": (OwnLinear, None, "OwnLinear", ONE),
    "subclass": (lambda: Doubled(4, 4), None, "Doubled", ONE),
}


def scored(model, data, message, batch_size=4):
    """Score with exactly one warning, and compare with a loop over samples."""
    model.double()
    with pytest.warns(UserWarning, match=message) as said:
        measured = sample_fisher_trace(model, data, batch_size=batch_size)
    assert len(said) == 1
    expected = naive_fisher_trace(model, data)
    torch.testing.assert_close(measured, expected, rtol=1e-9, atol=1e-14)


def cost(passes, batch_size=4):
    return rf"takes {passes} forward and backward passes for a batch of {batch_size} "


@pytest.mark.parametrize("name", SEQUENCES)
@pytest.mark.parametrize("first", [True, False])
def test_layers_without_a_rule(name, first):
    make, run, kind, passes = SEQUENCES[name]
    torch.manual_seed(0)
    message = rf"^layer \({kind}\) has no per-sample rule.*: .* {cost(passes)}"
    scored(Around(make(), run, first), sequences(), message)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
def test_encoders_do_not_take_the_kernel_that_hides_their_layers(first, norm_first):
    torch.manual_seed(0)
    model = Around(encoder(norm_first=norm_first), first=first)
    attention = "layer.self_attn"
    message = (
        rf"^{attention} \(Mul\w+\) has no .*, {attention}.out_proj \(\w+\) has no "
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for part in model.layer.self_attn.parameters():
            part.requires_grad_(False)
        sample_fisher_trace(model.double(), sequences())  # all others are seen
    for part in model.layer.self_attn.parameters():
        part.requires_grad_(True)
    scored(model, sequences(), rf"{message}[\w-]+ rule: .*{cost(ONE)}")
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.parametrize("positions", [2, 4, 5])
def test_layers_whose_samples_come_second(positions):
    torch.manual_seed(0)
    data = sequences()
    data = Arrays(data.inputs[:, :positions].contiguous(), data.targets)
    reason = r"is called with inputs of shape \(\d, 2, 4\), not samples first"
    if positions == 2:  # which the shape does not tell from samples
        reason = "is used in ways its calls do not show"
    message = rf"^layer \(Linear\) {reason}: .* {cost(ONE)}"
    scored(Around(nn.Linear(4, 4), positions_first), data, message)


class Bags(nn.Module):
    def __init__(self, offsets=False, **options):
        super().__init__()
        self.bag, self.last = nn.EmbeddingBag(ROWS, 4, **options), nn.Linear(4, CLASSES)
        self.offsets = offsets

    def forward(self, x):
        if not self.offsets:
            return self.last(self.bag(x))
        return self.last(self.bag(x.flatten(), torch.arange(len(x)) * x.shape[1]))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"offsets": True}, "is called with offsets"),
        ({"max_norm": 0.5}, "has no per-sample rule"),
        ({"scale_grad_by_freq": True}, "has no per-sample rule"),
    ],
)
def test_bags_of_other_kinds(options, reason):
    torch.manual_seed(0)
    message = rf"^bag \(EmbeddingBag\) {reason}: .* takes [25] forward and backward"
    scored(Bags(**options), tokens(), message)


class Positions(nn.Module):
    """Positions are looked up once for all samples, with and without an axis."""

    def __init__(self, tied):
        super().__init__()
        self.table, self.place = nn.Embedding(ROWS, 4), nn.Embedding(ROWS, 4)
        self.last = nn.Linear(4, ROWS, bias=False)
        if tied:
            self.last.weight = self.place.weight

    def forward(self, x):
        return self.last(
            torch.tanh(self.table(x) + self.place(torch.arange(5)[None])).mean(1)
        )


@pytest.mark.parametrize("tied", [True, False])
def test_rows_shared_by_all_samples_cost_a_pass_and_not_the_whole_model(tied):
    torch.manual_seed(0)
    message = (
        r"^place \(Embedding\) is called with inputs of shape \(1, 5\), not samples "
        rf"first: .* {cost(ONE)}.* the gradient of 24 parameters is"
    )
    scored(Positions(tied), tokens(), message)


def test_it_is_said_and_logged_once_per_scoring(caplog):
    torch.manual_seed(0)
    model, data = Around(Scaled()).double(), sequences()
    for _ in range(2):
        caplog.clear()
        level = caplog.at_level(logging.WARNING, "tepui")
        with level, pytest.warns(UserWarning, match="no per-sample rule") as said:
            fisher_trace(model, data, batch_size=2)
        (record,) = caplog.records
        assert record.levelno == logging.WARNING
        assert [str(warning.message) for warning in said] == [record.getMessage()]


def test_the_warning_points_at_the_caller():
    torch.manual_seed(0)
    with pytest.warns(UserWarning, match="no per-sample rule") as said:
        sample_fisher_trace(Around(Scaled()).double(), sequences())
    assert said[0].filename == __file__


def test_long_lists_are_cut():
    torch.manual_seed(0)
    model = Around(nn.Sequential(*(Scaled() for _ in range(6))))
    scored(
        model, sequences(), r"^layer.0 .*, layer.3 \(Scaled\) has no .* rule, 2 more: "
    )


def test_frozen_parameters_need_no_rule_and_no_warning():
    torch.manual_seed(0)
    model, data = (
        Around(nn.LSTM(4, 4, batch_first=True), first_of).double(),
        sequences(),
    )
    model.layer.requires_grad_(False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        measured = sample_fisher_trace(model, data)
    torch.testing.assert_close(measured, naive_fisher_trace(model, data))


class Padded(nn.Module):
    """An encoder that packs samples without their padding where nothing is trained."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.TransformerEncoder(encoder(), 1)
        self.last = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        padding = x[:, :, 0] < -1
        out = self.encoder(x, src_key_padding_mask=padding)
        return self.last(out.masked_fill(padding[:, :, None], 0).mean(1))


def test_encoders_of_padded_samples():
    torch.manual_seed(0)
    message = rf"^encoder.layers.0.self_attn \(Mul\w+\) has no per-.*{cost(ONE)}"
    scored(Padded(), sequences(), message)
