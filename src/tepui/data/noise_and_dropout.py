"""Augmentation of rows and texts: noise on columns, words left out.

How many numbers a sample needs depends on its columns or words. So two uniform numbers
name a stream of them (:func:`tepui.data.corruptions.draws.streams`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar, final

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.core.types import check_fields
from tepui.data.augment import Augmentation, Kind, check_draws, check_probability
from tepui.data.corruptions.draws import streams
from tepui.data.image_operations import precise
from tepui.data.preparation import Preparation
from tepui.data.tokenizer import PAD, SPECIAL, Tokenizer


@final
@dataclass(frozen=True)
class ColumnNoise(Augmentation):
    """Add Gaussian noise to the columns of rows.

    Attributes:
        std: Standard deviation of the noise in units of each column.
        units: Unit of each column, 0 for no noise. By default what standardizes the
            training data, so that noise is added to standardized numbers, and 0 for
            words of a table, which are zeros and ones.

    Example:
        >>> noise = ColumnNoise(std=0.1, units=(1.0, 0.0))
        >>> noise(torch.ones(2, 2), torch.tensor([[0.25, 0.5], [0.5, 0.75]]))
        tensor([[0.9784, 1.0000],
                [0.8791, 1.0000]])
    """

    of: ClassVar[Kind] = "rows"
    draws: ClassVar[int] = 2
    std: float = 0.1
    units: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)
        require(self.std >= 0, "std", "be non-negative", self.std)

    def __call__(self, inputs: Tensor, uniform: Tensor) -> Tensor:
        """Return rows with noise, whole numbers as floats."""
        check_draws(inputs, uniform, self.draws)
        rows = inputs if inputs.is_floating_point() else inputs.float()
        units = precise(_kept(self.units or (1.0,) * rows.shape[1], rows.device))
        rule = f"have one entry for each of {rows.shape[1]} columns"
        require(len(units) == rows.shape[1], "units", rule, len(units))
        first, second = precise(streams(uniform, 2 * len(units))).chunk(2, dim=1)
        normal = (-2 * torch.log1p(-first)).sqrt() * (2 * math.pi * second).cos()
        return rows + (self.std * units * normal).to(rows.dtype)

    def knowing(self, preparation: Preparation | None) -> Augmentation:
        """Return noise in units of the training data's columns."""
        if self.units or preparation is None:
            return self
        units: tuple[float, ...] = ()
        if preparation.columns:  # of a table, already standardized
            features = [f for c in preparation.columns for f in c.features]
            units = tuple(float(each["word"] is None) for each in features)
        elif preparation.normalize is not None:
            units = preparation.normalize.std
        return replace(self, units=units)


@final
@dataclass(frozen=True)
class WordDropout(Augmentation):
    """Replace tokens of texts, each with a probability, by one that says nothing.

    Attributes:
        probability: Chance that a token is replaced.
        token: What takes its place. By default the unknown token of the training data's
            tokenizer, else its mask, else its padding.
        special: Tokens that stay. By default the tokenizer's special ones.

    Example:
        >>> texts = {"input_ids": torch.tensor([[1, 7, 8, 2, 0]])}
        >>> dropout = WordDropout(probability=1.0, token=0, special=(0, 1, 2))
        >>> dropout(texts, torch.tensor([[0.25, 0.5]]))["input_ids"]
        tensor([[1, 0, 0, 2, 0]])

    References:
        Iyyer et al., Deep Unordered Composition Rivals Syntactic Methods for Text
        Classification, ACL 2015; Bowman et al., Generating Sentences from a Continuous
        Space, CoNLL 2016, for the unknown token.
    """

    of: ClassVar[Kind] = "texts"
    draws: ClassVar[int] = 2
    probability: float = 0.1
    token: int | None = None
    special: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)
        check_probability(self.probability)

    def __call__(
        self, inputs: Mapping[str, Tensor], uniform: Tensor
    ) -> dict[str, Tensor]:
        """Return texts with some tokens replaced."""
        check_draws(inputs, uniform, self.draws)
        require(self.token is not None, "token", "be given without a tokenizer", None)
        tokens = inputs["input_ids"]
        special = _kept(self.special, tokens.device)
        words = (tokens[..., None] != special).all(-1)
        replaced = words & (streams(uniform, tokens.shape[1]) < self.probability)
        assert self.token is not None
        return {**inputs, "input_ids": tokens.masked_fill(replaced, self.token)}

    def knowing(self, preparation: Preparation | None) -> Augmentation:
        """Return dropout with the tokens of the training data's tokenizer.

        Args:
            preparation: What was done to the training data.

        Returns:
            This one if its token was given.

        Raises:
            ValueError: If no token was given and the tokenizer is not known.
        """
        if self.token is not None:
            return self
        known = None if preparation is None else preparation.tokenizer
        rule = "be given, with special, for texts whose tokenizer is not known"
        require(known is not None, "token of WordDropout", rule, None)
        if isinstance(known, Tokenizer):
            return replace(self, token=PAD, special=tuple(range(SPECIAL)))
        assert known is not None
        own = known.tokenizer
        places = (own.unk_token_id, own.mask_token_id, own.pad_token_id)
        token = next(place for place in places if place is not None)
        return replace(self, token=token, special=tuple(own.all_special_ids))


# Kept, since no number may come from the host while a graph is captured.
@cache
def _kept(numbers: tuple[float, ...], device: torch.device) -> Tensor:
    return torch.tensor(numbers, device=device)
