"""What can be said of outputs whose meaning is not known: how far members differ."""

from collections.abc import Mapping

from torch import Tensor

from tepui.evaluation.task_scores import OutputScores
from tepui.metrics.chunks import wide


class OutputStream:
    """Distances between members' outputs, added up over batches."""

    def __init__(self) -> None:
        self._count = 0
        self._spread = 0.0
        self._squares: list[float] = []

    def update(self, outputs: Tensor, targets: Tensor) -> None:
        """Take in some samples; of their targets as little is known."""
        flat = wide(outputs).flatten(1)
        members = len(flat)
        others = (flat.sum(0) - flat) / max(1, members - 1)
        squares = (flat - others).square().sum(1).tolist()
        if members == 1:
            squares = [0.0]
        before = self._squares or [0.0] * members
        self._squares = [old + new for old, new in zip(before, squares, strict=True)]
        self._spread += float(flat.std(0, unbiased=False).sum())
        self._count += flat.shape[1]

    def losses(self) -> None:
        """Return nothing: what a guess would lose is not known."""

    def rates(self) -> None:
        """Return nothing: there are no classes."""

    def result(self, custom: Mapping[str, float]) -> tuple[OutputScores, None]:
        """Return the scores with the caller's own; there are no bins."""
        distances = tuple((total / self._count) ** 0.5 for total in self._squares)
        spread = self._spread / self._count
        named = {"spread": spread, "member_distances": distances}
        return OutputScores(**named, custom=custom), None  # type: ignore[arg-type]
