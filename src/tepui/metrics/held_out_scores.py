"""What held-out samples score, as a scale for the scores of others.

A score of how unfamiliar a sample looks has no scale that a person knows, and no score
sees all that is unfamiliar. Each is compared with what held-out samples score: its
*surprise* is ``-log p``, with the share ``p`` of held-out samples that score as high or
higher. The sum over scores is then ranked among the sums of the held-out samples, so
that false alarms are as told for all scores together, however they depend on each
other.

References:
    Fisher 1932, "Statistical methods for research workers" (the sum); Vovk, Gammerman
    and Shafer 2005, "Algorithmic learning in a random world" (the rank).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Self, final

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.core.evenly_spaced import evenly_spaced
from tepui.core.text import counted
from tepui.metrics.chunks import wide
from tepui.metrics.streaming import check_numbers

KEPT = 4000
LEVEL = 0.99
FARTHEST = 1e6  # of a surprise, where all that is kept is alike
ROUNDING = 1e-6  # of sums and shares; one in KEPT is more
PAIRS_AT_ONCE = 2**22  # of held-out and other samples


@final
@dataclass(frozen=True, eq=False)
class HeldOutScores:
    """Scores of held-out samples, with which those of other samples are compared.

    Attributes:
        names: What the scores are called.
        scores: What every held-out sample scores, ``(samples, scores)``, or of more
            than 4000 as many, evenly spaced.
    """

    names: tuple[str, ...]
    scores: Tensor

    def __post_init__(self) -> None:
        check_numbers("scores", self.scores)
        shape, rule = tuple(self.scores.shape), f"have shape (samples, {self.names})"
        fits = self.scores.ndim == 2 and shape[1] == len(self.names)
        require(fits, "held-out scores", rule, shape)

    @classmethod
    def fit(cls, scores: Mapping[str, Tensor]) -> Self:
        """Keep what held-out samples score.

        Args:
            scores: Scores of shape ``(samples,)`` by name; higher is less familiar.

        Returns:
            What tells how unfamiliar other samples are.

        Example:
            >>> scores = torch.arange(99.0)
            >>> held = HeldOutScores.fit({"entropy": scores, "distance": scores})
            >>> entropy, distance = torch.tensor([[49.5, 50.0], [49.5, 400.0]])
            >>> held.unfamiliarity({"entropy": entropy, "distance": distance})
            tensor([0.5000, 0.9900])
        """
        names = tuple(sorted(scores))
        require(bool(names), "scores", "hold at least one", 0)
        columns = torch.stack([wide(scores[name].detach()) for name in names], dim=1)
        rows = evenly_spaced(len(columns), KEPT).to(columns.device)
        return cls(names, columns[rows])

    @property
    def samples(self) -> int:
        """How many held-out samples are kept, all of them up to 4000."""
        return len(self.scores)

    def surprises(self, scores: Mapping[str, Tensor]) -> Tensor:
        """Return how surprising each score is among those of held-out samples.

        Beyond all of them it grows by 1 for each step as wide as the scores of the
        less familiar half lie above the median on average.

        Args:
            scores: What other samples score, ``(samples,)`` by name.

        Returns:
            Surprises of shape ``(samples, scores)``, in the order of :attr:`names`.
        """
        return torch.stack([*map(_surprise, *self._columns(scores))], dim=1)

    def unfamiliarity(self, scores: Mapping[str, Tensor]) -> Tensor:
        """Return the share of held-out samples that look more familiar.

        Args:
            scores: What other samples score, ``(samples,)`` by name.

        Returns:
            Shares in [0, n / (n + 1)] for ``n`` held-out samples, ``(samples,)``.
        """
        columns = [*zip(*self._columns(scores), strict=True)]
        sums = self.surprises(scores).sum(1)
        own = [_own_surprise(kept) for kept, _ in columns]
        found = torch.stack([before for before, _ in own]).sum(0)
        parts = []
        for rows in torch.arange(len(sums)).split(
            max(1, PAIRS_AT_ONCE // self.samples)
        ):
            # A held-out sample surprises less beside another that scores as high.
            others = found.expand(len(rows), -1).clone()
            for (kept, values), (before, after) in zip(columns, own, strict=True):
                as_high = values[rows].unsqueeze(1) >= kept
                others -= as_high * (before - after)
            parts.append((others < sums[rows].unsqueeze(1) - ROUNDING).sum(1))
        return torch.cat(parts).float() / (self.samples + 1)

    def _columns(
        self, scores: Mapping[str, Tensor]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Return what held-out samples and others score, by score."""
        new = [wide(scores[name].detach()).contiguous() for name in self.names]
        kept = [column.to(new[0]).contiguous() for column in self.scores.unbind(1)]
        return kept, new


def unfamiliar_at(level: float, unfamiliarity: Tensor, samples: int) -> Tensor:
    """Return which samples are unfamiliar at a level, as truth values.

    With so few held-out samples that none could be, those beyond all of them are.

    Example:
        >>> unfamiliar_at(0.99, torch.tensor([0.5, 0.99]), samples=99)
        tensor([False,  True])
        >>> unfamiliar_at(0.99, torch.tensor([0.5, 0.75]), samples=3)
        tensor([False,  True])
    """
    check_level(level)
    return unfamiliarity >= min(level, samples / (samples + 1)) - ROUNDING


