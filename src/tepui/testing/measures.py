"""What every measure of a model promises, whatever it measures."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from tepui.core.seeding import generator, seeded
from tepui.data import Arrays
from tepui.losses import cross_entropy
from tepui.sharpness import Measurement
from tepui.testing.expecting import Subject, name_of

Measure = Callable[..., Measurement | Sequence[Measurement]]
SAMPLES, FEATURES, CLASSES = 24, 6, 3


def check_measure(measure: Measure, *, depends_on_batches: bool = False) -> None:
    """Check that a measure of sharpness does what every measure of tepui does.

    It returns finite measurements whose settings JSON can hold, leaves the model as it
    was (also where the loss fails) and global generators alone, gives the same for the
    same generator and without one, and takes inputs that are mappings and any map-style
    data set.

    Args:
        measure: Called as ``measure(model, dataset, loss=..., generator=...)``; gives a
            :class:`tepui.sharpness.Measurement` or several. Where it has options
            ``batch_size`` and ``num_samples``, these are tried too.
        depends_on_batches: Whether samples of one batch are measured together, so that
            the value depends on its size.

    Raises:
        AssertionError: If it does not; the message names measure, rule and what was
            seen.

    Example:
        >>> from tepui.sharpness import fisher_trace
        >>> check_measure(fisher_trace)
    """
    checked = _Checked(name_of(measure), measure)
    call = "measure(model, dataset, loss=..., generator=...)"
    checked.must_take(call, measure, None, None, loss=None, generator=None)
    _check_measurement(checked)
    _check_traces(checked)
    _check_draws(checked)
    _check_data(checked, depends_on_batches)


@dataclass(frozen=True)
class _Checked(Subject):
    """A measure, and how to call it."""

    measure: Measure

    def __call__(self, model: nn.Module, data: Any, **options: Any) -> Any:
        """Return what it measures."""
        options.setdefault("generator", generator("testing", "draws"))
        options.setdefault("loss", cross_entropy)
        return self.measure(model, data, **options)

    def values(self, model: nn.Module, data: Any, **options: Any) -> Tensor:
        """Return the numbers alone."""
        measurements = _several(self(model, data, **options))
        numbers = [measurement.value for measurement in measurements]
        return torch.tensor(numbers, dtype=torch.float64)

    def takes(self, option: str) -> bool:
        """Return whether the measure has an option."""
        return option in signature(self.measure).parameters


class _Network(nn.Module):
    """BatchNorm, dropout, a frozen layer and one used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(FEATURES, FEATURES)
        self.norm = nn.BatchNorm1d(FEATURES)
        self.dropout = nn.Dropout(0.5)
        self.frozen = nn.Linear(FEATURES, FEATURES).requires_grad_(False)
        self.classifier = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        x = torch.tanh(self.norm(self.first(torch.tanh(self.first(x)))))
        logits: Tensor = self.classifier(self.frozen(self.dropout(x)))
        return logits


def _network() -> _Network:
    """Return a float64 network of which one part is in eval mode, the rest not."""
    with seeded("testing", "network"):
        model = _Network()
        assert model.norm.running_mean is not None
        assert model.norm.running_var is not None
        model.norm.running_mean.normal_()
        model.norm.running_var.uniform_(0.5, 2)
    model.norm.eval()
    return model.double()


def _data() -> Arrays:
    stream = generator("testing", "data")
    shape = SAMPLES, FEATURES
    inputs = torch.randn(shape, generator=stream, dtype=torch.float64)
    return Arrays(inputs, torch.randint(CLASSES, (SAMPLES,), generator=stream))


def _several(measured: Any) -> list[Measurement]:
    return [measured] if isinstance(measured, Measurement) else [*measured]


def _check_measurement(checked: _Checked) -> None:
    measured = checked(_network(), _data())
    fits = isinstance(measured, Measurement) or (
        isinstance(measured, tuple | list)
        and len(measured) > 0
        and all(isinstance(item, Measurement) for item in measured)
    )
    kind = type(measured).__name__
    checked.must("return a Measurement or several", fits, kind)
    for item in _several(measured):
        finite = isinstance(item.value, float) and math.isfinite(item.value)
        checked.must("measure a finite float", finite, repr(item.value))
        with checked.must_manage("have settings that JSON can hold"):
            document = json.loads(json.dumps(item.document(), allow_nan=False))
        missing = {"measure", "samples"} - document["settings"].keys()
        rule = "name itself ('measure') and the number of 'samples' in its settings"
        checked.must(rule, not missing, dict(item.settings))


class _NoLossError(Exception):
    """Raised by a loss that fails."""


def _check_traces(checked: _Checked) -> None:
    model = _network()
    before = _state(model)
    with checked.must_keep_generators():
        checked(model, _data())
    _check_untouched(checked, model, before)
    calls = count()

    def failing(outputs: Tensor, targets: Tensor) -> Tensor:
        if next(calls):
            raise _NoLossError
        return cross_entropy(outputs, targets)

    try:
        checked(model, _data(), loss=failing)
    except (_NoLossError, ValueError):  # it may take one loss alone, and say so
        failed = Subject(f"{checked.name}, also where the loss fails,")
        _check_untouched(failed, model, before)


def _state(model: nn.Module) -> dict[str, Any]:
    """Return everything of a model that a measure could leave changed."""
    return {
        **{name: tensor.clone() for name, tensor in model.state_dict().items()},
        "modes": [part.training for part in model.modules()],
        "requires_grad": [p.requires_grad for p in model.parameters()],
        "gradients": [p.grad is None for p in model.parameters()],
        "hooks": [len(part._forward_hooks) for part in model.modules()],
    }


def _check_untouched(
    checked: Subject, model: nn.Module, before: dict[str, Any]
) -> None:
    after = _state(model)
    changed = [
        key
        for key, value in before.items()
        if not (
            torch.equal(after[key], value)
            if isinstance(value, Tensor)
            else after[key] == value
        )
    ]
    rule = "leave the model as it was (see tepui.modules.undisturbed)"
    checked.must(rule, not changed, f"other {', '.join(changed)}")


def _check_draws(checked: _Checked) -> None:
    model, data = _network(), _data()
    options = {"num_samples": 20} if checked.takes("num_samples") else {}
    for rule, how in (
        ("give the same value for the same generator", options),
        ("give the same value at every call without a generator", {"generator": None}),
    ):
        first, again = (checked.values(model, data, **how) for _ in range(2))
        checked.must(rule, torch.equal(first, again), f"{first} and {again}")


def _check_data(checked: _Checked, depends_on_batches: bool) -> None:
    model, data = _network(), _data()
    expected = checked.values(model, data)
    inputs, targets = data.inputs, data.targets
    assert isinstance(inputs, Tensor)
    forms = {
        "inputs that are mappings": Arrays({"x": inputs}, targets),
        "a list of pairs": list(zip(inputs, targets.tolist(), strict=True)),
        "a TensorDataset": TensorDataset(inputs, targets),
    }
    for form, same in forms.items():
        rule = f"measure the same on {form}"
        checked.must_agree(rule, [checked.values(model, same)], [expected])
    if depends_on_batches or not checked.takes("batch_size"):
        return
    rule = "measure the same in batches of any size (depends_on_batches)"
    checked.must_agree(rule, [checked.values(model, data, batch_size=5)], [expected])
