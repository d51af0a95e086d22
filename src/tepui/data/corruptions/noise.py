"""Noise: Gaussian, shot and impulse."""

import torch
from torch import Tensor

from tepui.data.corruptions.draws import Draws

_FEW = 4.0
_MOST = 18  # at such rates, a greater count is rarer than one in a million


def gaussian_noise(images: Tensor, std: float, draws: Draws) -> Tensor:
    """Add normal numbers of standard deviation ``std``."""
    return images + std * draws.normal(*images.shape[1:]).to(images.dtype)


def shot_noise(images: Tensor, photons: float, draws: Draws) -> Tensor:
    """Count photons, ``photons`` of them where an image is white."""
    normal = draws.normal(*images.shape[1:])
    return poisson_quantile(normal, photons * images.float()).to(images.dtype) / photons


def impulse_noise(images: Tensor, amount: float, draws: Draws) -> Tensor:
    """Turn a share ``amount`` of the values into 0 or 1, evenly."""
    uniform = draws.uniform(*images.shape[1:])
    salted = torch.where(uniform < amount, torch.ones_like(images), images)
    return torch.where(uniform < amount / 2, torch.zeros_like(images), salted)


def poisson_quantile(normal: Tensor, rate: Tensor) -> Tensor:
    """Return the Poisson quantile at the same probability as a normal number.

    Rates up to four sum the distribution; greater ones take the expansion of the
    quantile in powers of ``rate ** -0.5`` (Giles 2016), which misses the exact count
    by one in fewer than two draws of a thousand.
    """
    count = _expanded(normal, rate.clamp(min=_FEW))
    few = rate <= _FEW
    count[few] = _summed(torch.special.ndtr(normal[few]), rate[few])
    return count


def _summed(uniform: Tensor, rate: Tensor) -> Tensor:
    term = (-rate).exp_()
    left = uniform - term
    count, passed = torch.zeros_like(rate), torch.empty_like(rate)
    for number in range(1, _MOST + 1):
        count += torch.ge(left, 0, out=passed)
        left -= term.mul_(rate).mul_(1 / number)
    return count


def _expanded(w: Tensor, rate: Tensor) -> Tensor:
    root = rate.sqrt()
    w2 = w * w
    first = rate + root * w + (2 + w2) / 6
    second = -w * (2 + w2) / (72 * root)
    third = (-16 + 7 * w2 + 3 * w2 * w2) / (810 * rate)
    return (first + second + third).floor().clamp_(min=0)
