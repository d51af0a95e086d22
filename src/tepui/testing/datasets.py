"""What every data set promises."""

import warnings
from collections.abc import Callable, Sized
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset, Subset

from tepui.core.evenly_spaced import evenly_spaced
from tepui.data import Arrays, Batch, split
from tepui.data.labels import class_names
from tepui.data.loading import in_order
from tepui.ensembles import Ensemble
from tepui.evaluation import evaluate
from tepui.methods import DeepEnsemble
from tepui.testing.expecting import Subject
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
    checked = Subject(type(dataset).__name__)
    samples = _check_items(checked, dataset)
    part = dataset
    if samples > max_samples:
        rows = evenly_spaced(samples, max_samples).tolist()
        part = (
            dataset.subset(rows)
            if isinstance(dataset, Arrays)
            else Subset(dataset, rows)
        )
    batch = _check_reading(checked, part)
    classes = _check_labels(checked, dataset, batch.targets)
    if isinstance(dataset, Arrays):
        _check_preparing(checked, dataset)
    _check_use(checked, part, factory or (lambda: _Linear(batch, classes)))


class _Linear(nn.Module):
    """One layer on all inputs, a mapping's side by side."""

    def __init__(self, batch: Batch, classes: int) -> None:
        super().__init__()
        features = sum(part[0].numel() for part in _tensors(batch)[:-1])
        self.layer = nn.Linear(features, classes)

    def forward(self, *inputs: Tensor, **named: Tensor) -> Tensor:
        """Return logits."""
        parts = [part.flatten(1).float() for part in (*inputs, *named.values())]
        logits: Tensor = self.layer(torch.cat(parts, 1))
        return logits


def _check_items(checked: Subject, dataset: Dataset[Any]) -> int:
    """Return how many samples there are."""
    map_style = isinstance(dataset, Sized) and not isinstance(dataset, IterableDataset)
    map_style = map_style and hasattr(dataset, "__getitem__")
    checked.must("be map-style (__len__ and __getitem__)", map_style, "another kind")
    samples = len(dataset)  # type: ignore[arg-type]
    checked.must("hold at least two samples", samples >= 2, samples)
    for index in (0, samples - 1):
        item = dataset[index]
        pair = isinstance(item, tuple | list) and len(item) == 2
        checked.must(f"give a pair (x, y) at index {index}", pair, type(item).__name__)
    return samples


def _check_reading(checked: Subject, part: Dataset[Any]) -> Batch:
    """Read twice as the library does, and return all of it as one batch."""
    samples, place, readings = len(part), torch.device("cpu"), []  # type: ignore[arg-type]
    for _ in range(2):
        with (
            checked.must_keep_generators(),
            checked.must_manage("hold pairs of tensors that stack"),
        ):
            readings.append(next(in_order(part, samples, device=place)))
    first, second = map(_tensors, readings)
    rule = "give the same samples whenever it is read"
    checked.must_agree(rule, first, second, rtol=0, atol=0)
    finite = all(bool(tensor.isfinite().all()) for tensor in first)
    checked.must("hold finite inputs", finite, "NaN or infinite values")
    return readings[0]


def _tensors(batch: Batch) -> list[Tensor]:
    inputs = batch.inputs
    parts = [inputs] if isinstance(inputs, Tensor) else [*inputs.values()]
    return [*parts, batch.targets]


def _check_labels(checked: Subject, dataset: Dataset[Any], labels: Tensor) -> int:
    """Return how many classes there are."""
    whole = labels.ndim == 1 and labels.dtype == torch.int64
    rule = "label each sample with one whole number (int64)"
    checked.must(rule, whole, f"{labels.dtype} of shape {tuple(labels.shape)}")
    low, high = int(labels.min()), int(labels.max())
    checked.must("count labels from 0", low >= 0, low)
    names, given = class_names(dataset), getattr(dataset, "classes", ())
    checked.must("name classes in a tuple or list", len(names) == len(given), given)
    different = len({*map(str, given)}) == len(given)
    checked.must("give classes different names", different, given)
    fits = not names or high < len(names)
    checked.must(f"have labels below its {len(names)} classes", fits, high)
    return len(names) or high + 1


def _check_preparing(checked: Subject, dataset: Arrays) -> None:
    prepared = dataset.prepare(dataset.raw(torch.arange(2, device=dataset.device)))
    if isinstance(prepared, Tensor):
        items = [dataset[index][0] for index in range(2)]
        tensors = [item for item in items if isinstance(item, Tensor)]
        checked.must_agree("give items as prepare does", tensors, [*prepared])
        kind = prepared.dtype
        checked.must("prepare floating-point inputs", kind.is_floating_point, kind)


def _check_use(
    checked: Subject, part: Dataset[Any], factory: Callable[[], nn.Module]
) -> None:
    first, second = split(part, 0.5, seed=0)
    together = len(first) + len(second)  # type: ignore[arg-type]
    samples = len(part)  # type: ignore[arg-type]
    checked.must(f"split into {samples} samples", together == samples, together)
    ensemble = Ensemble.build(factory, members=2)
    with checked.must_manage("train and evaluate members"), warnings.catch_warnings():
        # After one epoch members may well have learned nothing.
        warnings.filterwarnings("ignore", "member .* may not have learned")
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
        warnings.simplefilter("ignore", UserWarning)
        evaluate(ensemble, second)
