"""How far rows of a table lie from those that an estimator was trained on.

Networks are sure of rows far out, and alike: only the rows themselves say that they are
unlike the others. Their Mahalanobis distance does, on the scale of held-out rows.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, final

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.core.storage import read_tensors, reading, write_tensors
from tepui.metrics import HeldOutScores, Mahalanobis

FILE = "rows.safetensors"
KIND = "rows"
SCORE = "distance"
# Features whose correlations are learned, in seconds; of more each counts by itself.
WIDEST = 1000
TENSORS = ("center", "whitening", "means")


@final
@dataclass(frozen=True, eq=False)
class Rows:
    """What is known of the rows that an estimator was trained on.

    Attributes:
        spread: Their mean and covariance; None for more than 1000 features, which are
            taken as standardized and unrelated.
        held_out: How far held-out rows lie from them, where some were given.
    """

    spread: Mahalanobis | None
    held_out: HeldOutScores | None = None

    @classmethod
    def fit(cls, rows: Tensor) -> Self:
        """Learn mean and spread of standardized rows."""
        if rows.shape[1] > WIDEST:
            return cls(None)
        return cls(Mahalanobis.fit(rows, torch.zeros(len(rows), dtype=torch.long)))

    def distances(self, rows: Tensor) -> Tensor:
        """Return squared distances from the mean, in units of the spread."""
        if self.spread is None:
            return rows.double().square().sum(1)
        return self.spread.score(rows)

    def compared(self, rows: Tensor) -> Self:
        """Return the same with the distances of held-out rows."""
        found = {SCORE: self.distances(rows)}
        return replace(self, held_out=HeldOutScores.fit(found))

    def unfamiliarity(self, rows: Tensor) -> Tensor:
        """Return the share of held-out rows that lie nearer than each row."""
        if self.held_out is None:
            rule = "be given held-out data first, by conformal(X, y), or by "
            rule += "calibrate(X, y) of a classifier"
            raise ValueError(f"estimator must {rule}, to know unfamiliar rows")
        return self.held_out.unfamiliarity({SCORE: self.distances(rows)})


def write_rows(rows: Rows | None, folder: Path, ensemble: str) -> None:
    """Write what is known of rows beside the ensemble of a digest."""
    if rows is None:
        (folder / FILE).unlink(missing_ok=True)
        return
    tensors: dict[str, Tensor] = {}
    about: dict[str, Any] = {"ensemble": ensemble, "shrinkage": None}
    if rows.spread is not None:
        about["shrinkage"] = rows.spread.shrinkage
        tensors = {name: getattr(rows.spread, name) for name in TENSORS}
    if rows.held_out is not None:
        tensors["held_out"] = rows.held_out.scores[:, 0].contiguous()
    write_tensors(folder / FILE, KIND, tensors, about)


def read_rows(folder: Path, ensemble: str) -> Rows | None:
    """Read what is known of rows, if there is something, of that ensemble's."""
    file = folder / FILE
    if not file.exists():
        return None
    tensors, about = read_tensors(file, KIND)
    with reading(file, "the rows of an estimator"):
        rule = "belong to the ensemble beside it"
        require(about["ensemble"] == ensemble, str(file), rule, "another one's digest")
        held, share = tensors.pop("held_out", None), about["shrinkage"]
        spread = None if share is None else Mahalanobis(**tensors, shrinkage=share)
        scores = None if held is None else HeldOutScores.fit({SCORE: held})
        return Rows(spread, scores)
