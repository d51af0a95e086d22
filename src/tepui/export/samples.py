"""Real samples on which an exported graph is compared with its ensemble."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Subset

from tepui.data.arrays import Arrays, Inputs, map_inputs
from tepui.data.preparation import Preparation
from tepui.data.stored import StoredData
from tepui.data.table import is_frame
from tepui.ensembles.inputs import as_data, input_batches

SAMPLES = 64  # that are compared at most


@dataclass(frozen=True)
class Samples:
    """Inputs as a user of the graph has them, and whether they are raw."""

    inputs: Inputs
    raw: bool

    def __len__(self) -> int:
        if isinstance(self.inputs, Tensor):
            return len(self.inputs)
        return len(next(iter(self.inputs.values())))

    def of_size(self, size: int) -> Inputs:
        """Return so many of them, repeated where there are fewer."""
        rows = torch.arange(size) % len(self)
        return map_inputs(lambda tensor: tensor[rows], self.inputs)


def some_samples(
    given: Any, preparation: Preparation | None, raw: bool, dtype: torch.dtype
) -> Samples:
    """Return the first samples of anything that ``predict`` takes.

    Data sets of tepui give what they store, where the ensemble knows how to prepare it,
    and tables rows in the units of their columns; all others what they prepare
    themselves.

    Example:
        >>> some_samples(torch.arange(3), None, False, torch.float32).of_size(5)
        tensor([0, 1, 2, 0, 1])
    """
    data = as_data(given, preparation, dtype)
    table = preparation if preparation and preparation.columns else None
    file = isinstance(given, str | Path) or is_frame(given)
    if table and file and isinstance(data, Tensor):
        return Samples(table.in_units(data[:SAMPLES]), True)
    if isinstance(data, Tensor | dict):
        return Samples(map_inputs(lambda tensor: tensor[:SAMPLES].cpu(), data), raw)
    source: Any = data
    rows = torch.arange(min(SAMPLES, len(data)))
    while isinstance(source, Subset):
        rows = torch.as_tensor(source.indices)[rows]
        source = source.dataset
    if isinstance(source, Arrays | StoredData) and preparation is not None:
        stored = source.raw(rows)
        if table:
            seen = source.prepare(stored)
            assert isinstance(seen, Tensor)
            return Samples(table.in_units(seen), True)
        return Samples(map_inputs(lambda tensor: tensor.cpu(), stored), True)
    cpu = torch.device("cpu")
    batches = input_batches(
        data, None, raw=False, batch_size=SAMPLES, workers=0, device=cpu, dtype=dtype
    )
    return Samples(next(batches), False)
