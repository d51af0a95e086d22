"""Features in the making, part by part on disk: a stopped pass goes on where it was."""

import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import torch
from torch import Tensor

from tepui.core.storage import read_tensors, write_tensors

Advance = Callable[[int], None]
EVERY = 30.0  # seconds of work that may be lost
KIND = "part of features"


class FeatureParts:
    """The parts of a file of features that are done, in a folder beside it."""

    def __init__(self, folder: Path, key: str) -> None:
        self._folder, self._key = folder, key
        self._parts: list[dict[str, Tensor]] = []
        self.rows = 0
        """How many rows are done."""
        for part in iter(self._next_part, None):
            self._keep(part)

    def completed(
        self, batches: Iterable[tuple[Tensor, Tensor]], rows: int, advance: Advance
    ) -> dict[str, Tensor]:
        """Return all features and targets, of which batches hold those left to do."""
        if self.rows:
            advance(self.rows)
        pending: list[tuple[Tensor, Tensor]] = []
        last = time.monotonic()
        for batch in batches:
            pending.append(batch)
            advance(len(batch[1]))
            left = rows - self.rows - sum(len(targets) for _, targets in pending)
            if left and time.monotonic() - last >= EVERY:
                self._write(pending)
                pending, last = [], time.monotonic()
        if pending:
            self._keep(_joined(pending))
        return {n: torch.cat([part[n] for part in self._parts]) for n in self._parts[0]}

    def remove(self) -> None:
        """Remove the parts, once the whole is there."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _next_part(self) -> dict[str, Tensor] | None:
        """Read the part after those that are known, if it is there and whole."""
        with suppress(OSError, ValueError):
            tensors, document = read_tensors(self._file(), KIND)
            if document.get("key") == self._key:
                return tensors
        return None

    def _keep(self, part: dict[str, Tensor]) -> None:
        self._parts.append(part)
        self.rows += len(part["targets"])

    def _write(self, pending: list[tuple[Tensor, Tensor]]) -> None:
        part = _joined(pending)
        write_tensors(self._file(), KIND, part, {"key": self._key})
        self._keep(part)

    def _file(self) -> Path:
        return self._folder / f"{self.rows:012d}.safetensors"


def _joined(batches: list[tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
    features, targets = zip(*batches, strict=True)
    return {"features": torch.cat(features), "targets": torch.cat(targets)}
