"""Scores of features, taken from the passes that an evaluation makes anyway."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from tepui.ensembles.ensemble import Ensemble
from tepui.ensembles.feature_detectors import FeatureDetectors, joined_scores, scoring

Batches = Iterator[tuple[Tensor, Tensor]]


class Watched:
    """Batches of an ensemble's logits, whose features are scored as they go by."""

    def __init__(
        self,
        score: Callable[[Tensor], dict[str, Tensor]],
        batches: Callable[[Any], Batches],
    ) -> None:
        self.score, self.batches = score, batches
        self.rows: list[dict[str, Tensor]] = []

    def __call__(self, data: Any) -> Batches:
        """Yield the batches of a data set, or of some of its rows."""
        self.rows = []
        for logits, labels in self.batches(data):
            self.rows.append(self.score(logits))
            yield logits, labels

    def scores(self) -> dict[str, Tensor]:
        """Return the scores of the last data set."""
        return joined_scores(self.rows)


@contextmanager
def watching(
    ensemble: Ensemble,
    detectors: FeatureDetectors,
    batches: Callable[[Any], Batches],
) -> Iterator[Watched]:
    """Score the features of all batches that go by inside the block."""
    with scoring(ensemble, detectors) as score:
        yield Watched(score, batches)


def scores_of(watched: Watched | None) -> dict[str, Tensor]:
    """Return the scores of the last data set, none where nothing is watched."""
    return {} if watched is None else watched.scores()
