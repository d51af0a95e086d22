"""What every data set promises."""

import warnings
from collections.abc import Callable, Sized
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset, Subset

from tepui.data import Arrays, Batch, split
from tepui.data.class_names import class_names
from tepui.data.loading import in_order
from tepui.ensembles import Ensemble
from tepui.evaluation import evaluate
from tepui.methods import DeepEnsemble
from tepui.testing.expecting import expect, expect_close, global_generators_kept
from tepui.training import AdamW, fit


def check_dataset(
    dataset: Dataset[Any],
    *,
    factory: Callable[[], nn.Module] | None = None,
    max_samples: int = 64,
) -> None:
    """Check that a data set can be trained and evaluated on.

    It is map-style and holds pairs ``(x, y)`` that stack, gives the same pairs whenever
    it is read, labels them with whole numbers from 0 that its class names (attribute
    ``classes``) fit, prepares what it holds in tensors, can be split, and trains and
    evaluates two small members.

    Args:
        dataset: The data set.
        factory: Makes the model; one linear layer by default.
        max_samples: How many samples, evenly spread, are looked at.

    Raises:
        AssertionError: If it does not; the message names data set, rule and what was
            seen.

    Example:
        >>> from tepui.data import Digits
        >>> check_dataset(Digits(train=False))
    """
    name = type(dataset).__name__
    samples = _check_length(dataset, name)
    part = _part(dataset, samples, max_samples)
    _check_items(dataset, samples, name)
    batch = _check_reading(part, name)
    classes = _check_labels(dataset, batch.targets, name)
    if isinstance(dataset, Arrays):
        _check_preparing(dataset, name)
    _check_use(part, factory or (lambda: _Linear(batch, classes)), name)


class _Linear(nn.Module):
    """One layer on all inputs, a mapping's side by side."""

    def __init__(self, batch: Batch, classes: int) -> None:
        super().__init__()
        inputs = batch.inputs
        parts = [inputs] if isinstance(inputs, Tensor) else [*inputs.values()]
        features = sum(part[0].numel() for part in parts)
        self.layer = nn.Linear(features, classes)

    def forward(self, *inputs: Tensor, **named: Tensor) -> Tensor:
        """Return logits."""
        parts = [part.flatten(1).float() for part in (*inputs, *named.values())]
        logits: Tensor = self.layer(torch.cat(parts, 1))
        return logits


def _check_length(dataset: Dataset[Any], name: str) -> int:
    map_style = isinstance(dataset, Sized) and not isinstance(dataset, IterableDataset)
    map_style = map_style and hasattr(dataset, "__getitem__")
    expect(map_style, name, "be map-style (__len__ and __getitem__)", "another kind")
    samples = len(dataset)  # type: ignore[arg-type]
    expect(samples >= 2, name, "hold at least two samples", samples)
    return samples


def _part(dataset: Dataset[Any], samples: int, most: int) -> Dataset[Any]:
    if samples <= most:
        return dataset
    rows = torch.linspace(0, samples - 1, most).round().long().tolist()
    return (
        dataset.subset(rows) if isinstance(dataset, Arrays) else Subset(dataset, rows)
    )


def _check_items(dataset: Dataset[Any], samples: int, name: str) -> None:
    for index in (0, samples - 1):
        item = dataset[index]
        pair = isinstance(item, tuple | list) and len(item) == 2
        rule = f"give a pair (x, y) at index {index}"
        expect(pair, name, rule, type(item).__name__)


def _check_reading(part: Dataset[Any], name: str) -> Batch:
    """Read twice as the library does, and return all of it as one batch."""
    readings = []
    for _ in range(2):
        with global_generators_kept(name):
            readings.append(_read(part, name))
    first, second = readings
    rule = "give the same samples whenever it is read"
    expect_close(_tensors(first), _tensors(second), name, rule, rtol=0, atol=0)
    finite = all(bool(tensor.isfinite().all()) for tensor in _tensors(first))
    expect(finite, name, "hold finite inputs", "NaN or infinite values")
    return first


def _read(part: Dataset[Any], name: str) -> Batch:
    try:
        samples = len(part)  # type: ignore[arg-type]
        return next(in_order(part, samples, device=torch.device("cpu")))
    except (RuntimeError, TypeError, ValueError) as error:
        rule = "hold pairs of tensors that stack"
        raise AssertionError(f"{name} must {rule}, got: {error}") from None


def _tensors(batch: Batch) -> list[Tensor]:
    inputs = batch.inputs
    parts = [inputs] if isinstance(inputs, Tensor) else [*inputs.values()]
    return [*parts, batch.targets]


def _check_labels(dataset: Dataset[Any], labels: Tensor, name: str) -> int:
    """Return how many classes there are."""
    whole = labels.ndim == 1 and labels.dtype == torch.int64
    rule = "label each sample with one whole number (int64)"
    expect(whole, name, rule, f"{labels.dtype} of shape {tuple(labels.shape)}")
    low, high = int(labels.min()), int(labels.max())
    expect(low >= 0, name, "count labels from 0", low)
    names = class_names(dataset)
    given = getattr(dataset, "classes", ())
    expect(len(names) == len(given), name, "name classes in a tuple or list", given)
    expect(len(set(names)) == len(names), name, "give classes different names", names)
    fits = not names or high < len(names)
    expect(fits, name, f"have labels below its {len(names)} classes", high)
    return len(names) or high + 1


def _check_preparing(dataset: Arrays, name: str) -> None:
    rows = torch.arange(2, device=dataset.device)
    prepared = dataset.prepare(dataset.raw(rows))
    items = [dataset[index][0] for index in range(2)]
    if isinstance(prepared, Tensor):
        expected = [prepared[row] for row in range(2)]
        found = [item for item in items if isinstance(item, Tensor)]
        expect_close(found, expected, name, "give items as prepare does")
        rule = "prepare floating-point inputs"
        expect(prepared.is_floating_point(), name, rule, prepared.dtype)


def _check_use(part: Dataset[Any], factory: Callable[[], nn.Module], name: str) -> None:
    first, second = split(part, 0.5, seed=0)
    together = len(first) + len(second)  # type: ignore[arg-type]
    samples = len(part)  # type: ignore[arg-type]
    expect(together == samples, name, f"split into {samples} samples", together)
    ensemble = Ensemble.build(factory, members=2, seed=0)
    try:
        fit(
            ensemble,
            first,
            method=DeepEnsemble(),
            epochs=1,
            batch_size=8,
            optimizer=AdamW(lr=1e-3),  # whatever the scale of the inputs
            device="cpu",
            progress="none",
        )
        with warnings.catch_warnings():
            # After one epoch members may well have learned nothing.
            warnings.simplefilter("ignore", UserWarning)
            evaluate(ensemble, second)
    except (RuntimeError, TypeError, ValueError) as error:
        rule = "train and evaluate members"
        raise AssertionError(f"{name} must {rule}, got: {error}") from error
