"""Sets or intervals, as a file keeps them."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from tepui.core.checks import one_of
from tepui.metrics.conformal.intervals import ConformalIntervals
from tepui.metrics.conformal.sets import ConformalSets

Conformity = ConformalSets | ConformalIntervals
"""What makes sets or intervals of predictions."""


def stored_conformity(
    document: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> Conformity:
    """Return the sets or intervals that a file describes."""
    options: dict[str, Any] = {**tensors, **document}
    kind = options.pop("kind")
    one_of("kind", kind, ("sets", "intervals"))
    return ConformalSets(**options) if kind == "sets" else ConformalIntervals(**options)
