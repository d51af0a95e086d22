"""Models made to mislead the layers' account of the Fisher trace.

Each either agrees with a loop over samples in silence, or says what it costs to agree.
"""

import warnings
from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from naive_fisher import naive_fisher_trace
from tepui.data import Arrays
from tepui.data.arrays import Batch
from tepui.losses import cross_entropy
from tepui.modules.running import undisturbed
from tepui.sharpness import sample_fisher_trace
from tepui.sharpness.recorder import Recorder

SAMPLES, POSITIONS, WIDTH, CLASSES = 9, 5, 4, 3


class Trap(nn.Module):
    """Two layers, used by each trap in its own way."""

    said: str | None = None

    def __init__(self):
        super().__init__()
        self.layer, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)

    def finish(self, x):
        return self.last(torch.tanh(x).mean(1))


class CalledAndFunctional(Trap):
    said = r"^layer.weight, layer.bias: "

    def forward(self, x):
        return self.finish(F.linear(x, self.layer.weight)) + self.layer(x[:, 0])[:, :3]


class HiddenBehindALargeScore(Trap):
    """The hidden use makes less than a thousandth of the score."""

    said = r"^layer.weight, layer.bias: "

    def forward(self, x):
        seen, unseen = self.layer(x[:, 0])[:, :3], 9 * self.layer.bias[:3]
        return self.last(1000 * x.mean(1)) + seen + unseen


class Sorting(Trap):
    """Samples pass the layer in another order; the first two are in order."""

    said = r"^layer.weight, layer.bias: "

    def forward(self, x):
        order = torch.argsort(x[:, 0, 0])
        return self.finish(self.layer(x[order])[torch.argsort(order)])


class Mixing(Trap):
    """Samples affect each other, evenly so where there are two."""

    said = r"^layer.weight, layer.bias, last.weight, last.bias: "

    def forward(self, x):
        return self.finish(self.layer(x) - self.layer(x).mean(0))


class Routing(Trap):
    """Samples go to one of two layers; the first two to the same."""

    said = r"^(layer|other).weight, "

    def __init__(self):
        super().__init__()
        self.other = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        chosen, out = x[:, 0, 0] > 0, torch.zeros_like(x)
        for layer, rows in ((self.layer, chosen), (self.other, ~chosen)):
            if rows.any():
                out[rows] = layer(x[rows])
        return self.finish(out)


class DeeperForSome(Trap):
    """The layer runs twice in batches that hold certain samples; not in the first."""

    def forward(self, x):
        out, deep = torch.tanh(self.layer(x)), x[:, :1, :1] > 2
        if deep.any():
            out = torch.where(deep, self.layer(out), out)
        return self.finish(out)


class Flattening(Trap):
    said = r"^layer.weight, layer.bias: "

    def forward(self, x):
        return self.finish(self.layer(x.flatten(0, 1)).view(x.shape))


class OneVector(Trap):
    """Layers are called with a vector as long as there are samples in the check."""

    said = r"^vector, small.weight, small.bias: "

    def __init__(self):
        super().__init__()
        self.small, self.vector = nn.Linear(2, 3), nn.Parameter(torch.randn(2))

    def forward(self, x):
        return self.finish(self.layer(x)) * self.small(self.vector)


class ChangedInPlace(Trap):
    def forward(self, x):
        return self.finish(F.relu_(self.layer(x).mul_(2)))


class WithoutGradients(Trap):
    def forward(self, x):
        with torch.no_grad():
            fixed = self.layer(x)
        return self.finish(fixed + self.layer(x))


class Checkpointed(Trap):
    said = r"^layer.weight, layer.bias, last.weight, last.bias: "

    def forward(self, x):
        inner = checkpoint(lambda x: torch.tanh(self.layer(x)), x, use_reentrant=False)
        return self.finish(inner)


class HookedOutputs(Trap):
    def __init__(self):
        super().__init__()
        self.layer.register_forward_hook(lambda layer, inputs, output: 2 * output)

    def forward(self, x):
        return self.finish(self.layer(x))


class HookedGradients(Trap):
    """Functional transforms refuse modules with such hooks."""

    def __init__(self):
        super().__init__()
        self.last.register_full_backward_hook(lambda layer, inner, outer: None)

    def forward(self, x):
        return self.finish(self.layer(x))


class Extended(Trap):
    """A layer got another parameter, which a hook uses."""

    said = r"^layer.scale: "

    def __init__(self):
        super().__init__()
        self.layer.scale = nn.Parameter(torch.randn(WIDTH))
        self.layer.register_forward_hook(lambda layer, inputs, out: out * layer.scale)

    def forward(self, x):
        return self.finish(self.layer(x))


class Patched(Trap):
    said = r"^layer.weight, layer.bias: "

    def __init__(self):
        super().__init__()
        layer = self.layer
        layer.forward = lambda x: F.linear(x, 2 * layer.weight, layer.bias)

    def forward(self, x):
        return self.finish(self.layer(x))


class Mapped(Trap):
    """Returns a mapping, and calls its layers by keyword."""

    def forward(self, x):
        hidden = torch.tanh(self.layer(input=x))
        return {"logits": self.last(input=hidden.mean(1)), "hidden": hidden}


class OwnStatistics(Trap):
    """BatchNorm without running statistics lets samples affect each other."""

    said = r"^layer.weight, layer.bias, last.weight, last.bias, 2 more: "

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH, track_running_stats=False)

    def forward(self, x):
        return self.finish(self.norm(self.layer(x).transpose(1, 2)).transpose(1, 2))


class Unused(Trap):
    said = r"^layer.weight, layer.bias: "

    def forward(self, x):
        return self.finish(x)


def logits_of(outputs):
    return outputs["logits"] if isinstance(outputs, dict) else outputs


def loss(outputs, targets):
    return cross_entropy(logits_of(outputs), targets)


def data():
    torch.manual_seed(1)
    x = torch.randn(SAMPLES, POSITIONS, WIDTH, dtype=torch.float64)
    x[:, 0, 0] = torch.tensor([0.1, 0.2, 0.5, -0.3, -0.2, 3, 0.4, -2, 2.5])
    return Arrays(x, torch.randint(CLASSES, (SAMPLES,)))


@pytest.mark.parametrize("trap", Trap.__subclasses__())
@pytest.mark.parametrize("batch_size", [2, 3, 4, 9])
def test_no_trap_goes_wrong_in_silence(trap, batch_size):
    torch.manual_seed(0)
    model, samples = trap().double(), data()
    expected = naive_fisher_trace(model, samples, loss)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.warns(UserWarning, match=trap.said) if trap.said else nullcontext():
            measured = sample_fisher_trace(model, samples, batch_size=batch_size)
    torch.testing.assert_close(measured, expected, rtol=1e-9, atol=1e-14)


def test_a_first_batch_of_one_sample_does_not_end_the_check():
    torch.manual_seed(0)
    model, samples = Mixing().double(), data()
    expected = naive_fisher_trace(model, samples)
    rows = torch.arange(SAMPLES).split([1, SAMPLES - 1])
    parts = [Batch(samples.inputs[i], samples.targets[i], i) for i in rows]
    recorder = Recorder(model, cross_entropy, None)
    with undisturbed(model), recorder.attached(), pytest.warns(match="^layer"):
        scores = torch.cat([recorder.score(part) for part in parts])
    torch.testing.assert_close(scores, expected, rtol=1e-9, atol=1e-14)
