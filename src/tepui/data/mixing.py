r"""Samples mixed with others of their batch, noise on columns, words left out.

The partner :math:`p(i)` of a sample is the one with the next larger key in the batch,
and that of the largest key is the smallest: nobody is its own partner in a batch of two
or more. With a share :math:`\lambda_i \sim \mathrm{Beta}(\alpha, \alpha)`, Mixup makes

.. math:: \tilde x_i = \lambda_i x_i + (1 - \lambda_i) x_{p(i)}, \qquad
    \tilde\ell_i = \lambda_i \ell(y_i) + (1 - \lambda_i) \ell(y_{p(i)}),

and CutMix replaces a rectangle of :math:`x_i` by that of its partner, where
:math:`\lambda_i` is the share of pixels that are kept. Losses and not labels are mixed,
so that every loss and task has them; for a cross-entropy both are the same.

Keys and shares follow from uniform numbers of each sample: a beta's quantiles are
looked up in a table of 65536, at the middle of each step.

Differs from the papers: every sample has its own share, where the released code draws
one for each batch, and partners are no free permutation, which keeps some samples as
they are.

Rows and texts have noise on columns, and words left out. How many numbers a sample
needs depends on its columns or words, so two uniform numbers name a stream of them
(:func:`tepui.data.corruptions.draws.streams`).

References:
    Zhang et al., mixup: Beyond Empirical Risk Minimization, ICLR 2018.
    Yun et al., CutMix: Regularization Strategy to Train Strong Classifiers with
    Localizable Features, ICCV 2019.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar, final

import numpy as np
import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.data.arrays import Batch, Partners
from tepui.data.augment import (
    PROBABILITY,
    Augmentation,
    Kind,
    check_draws,
    choice,
    within,
)
from tepui.data.corruptions.draws import streams
from tepui.data.image_operations import precise
from tepui.data.preparation import Preparation
from tepui.data.texts import PAD, SPECIAL, Tokenizer

QUANTILES = 2**16


class Mixing(Augmentation):
    """Mixes prepared samples of a batch with each other, as the last augmentation."""

    of = None

    @final
    def __call__(self, images: Tensor, uniform: Tensor) -> Tensor:
        """Refuse to mix images without their labels."""
        name = type(self).__name__
        rule = "be given to fit as the last step of augment, which mixes labels too"
        raise ValueError(f"{name} must {rule}, got images alone")

    @final
    def mixed(self, batch: Batch, uniform: Tensor) -> Batch:
        """Return a batch of mixed inputs, which knows the partners of its samples.

        Args:
            batch: Floats, as a model sees them.
            uniform: Numbers in ``[0, 1)`` of shape ``(samples, draws)``.

        Returns:
            Inputs of the same type, with ``partners``.
        """
        inputs = batch.inputs
        assert isinstance(inputs, Tensor)
        partner = next_larger(uniform[:, 0])
        kept, share = self.kept(inputs, uniform[:, 1:])
        kept = kept.to(inputs.dtype)
        mixture = kept * inputs + (1 - kept) * inputs[partner]
        others = Partners(batch.targets[partner], batch.index[partner], share)
        return batch._replace(inputs=mixture, partners=others)

    @abstractmethod
    def kept(self, inputs: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
        """Return how much of each number is kept, and the share of each sample.

        Args:
            inputs: The batch.
            uniform: Numbers in ``[0, 1)``, one column less than ``draws``.

        Returns:
            Numbers in ``[0, 1]`` that broadcast to the inputs, and one per sample.
        """


@final
@dataclass(frozen=True)
class Mixup(Mixing):
    """Averages of two samples, of images or of rows of a table.

    Attributes:
        alpha: Parameter of the beta distribution of shares; 1 is uniform, and less
            prefers shares near 0 and 1.

    Example:
        >>> numbers = torch.tensor([[0.0], [1.0]])
        >>> batch = Batch(numbers, torch.tensor([0, 1]), torch.arange(2))
        >>> mixed = Mixup(1.0).mixed(batch, torch.tensor([[0.3, 0.75], [0.6, 0.5]]))
        >>> mixed.inputs.round(decimals=3), mixed.partners.targets
        (tensor([[0.2500],
                [0.5000]]), tensor([1, 0]))
    """

    draws: ClassVar[int] = 2
    bounds: ClassVar = {"alpha": (1e-6, math.inf)}
    alpha: float = 0.2

    def kept(self, inputs: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
        """Return the share of each sample, twice."""
        share = beta(self.alpha, uniform[:, 0])
        return share.view(-1, *[1] * (inputs.ndim - 1)), share


@final
@dataclass(frozen=True)
class CutMix(Mixing):
    r"""Images with a rectangle of another image.

    The rectangle's sides are :math:`\sqrt{1 - \lambda}` of the image's; its center is
    uniform, and what lies outside the image is cut off.

    Attributes:
        alpha: Parameter of the beta distribution of shares, as they are before anything
            is cut off; 1 is uniform.
    """

    draws: ClassVar[int] = 4
    bounds: ClassVar = {"alpha": (1e-6, math.inf)}
    alpha: float = 1.0

    def kept(self, inputs: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
        """Return 1 for pixels outside of the rectangle, and their exact share."""
        side = (1 - beta(self.alpha, uniform[:, 0])).sqrt()
        rows, columns = (
            _covered(side, uniform[:, number], size)
            for number, size in ((1, inputs.shape[2]), (2, inputs.shape[3]))
        )
        kept = ~(rows[:, None, :, None] & columns[:, None, None, :])
        return kept, kept.float().mean((1, 2, 3))


def next_larger(keys: Tensor) -> Tensor:
    """Return where the next larger key lies; after the largest comes the smallest.

    Example:
        >>> next_larger(torch.tensor([0.7, 0.1, 0.4]))
        tensor([1, 2, 0])
    """
    order = keys.argsort(stable=True)
    return order.roll(-1)[order.argsort()]


def beta(alpha: float, uniform: Tensor) -> Tensor:
    """Map numbers in ``[0, 1)`` to ones with a symmetric beta distribution.

    Example:
        >>> beta(1.0, torch.tensor([0.0, 0.5])).round(decimals=3)
        tensor([0.0000, 0.5000])
    """
    return _quantiles(alpha, uniform.device)[choice(uniform, QUANTILES)]


@cache
def _quantiles(alpha: float, device: torch.device) -> Tensor:
    from scipy.special import betaincinv  # imported late, as it is large

    levels = (np.arange(QUANTILES) + 0.5) / QUANTILES
    return torch.from_numpy(betaincinv(alpha, alpha, levels)).float().to(device)


def _covered(side: Tensor, uniform: Tensor, size: int) -> Tensor:
    """Return which pixels an interval of a relative length covers."""
    length = (side * size).floor()
    start = choice(uniform, size) - (length / 2).floor()
    end = start + length
    start = start.clamp(min=0)
    return within(start, end - start, size)


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
    bounds: ClassVar = {"std": (0, math.inf)}
    std: float = 0.1
    units: tuple[float, ...] = ()

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
    bounds: ClassVar = PROBABILITY
    probability: float = 0.1
    token: int | None = None
    special: tuple[int, ...] = ()

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
