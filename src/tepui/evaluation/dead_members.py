r"""Members that did not learn, or say nothing, which a mean over members would hide.

A member whose answer is the same for every input says nothing, however much it
disagrees with the others. The mutual information of input and answer,

.. math:: H(\overline{p(x)}) - \overline{H(p(x))},

bars being means over inputs, is zero then, and :math:`\log C` where inputs are spread
evenly over :math:`C` classes without doubt.
"""

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.checks import logits_shape
from tepui.core.evenly_spaced import evenly_spaced
from tepui.core.warning import warn
from tepui.data.loading import length
from tepui.ensembles.ensemble import Ensemble
from tepui.evaluation.dataset_logits import logit_batches
from tepui.tasks.base import Losses

# A member's loss is suspicious from this many times the median of its peers' on, and
# from this share of the loss of guessing on: small losses differ by chance.
TIMES_THE_PEERS = 3.0
SHARE_OF_GUESSING = 0.5
# A member has learned nothing from this share of the loss of guessing on, where its
# peers are below the other.
NOTHING = 0.98
SOMETHING = 0.5
# No member has learned if all lose this many times what guessing does.
WORSE_THAN_GUESSING = 3.0
# Enough to estimate an entropy of classes.
SAMPLES = 4096
# Below this share of the largest information, an answer depends on no input; above the
# other, it does.
MUTE, TELLING = 0.001, 0.1


def dead_members(losses: Losses) -> list[int]:
    """Return the members whose loss is far above that of the others.

    Example:
        >>> dead_members(Losses([0.3, 2.3, 0.4], guessing=2.303))
        [1]
        >>> dead_members(Losses([2.1, 4.6, 2.2], guessing=4.605))  # a hundred classes
        [1]
        >>> dead_members(Losses([2.3, 2.2, 2.3], guessing=2.303))  # none has learned
        []
    """
    members, guessing = losses
    if len(members) < 2:
        return []

    def suspicious(member: int) -> bool:
        loss, peers = members[member], _median_of_others(members, member)
        far = loss >= SHARE_OF_GUESSING * guessing and loss >= TIMES_THE_PEERS * peers
        idle = loss >= NOTHING * guessing and peers <= SOMETHING * guessing
        return far or idle

    return [member for member in range(len(members)) if suspicious(member)]


def all_dead(losses: Losses) -> bool:
    """Return whether every member loses far more than guessing would.

    Example:
        >>> all_dead(Losses([26000.0, 1270.0], guessing=2.303))
        True
        >>> all_dead(Losses([26000.0, 2.4], guessing=2.303))
        False
    """
    return _all_lose(losses, WORSE_THAN_GUESSING)


def only_guess(losses: Losses) -> bool:
    """Return whether no member loses less than guessing would.

    Example:
        >>> only_guess(Losses([2.33, 2.31], guessing=2.303))
        True
        >>> only_guess(Losses([2.33, 2.1], guessing=2.303))
        False
    """
    return _all_lose(losses, NOTHING)


def only_guess_in_words(losses: Losses, data: str) -> str:
    """Return the sentence on members of which none loses less than guessing would."""
    members, guessing = losses
    others, values = "", f"its loss on {data} is {members[0]:.4g}"
    if len(members) > 1:
        others = ", nor any other member"
        values = f"losses on {data} are {min(members):.4g} to {max(members):.4g}"
    return (
        f"member 0 may not have learned{others}: {values}, and guessing without "
        f"looking at the inputs gives {guessing:.4g}; frequent causes are inputs or "
        "targets in large units, which have to be scaled to about 1, a learning rate "
        "that is too large or too small, too few epochs and inputs that do not tell "
        "the targets"
    )


def warn_of_dead_members(losses: Losses, data: str) -> None:
    """Warn of each member whose loss is far above that of the others."""
    for member in dead_members(losses):
        warn(
            f"member {member} may not have learned: its loss on {data} is "
            f"{losses.members[member]:.3g}, the median of the other members' is "
            f"{_median_of_others(losses.members, member):.3g}, and guessing without "
            f"looking at the inputs gives {losses.guessing:.3g}",
        )


def _all_lose(losses: Losses, share: float) -> bool:
    """Return whether no member loses less than a share of what guessing does."""
    return 0 < share * losses.guessing <= min(losses.members)


def _median_of_others(losses: Sequence[float], member: int) -> float:
    return median([*losses[:member], *losses[member + 1 :]])


def information(logits: Tensor) -> list[float]:
    """Return how much each member's answers depend on the inputs, a share from 0 to 1.

    Example:
        >>> sure, mute = 99 * torch.eye(2), torch.zeros(2, 2)
        >>> information(torch.stack([sure, mute]))
        [1.0, 0.0]
    """
    logits_shape(logits)
    probs = logits.double().softmax(-1)
    together = torch.special.entr(probs.mean(1)).sum(-1)
    alone = torch.special.entr(probs).sum(-1).mean(-1)
    nats: list[float] = (together - alone).clamp(min=0).tolist()
    return [each / math.log(max(2, logits.shape[-1])) for each in nats]


def information_on(
    ensemble: Ensemble, data: Dataset[Any], batch_size: int = 256
) -> list[float]:
    """Return the same of data, of which some thousands will do."""
    rows = evenly_spaced(length(data), SAMPLES).split(batch_size)
    batches = logit_batches(ensemble, data, precision="float32", rows=rows)
    return information(torch.cat([logits for logits, _ in batches], dim=1))


def silent_members(labeled: Sequence[float], unlabeled: Sequence[float]) -> list[int]:
    """Return the members that tell labeled samples apart and unlabeled ones not.

    Example:
        >>> silent_members([1.0, 1.0, 0.0], [1.0, 0.0, 0.0])
        [1]
    """
    pairs = enumerate(zip(labeled, unlabeled, strict=True))
    return [n for n, (known, other) in pairs if known > TELLING and other < MUTE]


def warn_of_silent(members: list[int], method: str) -> None:
    """Warn of members whose answers on unlabeled data depend on no input."""
    if members:
        warn(
            f"members {members} say nothing about the unlabeled data: their answers "
            "are the same for every sample, though they tell labeled samples apart; "
            f"{method} may weigh their disagreement too much",
        )
