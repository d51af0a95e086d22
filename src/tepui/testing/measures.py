"""What every measure of a model promises, whatever it measures."""

import json
import math
from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from tepui.core.seeding import generator, seeded
from tepui.data import Arrays
from tepui.losses import cross_entropy
from tepui.sharpness import Measurement
from tepui.testing.expecting import (
    expect,
    expect_close,
    global_generators_kept,
    name_of,
)

Measure = Callable[..., Measurement | Sequence[Measurement]]
SAMPLES, FEATURES, CLASSES = 24, 6, 3


def check_measure(measure: Measure, *, depends_on_batches: bool = False) -> None:
    """Check that a measure of sharpness does what every measure of tepui does.

    It returns finite measurements whose settings JSON can hold, leaves the model as it
    was (also where the loss fails) and global generators alone, gives the same for the
    same generator and without one, and takes inputs that are mappings, any map-style
    data set and a loader.

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
    name = name_of(measure)
    _check_measurement(measure, name)
    _check_traces(measure, name)
    _check_failing_loss(measure, name)
    _check_draws(measure, name)
    _check_forms(measure, name)
    if not depends_on_batches:
        _check_batches(measure, name)


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


def _measured(measure: Measure, model: nn.Module, data: Any, **options: Any) -> Any:
    options.setdefault("generator", generator("testing", "draws"))
    options.setdefault("loss", cross_entropy)
    return measure(model, data, **options)


def _values(measure: Measure, model: nn.Module, data: Any, **options: Any) -> Tensor:
    found = _several(_measured(measure, model, data, **options))
    return torch.tensor([each.value for each in found], dtype=torch.float64)


def _several(found: Any) -> list[Measurement]:
    return [found] if isinstance(found, Measurement) else list(found)


def _check_measurement(measure: Measure, name: str) -> None:
    found = _measured(measure, _network(), _data())
    is_one = isinstance(found, Measurement)
    several = is_one or (
        isinstance(found, tuple | list)
        and len(found) > 0
        and all(isinstance(each, Measurement) for each in found)
    )
    rule = "return a Measurement or several"
    expect(several, name, rule, type(found).__name__)
    for each in _several(found):
        finite = isinstance(each.value, float) and math.isfinite(each.value)
        expect(finite, name, "measure a finite float", repr(each.value))
        try:
            document = json.loads(json.dumps(each.document(), allow_nan=False))
        except (TypeError, ValueError) as error:
            rule = "have settings that JSON can hold"
            raise AssertionError(f"{name} must {rule}, got {error}") from None
        missing = {"measure", "samples"} - document["settings"].keys()
        rule = "name itself ('measure') and the number of 'samples' in its settings"
        expect(not missing, name, rule, dict(each.settings))


def _check_traces(measure: Measure, name: str) -> None:
    model = _network()
    before = _state(model)
    with global_generators_kept(name):
        _measured(measure, model, _data())
    _expect_untouched(model, before, name)


def _check_failing_loss(measure: Measure, name: str) -> None:
    calls = []

    def failing(outputs: Tensor, targets: Tensor) -> Tensor:
        calls.append(1)
        if len(calls) > 1:
            raise _NoLossError
        return cross_entropy(outputs, targets)

    model = _network()
    before = _state(model)
    try:
        _measured(measure, model, _data(), loss=failing)
    except (_NoLossError, ValueError):  # it may take one loss alone, and say so
        _expect_untouched(model, before, f"{name}, also where the loss fails,")


class _NoLossError(Exception):
    """Raised by a loss that fails."""


def _state(model: nn.Module) -> dict[str, Any]:
    """Return everything of a model that a measure could leave changed."""
    return {
        "tensors": {name: t.clone() for name, t in model.state_dict().items()},
        "modes": [part.training for part in model.modules()],
        "requires_grad": [p.requires_grad for p in model.parameters()],
        "gradients": [p.grad is None for p in model.parameters()],
        "hooks": [len(part._forward_hooks) for part in model.modules()],
    }


def _expect_untouched(model: nn.Module, before: dict[str, Any], name: str) -> None:
    after = _state(model)
    tensors = before.pop("tensors")
    changed = [key for key, value in before.items() if after[key] != value]
    changed += [
        key
        for key, value in tensors.items()
        if not torch.equal(after["tensors"][key], value)
    ]
    rule = "leave the model as it was (see tepui.modules.undisturbed)"
    expect(not changed, name, rule, f"other {', '.join(changed)}")


def _check_draws(measure: Measure, name: str) -> None:
    model, data = _network(), _data()
    options = {"num_samples": 20} if _takes(measure, "num_samples") else {}
    for rule, how in (
        ("give the same value for the same generator", options),
        ("give the same value at every call without a generator", {"generator": None}),
    ):
        first = _values(measure, model, data, **how)
        again = _values(measure, model, data, **how)
        expect(torch.equal(first, again), name, rule, f"{first} and {again}")


def _check_forms(measure: Measure, name: str) -> None:
    model, data = _network(), _data()
    assert isinstance(data.inputs, Tensor)
    expected = _values(measure, model, data)
    labels = data.targets.tolist()
    forms = {
        "inputs that are mappings": Arrays({"x": data.inputs}, data.targets),
        "a list of pairs": list(zip(data.inputs, labels, strict=True)),
        "a TensorDataset": TensorDataset(data.inputs, data.targets),
    }
    for form, same in forms.items():
        rule = f"measure the same on {form}"
        expect_close([_values(measure, model, same)], [expected], name, rule)


def _check_batches(measure: Measure, name: str) -> None:
    model, data = _network(), _data()
    assert isinstance(data.inputs, Tensor)
    whole = _values(measure, model, data)
    loader = DataLoader(TensorDataset(data.inputs, data.targets), batch_size=5)
    rule = "measure the same in batches of any size (depends_on_batches)"
    expect_close([_values(measure, model, loader)], [whole], name, rule)
    if _takes(measure, "batch_size"):
        parts = _values(measure, model, data, batch_size=5)
        expect_close([parts], [whole], name, rule)


def _takes(measure: Measure, option: str) -> bool:
    return option in signature(measure).parameters
