r"""Which samples a member trains on with SAM, chosen by the other members.

Member :math:`j` selects the :math:`K = \lfloor k n \rfloor` samples :math:`S_j` with
the highest (or lowest) scores. With :math:`U_i = \bigcup_{j \ne i} S_j`, the samples
that no member selected :math:`F = D \setminus \bigcup_j S_j`, and :math:`F_i` every
:math:`m`-th of them in order, starting at the :math:`i`-th, the sharpness-aware set of
member :math:`i` is

========== =============================================
leftover   :math:`D_S^i`
========== =============================================
``none``   :math:`U_i`
``split``  :math:`U_i \cup F_i`
``boost``  :math:`U_i \cup (F \setminus F_i)`
========== =============================================

The paper describes the highest scores with ``none``. The released code takes the lowest
scores, with ``boost`` for CIFAR-10 and ``split`` for CIFAR-100 and TinyImageNet. For
the lowest scores :math:`K` is ``int(k * n)`` as in that code, where 0.29 of 3,000 is
869; for the highest it is 870.
"""

from typing import Literal

import torch
from torch import Tensor

from tepui.core.members import count_of

Leftover = Literal["none", "split", "boost"]


def extreme_samples(
    scores: Tensor, fraction: float, generator: torch.Generator, *, highest: bool
) -> Tensor:
    """Return the mask of the samples with the highest or lowest scores.

    Example:
        >>> scores = torch.tensor([3.0, 1.0, 2.0, 5.0])
        >>> extreme_samples(scores, 0.5, torch.Generator(), highest=True)
        tensor([ True, False, False,  True])
    """
    shuffled = torch.randperm(len(scores), generator=generator).to(scores.device)
    order = scores[shuffled].argsort(descending=highest, stable=True)
    mask = torch.zeros(len(scores), dtype=torch.bool, device=scores.device)
    samples = len(scores)
    count = count_of(fraction, samples) if highest else int(fraction * samples)
    mask[shuffled[order[:count]]] = True
    return mask


def random_samples(samples: int, fraction: float, generator: torch.Generator) -> Tensor:
    """Return the mask left by taking a random share of the samples away."""
    mask = torch.ones(samples, dtype=torch.bool)
    taken = count_of(1 - fraction, samples)
    mask[torch.randperm(samples, generator=generator)[:taken]] = False
    return mask


def sharpness_aware_set(selected: Tensor, member: int, leftover: Leftover) -> Tensor:
    """Return the samples that a member trains on with SAM.

    Example:
        >>> selected = torch.tensor([[1, 0, 0, 0], [0, 1, 0, 0]], dtype=torch.bool)
        >>> sharpness_aware_set(selected, 0, "none")
        tensor([False,  True, False, False])
        >>> sharpness_aware_set(selected, 0, "split")
        tensor([False,  True,  True, False])
    """
    others = torch.arange(len(selected), device=selected.device) != member
    chosen = selected[others].any(0)
    if leftover == "none":
        return chosen
    free = ~selected.any(0)
    turn = free & ((free.cumsum(0) - 1) % len(selected) == member)
    return chosen | (turn if leftover == "split" else free & ~turn)
