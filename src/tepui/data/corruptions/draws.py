"""Random numbers for whole batches, keyed by the number of each image.

Philox4x32 with seven rounds in integer tensors: the counter holds the position within
an image, the stream and the image's number; the key holds the rest of the seed. So an
image's numbers depend on neither its batch nor its device. Uniform numbers are the same
bits everywhere; a normal number may differ in its last bit between devices.

References:
    Salmon, Moraes, Dror and Shaw (2011), Parallel Random Numbers: As Easy as 1, 2, 3.
"""

import math
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from tepui.core.seeding import Key, derive

_LOW = 0xFFFFFFFF
_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_WEYL = 0x9E3779B9, 0xBB67AE85

Words = tuple[Tensor, Tensor, Tensor, Tensor]


def philox(counter: Words, key: tuple[int, int], rounds: int = 7) -> Words:
    """Return four 32-bit words for each counter.

    Example:
        >>> zero = torch.zeros(1, dtype=torch.int64)
        >>> [hex(int(word)) for word in philox((zero,) * 4, (0, 0), rounds=10)]
        ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(rounds):
        p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0 = ((p1 >> 32) & _LOW) ^ (c1 ^ k0)
        c2 = ((p0 >> 32) & _LOW) ^ (c3 ^ k1)
        c1, c3 = p1.bitwise_and_(_LOW), p0.bitwise_and_(_LOW)
        k0, k1 = (k0 + _WEYL[0]) & _LOW, (k1 + _WEYL[1]) & _LOW
    return c0, c1, c2, c3


@final
@dataclass(frozen=True)
class Draws:
    """Random numbers of a batch of images.

    Attributes:
        key: What the numbers derive from besides the image.
        first: Number of the first image of the batch.
        num_samples: Number of images in the batch.
        device: Where to draw.

    Example:
        >>> whole = Draws((13, "fog"), 0, 4, torch.device("cpu")).uniform(5)
        >>> last = Draws((13, "fog"), 3, 1, torch.device("cpu")).uniform(5)
        >>> torch.equal(whole[3:], last)
        True
    """

    key: tuple[Key, ...]
    first: int
    num_samples: int
    device: torch.device

    def uniform(self, *shape: int, stream: int = 0) -> Tensor:
        """Return uniform numbers in ``[0, 1)``.

        Args:
            shape: How many numbers for each image.
            stream: Which of an image's streams; streams are independent.

        Returns:
            Numbers of shape ``(num_samples, *shape)``, float32.
        """
        return self._shaped(_fractions(self._words(shape, stream)), shape)

    def normal(self, *shape: int, stream: int = 0) -> Tensor:
        """Return standard normal numbers.

        Args:
            shape: How many numbers for each image.
            stream: Which of an image's streams; streams are independent.

        Returns:
            Numbers of shape ``(num_samples, *shape)``, float32.
        """
        first, second = _fractions(self._words(shape, stream)).chunk(2, dim=1)
        radius = (1 - first).log_().mul_(-2).sqrt_()
        angle = second * (2 * math.pi)
        pairs = torch.cat([radius * angle.cos(), radius * angle.sin()], dim=1)
        return self._shaped(pairs, shape)

    def _words(self, shape: tuple[int, ...], stream: int) -> Tensor:
        """Return at least as many words per image as asked for, four in a column."""

        def numbers(first: int, count: int) -> Tensor:
            return torch.arange(first, first + count, device=self.device)

        position = numbers(0, -(-math.prod(shape) // 4))
        image = numbers(self.first, self.num_samples)[:, None]
        seed = derive(*self.key)
        counter = position, numbers(stream, 1), image, numbers(0, 1)
        return torch.stack(philox(counter, (seed & _LOW, seed >> 32)), dim=1)

    def _shaped(self, columns: Tensor, shape: tuple[int, ...]) -> Tensor:
        flat = columns.flatten(1)[:, : math.prod(shape)]
        return flat.reshape(self.num_samples, *shape)


def streams(keys: Tensor, count: int) -> Tensor:
    """Return uniform numbers of streams that samples name by uniform numbers of theirs.

    Args:
        keys: Multiples of ``2**-24`` in ``[0, 1)``, of shape ``(samples, 2)``.
        count: How many numbers for each sample; more of them begin with the same ones.

    Returns:
        Numbers of shape ``(samples, count)``, float32.
    """
    first, second = (keys * 2**24).long().split(1, dim=1)
    position = torch.arange(-(-count // 4), device=keys.device)
    words = philox((position, first, second, torch.zeros_like(first)), (0, 0))
    return _fractions(torch.stack(words, dim=2).flatten(1)[:, :count])


def _fractions(words: Tensor) -> Tensor:
    """Map 32-bit words to multiples of ``2**-24`` in ``[0, 1)``, exactly."""
    return (words >> 8).float().mul_(2.0**-24)
