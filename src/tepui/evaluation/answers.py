r"""What members' answers say about data without labels.

A member whose answer is the same for every input says nothing, however much it
disagrees with the others. The mutual information of input and answer,

.. math:: H(\overline{p(x)}) - \overline{H(p(x))},

bars being means over inputs, is zero then, and :math:`\log C` where inputs are spread
evenly over :math:`C` classes without doubt.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.checks import logits_shape
from tepui.core.evenly_spaced import evenly_spaced
from tepui.core.warning import warn
from tepui.data.loading import at_rows, length
from tepui.ensembles.ensemble import Ensemble
from tepui.modules.running import device_of, evaluating

# Enough to estimate an entropy of classes.
SAMPLES = 4096
# Below this share of the largest information, an answer depends on no input; above the
# other, it does.
NOTHING, SOMETHING = 0.001, 0.1


class Answers(NamedTuple):
    """What each member says about some data, in nats.

    Attributes:
        samples: How many were looked at.
        classes: Between how many classes members choose.
        information: How much the answers depend on the inputs, from 0 to log(classes).
        entropy: Entropy of the mean answer: how evenly all classes are used.
    """

    samples: int
    classes: int
    information: tuple[float, ...]
    entropy: tuple[float, ...]

    def shares(self) -> list[float]:
        """Return each member's information as a share of the largest."""
        most = math.log(max(2, self.classes))
        return [nats / most for nats in self.information]

    def document(self) -> dict[str, Any]:
        """Return the numbers for JSON."""
        lists = {"information": [*self.information], "entropy": [*self.entropy]}
        return {"samples": self.samples, "classes": self.classes, **lists}


def answers_of(logits: Tensor) -> Answers:
    """Return what members' logits say about some samples.

    Example:
        >>> sure, mute = 99 * torch.eye(2), torch.zeros(2, 2)
        >>> answers = answers_of(torch.stack([sure, mute]))
        >>> answers.shares()
        [1.0, 0.0]
    """
    logits_shape(logits)
    probs = logits.double().softmax(-1)
    together = torch.special.entr(probs.mean(1)).sum(-1)
    alone = torch.special.entr(probs).sum(-1).mean(-1)
    information = (together - alone).clamp(min=0)
    _, samples, classes = logits.shape
    numbers = tuple(information.tolist()), tuple(together.tolist())
    return Answers(samples, classes, *numbers)


def answers_on(
    ensemble: Ensemble, data: Dataset[Any], batch_size: int = 256
) -> Answers:
    """Return what members say about data, of which some thousands will do."""
    rows = evenly_spaced(length(data), SAMPLES).split(batch_size)
    parts = []
    for batch in at_rows(data, rows, device=device_of(ensemble)):
        with evaluating(ensemble), torch.no_grad():
            parts.append(ensemble(batch.inputs).float())
    return answers_of(torch.cat(parts, dim=1))


def silent_members(labeled: Answers, unlabeled: Answers) -> list[int]:
    """Return the members that tell labeled samples apart and unlabeled ones not.

    Example:
        >>> told = answers_of(torch.stack([99 * torch.eye(2)] * 2))
        >>> mute = answers_of(torch.stack([99 * torch.eye(2), torch.zeros(2, 2)]))
        >>> silent_members(told, mute), silent_members(mute, mute)
        ([1], [])
    """
    pairs = zip(labeled.shares(), unlabeled.shares(), strict=True)
    return [
        member
        for member, (known, other) in enumerate(pairs)
        if known > SOMETHING and other < NOTHING
    ]


def warn_of_silent(members: list[int], method: str) -> None:
    """Warn of members whose answers on unlabeled data depend on no input."""
    if members:
        warn(
            f"members {members} say nothing about the unlabeled data: their answers "
            "are the same for every sample, though they tell labeled samples apart; "
            f"{method} may weigh their disagreement too much",
        )
