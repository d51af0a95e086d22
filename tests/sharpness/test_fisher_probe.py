"""The Fisher trace compares its two ways in strict float32, and only there."""

import warnings

import pytest
import torch
from torch import nn

from tepui.data import Arrays
from tepui.sharpness import sample_fisher_trace

SAMPLES = 9
STRICT = ("highest", False, False, False)


def settings():
    return (
        torch.get_float32_matmul_precision(),
        torch.backends.cuda.matmul.allow_tf32,
        torch.backends.cudnn.allow_tf32,
        torch.is_autocast_enabled("cpu"),
    )


@pytest.fixture(autouse=True)
def _rounding_allowed():
    """Allow all that rounds, as a run in bfloat16 on a GPU does."""
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    yield
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = True


def data():
    stream = torch.Generator().manual_seed(0)
    x = torch.randn(SAMPLES, 4, generator=stream)
    return Arrays(x, torch.arange(SAMPLES) % 3)


class Witness(torch.autograd.Function):
    """Notes torch's settings in both passes."""

    generate_vmap_rule = True
    seen: tuple[list, list] = ([], [])  # while probing, while scoring

    @classmethod
    def note(cls, x):
        cls.seen[len(x) == SAMPLES].append(settings())
        return x.clone()

    @staticmethod
    def forward(x):
        return Witness.note(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Nothing is needed."""

    @staticmethod
    def backward(ctx, gradient):
        return Witness.note(gradient)


class Watched(nn.Module):
    def __init__(self, hidden=False):
        super().__init__()
        self.first, self.last, self.hidden = nn.Linear(4, 5), nn.Linear(5, 3), hidden

    def forward(self, x):
        x = Witness.apply(torch.tanh(self.first(x)))
        return self.last(x) + (x @ self.last.weight.t() if self.hidden else 0)


@pytest.mark.parametrize("autocast", [False, True])
def test_both_passes_of_the_probe_are_strict_and_scoring_is_as_it_was(autocast):
    torch.manual_seed(0)
    probing, scoring = Witness.seen
    probing.clear()
    scoring.clear()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        outside = settings()
        sample_fisher_trace(Watched(), data(), batch_size=SAMPLES)
        assert settings() == outside
    look, *probes = probing  # the first asks whether model and data fit at all
    assert look[:3] == outside[:3]
    assert len(probes) == 6
    assert set(probes) == {STRICT}
    assert len(scoring) == 2
    assert {seen[:3] for seen in scoring} == {outside[:3]}


class Rounding(nn.Module):
    """Errs by 1 % where TF32 is allowed, other than one sample at a time."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x):
        error = 0.01 if torch.backends.cudnn.allow_tf32 and len(x) > 1 else 0.0
        return self.last(torch.tanh(self.first(x))) * (1 + error)


def test_rounding_that_is_allowed_is_not_taken_for_hidden_uses():
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sample_fisher_trace(Rounding(), data())
