"""Logits that stay in a file when an evaluation adds those of further data sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import torch

from tepui.core.storage import reading, tensors_document
from tepui.data.arrays_on_disk import StoredArray
from tepui.data.shifts import Cell
from tepui.evaluation.stored_logits import LogitStore

_SAMPLES_AT_ONCE = 4096


@dataclass(frozen=True)
class KeptLogits:
    """Data sets whose logits are copied from a file into the one that replaces it.

    Attributes:
        file: Where they lie.
        cells: Types and severities of shifted data.
        ood: Names of unfamiliar data.
    """

    file: Path
    cells: tuple[Cell, ...] = ()
    ood: tuple[str, ...] = ()

    def beside(
        self,
        cells: Sequence[Cell],
        ood: Sequence[str],
        of: Mapping[str, Any],
        *,
        overwrite: bool,
    ) -> Self:
        """Return what a file holds beside the data sets that are asked for.

        Args:
            cells: Types and severities that are asked for.
            ood: Names of unfamiliar data that are asked for.
            of: What the logits must be of to be kept: which ensemble, on which data.
            overwrite: Measure again what is there, and drop what is of others.

        Returns:
            The sets to copy.

        Raises:
            FileExistsError: If what is asked for is there, or other logits are, and
                ``overwrite`` is false.
        """
        file = self.file
        if not file.exists():
            return self
        document = tensors_document(file)
        with reading(file, "an evaluation's logits"):
            there = [(str(kind), int(severity)) for kind, severity in document["cells"]]
            named = [str(name) for name in document.get("ood", [])]
        same = document.get("of") == of
        again = [*({*there} & {*cells}), *({*named} & {*ood})]
        if not overwrite and (not same or again or not (cells or ood)):
            raise FileExistsError(f"{file} exists; pass overwrite=True to replace it")
        if not same:
            return self
        kept = tuple(cell for cell in there if cell not in cells)
        names = tuple(name for name in named if name not in ood)
        return replace(self, cells=kept, ood=names)

    def copy_into(self, store: LogitStore) -> None:
        """Copy them, a run of samples at a time."""
        for kind, severity in self.cells:
            name = f"{kind}/{severity}"
            labels = StoredArray.open(self.file, f"labels/{name}").read_all()
            self._copy(store, name, f"logits/{name}", labels)
        for name in self.ood:
            self._copy(store, name, f"ood/{name}", None)

    def _copy(
        self, store: LogitStore, name: str, place: str, labels: torch.Tensor | None
    ) -> None:
        array = StoredArray.open(self.file, place)
        members, samples, *rest = array.shape
        rows = replace(array, shape=(members * samples, *rest))
        firsts = samples * torch.arange(members).unsqueeze(1)
        for index in torch.arange(samples).split(_SAMPLES_AT_ONCE):
            logits = rows.read((firsts + index).flatten())
            logits = logits.view(members, len(index), *rest)
            known = None if labels is None else labels[index]
            store.put(name, samples, int(index[0]), logits, known)
