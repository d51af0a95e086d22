r"""What members' answers say about data without labels.

A member whose answer is the same for every input says nothing, however much it
disagrees with the others. The mutual information of input and answer,

.. math:: H(\overline{p(x)}) - \overline{H(p(x))},

bars being means over inputs, is zero then, and :math:`\log C` where inputs are spread
evenly over :math:`C` classes without doubt.
"""

import math
from collections.abc import Sequence
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

# Enough to estimate an entropy of classes.
SAMPLES = 4096
# Below this share of the largest information, an answer depends on no input; above the
# other, it does.
NOTHING, SOMETHING = 0.001, 0.1


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
    return [n for n, (known, other) in pairs if known > SOMETHING and other < NOTHING]


def warn_of_silent(members: list[int], method: str) -> None:
    """Warn of members whose answers on unlabeled data depend on no input."""
    if members:
        warn(
            f"members {members} say nothing about the unlabeled data: their answers "
            "are the same for every sample, though they tell labeled samples apart; "
            f"{method} may weigh their disagreement too much",
        )
