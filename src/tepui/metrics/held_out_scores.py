"""What held-out samples score, as a scale for the scores of others.

A score of how unfamiliar a sample looks has no scale that a person knows. The share of
held-out samples that score less has one: 0.5 is usual, 1 is beyond all of them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self, final

import torch
from torch import Tensor

from tepui.core.checks import one_of, require
from tepui.metrics.targets import check_numbers

KEPT = 1001
LEVEL = 0.99


@final
@dataclass(frozen=True, eq=False)
class HeldOutScores:
    """Scores of held-out samples, with which those of other samples are compared.

    Attributes:
        quantiles: By the name of a score, in rising order: what every held-out sample
            scored, or of more than 1001 samples as many, evenly spaced by rank.
        default: The score to compare by where none is named.
    """

    quantiles: Mapping[str, Tensor]
    default: str

    def __post_init__(self) -> None:
        one_of("default", self.default, self.quantiles)
        for name, kept in self.quantiles.items():
            check_numbers(name, kept)
            rule = "be one number per sample, in rising order"
            rising = kept.ndim == 1 and bool((kept.diff() >= 0).all())
            require(rising, f"quantiles of {name}", rule, tuple(kept.shape))

    @classmethod
    def fit(cls, scores: Mapping[str, Tensor], default: str) -> Self:
        """Keep what held-out samples score.

        Args:
            scores: Scores of shape ``(samples,)`` by name; higher is less familiar.
            default: The score to compare by where none is named.

        Returns:
            What tells how unfamiliar other samples are.

        Example:
            >>> scores = {"pds": torch.tensor([0.1, 0.4, 0.2, 0.2])}
            >>> held = HeldOutScores.fit(scores, default="pds")
            >>> held.share_below("pds", torch.tensor([0.0, 0.2, 0.3, 9.0]))
            tensor([0.0000, 0.2500, 0.7500, 1.0000])
        """
        return cls({name: _kept(values) for name, values in scores.items()}, default)

    @property
    def samples(self) -> int:
        """How many held-out samples are kept, all of them up to 1001."""
        return len(self.quantiles[self.default])

    def share_below(self, score: str, values: Tensor) -> Tensor:
        """Return the share of held-out samples that look more familiar.

        Of up to 1001 held-out samples it is exact; of more it is right to 0.001.

        Args:
            score: Which score it is.
            values: What other samples score, of any shape.

        Returns:
            Shares in [0, 1], in the values' shape.

        Raises:
            ValueError: If held-out samples were not scored by it.
        """
        one_of("score", score, self.quantiles)
        kept = self.quantiles[score]
        wide = torch.promote_types(kept.dtype, values.dtype)
        below = torch.searchsorted(kept.to(values.device, wide), values.to(wide))
        return below.float() / len(kept)


def joined(
    first: HeldOutScores | None, second: HeldOutScores | None
) -> HeldOutScores | None:
    """Return the scores of both, to be compared by the second's where it is there.

    Example:
        >>> own = HeldOutScores({"pds": torch.tensor([0.1])}, "pds")
        >>> by_features = HeldOutScores({"vim": torch.tensor([3.0])}, "vim")
        >>> both = joined(own, by_features)
        >>> [*both.quantiles], both.default, joined(own, None).default
        (['pds', 'vim'], 'vim', 'pds')
    """
    if first is None or second is None:
        return first or second
    return HeldOutScores({**first.quantiles, **second.quantiles}, second.default)


def unfamiliar_at(level: float, unfamiliarity: Tensor) -> Tensor:
    """Return which shares reach a level, as truth values.

    Example:
        >>> unfamiliar_at(0.99, torch.tensor([0.5, 0.99, 1.0]))
        tensor([False,  True,  True])
    """
    check_level(level)
    return unfamiliarity >= level


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


def _kept(values: Tensor) -> Tensor:
    check_numbers("scores", values)
    rising = values.detach().sort().values
    if len(rising) <= KEPT:
        return rising
    ranks = torch.linspace(0, len(rising) - 1, KEPT, dtype=torch.float64)
    return rising[ranks.round().long().to(rising.device)]