def objections(level: float, surprises: Tensor, unfamiliar: Tensor) -> Tensor:
    """Return which scores object to samples that are called unfamiliar.

    Those that reach the level by themselves, and the most surprising one.

    Example:
        >>> surprises = torch.tensor([[0.1, 4.0], [5.0, 5.5], [6.0, 9.0]])
        >>> objections(0.99, surprises, torch.tensor([True, True, False])).tolist()
        [[False, True], [True, True], [False, False]]
    """
    alone = surprises >= -math.log(max(1 - level, 1e-9)) - ROUNDING
    most = surprises == surprises.amax(1, keepdim=True)
    return (alone | most) & unfamiliar.unsqueeze(1)


def unlike_as_a_set(level: float, mean: float, count: int, samples: int) -> bool:
    """Return whether samples look unfamiliar on average: by the rank-sum test.

    Of sets like the held-out samples about ``1 - level`` do.

    Args:
        level: How sure to be.
        mean: The mean of the samples' unfamiliarity.
        count: How many samples there are.
        samples: How many held-out samples they were compared with.

    Example:
        >>> unlike_as_a_set(0.99, 0.6, count=10, samples=500)
        False
        >>> unlike_as_a_set(0.99, 0.6, count=100, samples=500)
        True
    """
    spread = math.sqrt((count + samples + 1) / (12 * count * samples))
    return level < 1 and (mean - 0.5) / spread > NormalDist().inv_cdf(level)


def in_words(
    level: float, unfamiliarity: Tensor, objecting: Mapping[str, int], samples: int
) -> list[str]:
    """Return how many rows look unfamiliar, and what they do as a set.

    Args:
        level: What rows are called unfamiliar from.
        unfamiliarity: That of each row, ``(rows,)``.
        objecting: To how many rows each score objects.
        samples: How many held-out samples there are.

    Example:
        >>> shares = torch.tensor([0.8, 0.99, 0.9, 0.9])
        >>> for line in in_words(0.99, shares, {"entropy": 1, "energy": 0}, 99):
        ...     print(line)
        1 of 4 rows looks unlike the training data (level 0.99; entropy objects to 1)
        as a set they look unlike it: mean unfamiliarity 0.90, expected 0.50
    """
    rows = len(unfamiliarity)
    found = int(unfamiliar_at(level, unfamiliarity, samples).sum())
    looks = "looks" if 1 in (found, rows) else "look"
    by = [f"{name} objects to {n}" for name, n in objecting.items() if n]
    at = "; ".join([f"level {level:g}", *([", ".join(by)] if by else [])])
    said = f"{found} of {counted(rows, 'row')} {looks} unlike the training data ({at})"
    mean = float(unfamiliarity.double().mean())
    unlike = unlike_as_a_set(level, mean, rows, samples)
    verdict = "as a set they look unlike it: " if unlike else ""
    return [said, f"{verdict}mean unfamiliarity {mean:.2f}, expected 0.50"]


def too_few(level: float, samples: int) -> str | None:
    """Return why a level cannot be kept with so few held-out samples; None if it can.

    Beyond all of ``n`` samples lies one in ``n + 1`` that is like them.

    Example:
        >>> too_few(0.95, 19) is None
        True
        >>> too_few(0.99, 19).split(":")[0]
        'level 0.99 wants 99 held-out samples, got 19'
    """
    if level == 1 or (samples + 1) * (1 - level) > 1 - 1e-9:
        return None
    one_in = 1 / (1 - level)
    return (
        f"level {level:g} wants {math.ceil(one_in - 1e-9) - 1} held-out samples, got "
        f"{samples}: of inputs like those one in {samples + 1} is called unfamiliar, "
        f"not one in {one_in:.4g}"
    )


def check_level(level: float) -> None:
    """Check that a share of held-out samples is one."""
    require(0 < level <= 1, "level", "lie in (0, 1]", level)


def _surprise(kept: Tensor, values: Tensor) -> Tensor:
    """Return how surprising scores are."""
    rising = kept.sort().values
    above = len(kept) - torch.searchsorted(rising, values)
    return math.log(len(kept) + 1) - (above + 1).log() + _beyond(rising, values)


def _own_surprise(kept: Tensor) -> tuple[Tensor, Tensor]:
    """Return how surprising each score is among the others.

    Also beside one more that is as high.
    """
    rising = kept.sort().values
    as_high = len(kept) - torch.searchsorted(rising, kept)  # with itself
    most = math.log(len(kept) + 1)
    others = rising[:-1] if len(kept) > 1 else rising  # of the highest, the rest
    before = most - as_high.log() + _beyond(others, kept)
    return before, most - (as_high + 1).log()


def _beyond(rising: Tensor, values: Tensor) -> Tensor:
    """Return how far scores lie beyond all others, in steps as wide as their tail."""
    half = rising[len(rising) // 2 :]
    step = (half.mean() - half[0]).clamp(min=torch.finfo(rising.dtype).tiny)
    return ((values - rising[-1]).clamp(min=0) / step).clamp(max=FARTHEST)
