"""Measuring the sharpness of all members of an ensemble."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from tepui.core.checks import require
from tepui.core.seeding import generator
from tepui.core.storage import finite_or_none
from tepui.core.types import check_types
from tepui.ensembles.ensemble import Ensemble
from tepui.losses import Loss, cross_entropy
from tepui.sharpness import Measurement, fisher_rao, relative_flatness, worst_case
from tepui.sharpness.measurement import Data
from tepui.tasks import task_of

Measure = Callable[..., Measurement | tuple[Measurement, ...]]
Measures = Measure | Sequence[Measure] | Mapping[str, Measure]

OF_ANY_LOSS: tuple[Measure, ...] = (worst_case, fisher_rao)
OF_CLASSES: tuple[Measure, ...] = (*OF_ANY_LOSS, relative_flatness)


@dataclass(frozen=True)
class EnsembleMeasurement:
    """One measure of every member.

    Attributes:
        members: One measurement per member, in their order.
    """

    members: tuple[Measurement, ...]

    @property
    def mean(self) -> float:
        """Mean over members."""
        return fmean(member.value for member in self.members)

    @property
    def standard_error(self) -> float:
        """Standard error of the mean over members, NaN for one."""
        if len(self.members) < 2:
            return math.nan
        values = [member.value for member in self.members]
        return stdev(values) / math.sqrt(len(values))

    def document(self) -> dict[str, Any]:
        """Return the measurement for JSON, with None for what is undefined."""
        return {
            "mean": finite_or_none(self.mean),
            "standard_error": finite_or_none(self.standard_error),
            "members": [member.document() for member in self.members],
        }


def measure(
    ensemble: Ensemble,
    dataset: Data,
    measures: Measures | None = None,
    *,
    loss: Loss | None = None,
    seed: int = 0,
) -> dict[str, EnsembleMeasurement]:
    """Measure all members of an ensemble on the same samples, with the same draws.

    Args:
        ensemble: Its members, where they lie; left unchanged.
        dataset: A data set.
        measures: One of :mod:`tepui.sharpness`, several, or several by name;
            ``functools.partial`` sets their options. By default the worst case, the
            Fisher-Rao norm and, of classifiers, the relative flatness.
        loss: Returns one loss per sample; by default that of the ensemble's task.
        seed: What random draws derive from; the same for every member.

    Returns:
        What was measured, by name; where a measure gives several values, such as one
        per ``rho``, they are numbered: ``worst_case[0]``, ``worst_case[1]``.

    Raises:
        ValueError: If no loss is given and the ensemble's task is not known, or a
            measure is named instead of passed.

    Example:
        >>> import torch, tepui
        >>> from functools import partial
        >>> from tepui.sharpness import worst_case
        >>> data = tepui.data.Arrays(torch.randn(20, 4), torch.arange(20) % 3)
        >>> ensemble = Ensemble.build(lambda: torch.nn.Linear(4, 3), members=2)
        >>> sharpness = partial(worst_case, rho=0.1, norm="linf")
        >>> measure(ensemble, data, sharpness)["worst_case"].mean > 0
        True
    """
    check_types(measure, locals())
    results: dict[str, EnsembleMeasurement] = {}
    if loss is None:
        loss = cross_entropy if ensemble.task is None else ensemble.task.loss
    rule = "be given for an ensemble whose own loss names no task"
    require(loss is not None, "loss", rule, None)
    assert loss is not None
    if measures is None:
        measures = OF_CLASSES if task_of(loss).chooses else OF_ANY_LOSS
    for name, function in _named(measures).items():
        rows = []
        for member in ensemble.members:
            stream = generator(seed, "measure", name)
            value = function(member, dataset, loss=loss, generator=stream)
            rows.append((value,) if isinstance(value, Measurement) else tuple(value))
        single = len(rows[0]) == 1
        for number, column in enumerate(zip(*rows, strict=True)):
            key = name if single else f"{name}[{number}]"
            results[key] = EnsembleMeasurement(column)
    return results


def _named(measures: Measures) -> dict[str, Measure]:
    if not isinstance(measures, Mapping):
        several = [measures] if callable(measures) else list(measures)
        names = [_name(function) for function in several]
        rule = "have different names (pass a mapping to name them)"
        require(len({*names}) == len(names), "measures", rule, names)
        measures = dict(zip(names, several, strict=True))
    require(len(measures) > 0, "measures", "hold at least one", len(measures))
    for name, function in measures.items():
        rule = "be functions as those of tepui.sharpness"
        require(callable(function), "measures", rule, name)
    return dict(measures)


def _name(function: Measure) -> str:
    inner = getattr(function, "func", function)
    return str(getattr(inner, "__name__", repr(inner)))
