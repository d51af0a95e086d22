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
from tepui.core.counted import counted
from tepui.core.evenly_spaced import evenly_spaced
from tepui.metrics.chunks import wide
from tepui.metrics.targets import check_numbers

KEPT = 10_000
LEVEL = 0.99
FARTHEST = 1e6  # of a surprise, where all that is kept is alike
JOINT = "joint"
ROUNDING = 1e-6  # of sums and shares; one in KEPT is more


@final
@dataclass(frozen=True, eq=False)
class HeldOutScores:
    """Scores of held-out samples, with which those of other samples are compared.

    Attributes:
        quantiles: By the name of a score, in rising order: what every held-out sample
            scored, or of more than 10 000 as many, evenly spaced.
        joint: In rising order: their surprises, summed over the scores.
    """

    quantiles: Mapping[str, Tensor]
    joint: Tensor

    def __post_init__(self) -> None:
        require(bool(self.quantiles), "scores", "hold at least one", 0)
        for name, kept in self.tensors().items():
            check_numbers(name, kept)
            rule = f"be {self.samples} numbers, one per sample, in rising order"
            fits = kept.shape == (self.samples,) and bool((kept.diff() >= 0).all())
            require(fits, f"held-out scores {name}", rule, tuple(kept.shape))

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
            >>> entropy, distance = torch.tensor([[50.0, 50.0], [50.0, 400.0]])
            >>> found = held.surprises({"entropy": entropy, "distance": distance})
            >>> held.unfamiliarity(found)
            tensor([0.4900, 0.9900])
        """
        values = {}
        for name, found in scores.items():
            check_numbers("scores", found)
            rows = evenly_spaced(len(found), KEPT).to(found.device)
            values[name] = found.detach()[rows]
        kept = {name: found.sort().values for name, found in values.items()}
        own = [_surprise(kept[name], values[name], own=True) for name in kept]
        return cls(kept, torch.stack(own).sum(0).sort().values)

    @property
    def names(self) -> tuple[str, ...]:
        """The scores that are compared."""
        return tuple(sorted(self.quantiles))

    @property
    def samples(self) -> int:
        """How many held-out samples are kept, all of them up to 10 000."""
        return len(self.joint)

    def surprises(self, scores: Mapping[str, Tensor]) -> Tensor:
        """Return how surprising each score is among those of held-out samples.

        Beyond all of them it grows by 1 for each step as wide as the scores of the
        less familiar half lie above the median on average.

        Args:
            scores: What other samples score, ``(samples,)`` by name.

        Returns:
            Surprises of shape ``(samples, scores)``, in the order of :attr:`names`.
        """
        columns = [_surprise(self.quantiles[n], scores[n]) for n in self.names]
        return torch.stack(columns, dim=1)

    def unfamiliarity(self, surprises: Tensor) -> Tensor:
        """Return the share of held-out samples that look more familiar.

        Args:
            surprises: What :meth:`surprises` returned.

        Returns:
            Shares in [0, n / (n + 1)] for ``n`` held-out samples, ``(samples,)``.
        """
        found = surprises.sum(1)
        below = torch.searchsorted(self.joint.to(found), found - ROUNDING)
        return below.float() / (self.samples + 1)

    def tensors(self) -> dict[str, Tensor]:
        """Return what a file keeps, by name."""
        return {**self.quantiles, JOINT: self.joint}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> Self | None:
        """Read what :meth:`tensors` returned; files of version 0.2 are without sums.

        Args:
            tensors: Tensors by name.

        Returns:
            The scores; None where there are no sums.
        """
        if JOINT not in tensors:
            return None
        quantiles = {name: kept for name, kept in tensors.items() if name != JOINT}
        return cls(quantiles, tensors[JOINT])


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


def _surprise(kept: Tensor, values: Tensor, own: bool = False) -> Tensor:
    """Return how surprising scores are; own ones among the others that are kept.

    To count those and not the new sample too takes held-out samples for more surprising
    than they are, never for less: false alarms are no more than told.
    """
    kept, values = wide(kept.to(values.device)), wide(values.detach()).contiguous()
    above = len(kept) - torch.searchsorted(kept, values) - int(own)
    others = kept[:-1] if own and len(kept) > 1 else kept  # of the highest, the rest
    half = others[len(others) // 2 :]
    scale = (half.mean() - half[0]).clamp(min=torch.finfo(kept.dtype).tiny)
    beyond = (values - others[-1]).clamp(min=0) / scale
    return math.log(len(kept) + 1) - (above + 1).log() + beyond.clamp(max=FARTHEST)
