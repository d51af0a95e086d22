"""How a run ended: after how many epochs, by whom, and with which weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True)
class RunEnd:
    """How a run ended.

    Attributes:
        epochs: How many were trained.
        stopped_by: Who ended it before all epochs were done; None if nobody did.
        kept: After how many epochs each member had the weights that were kept; empty if
            all members kept their last.
    """

    epochs: int
    stopped_by: str | None = None
    kept: tuple[int, ...] = ()

    @classmethod
    def of(
        cls, epochs: int, stopped_by: str | None, best_epochs: Sequence[int]
    ) -> Self:
        """Return the end of a run whose members were best after these epochs, from 0.

        Example:
            >>> RunEnd.of(5, "EarlyStopping", (2, -1)).kept  # the second never was
            (3, 5)
        """
        kept = (epochs if best < 0 else best + 1 for best in best_epochs)
        return cls(epochs, stopped_by, tuple(kept))
