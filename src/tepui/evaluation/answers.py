r"""What members' answers say about data without labels.

A member whose answer is the same for every input says nothing, however much it
disagrees with the others. The mutual information of input and answer,

.. math:: H(\overline{p(x)}) - \overline{H(p(x))},

bars being means over inputs, is zero then, and :math:`\log C` where inputs are spread
evenly over :math:`C` classes without doubt.
"""

import math
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.checks import logits_shape
from tepui.data.loading import at_rows, length
from tepui.ensembles.ensemble import Ensemble
from tepui.modules.running import device_of, evaluating

# Enough to estimate an entropy of classes.
SAMPLES = 4096
# Below this share of the largest information, an answer depends on no input.
NOTHING = 0.01


class Answers(NamedTuple):
    """What each member says about unlabeled data, in nats.

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

    def silent(self) -> list[int]:
        """Return the members whose answer depends on no input."""
        least = NOTHING * math.log(self.classes)
        return [m for m, bits in enumerate(self.information) if bits < least]

    def document(self) -> dict[str, Any]:
        """Return the numbers for JSON."""
        return self._asdict()


def answers_of(logits: Tensor) -> Answers:
    """Return what members' logits say about some samples.

    Example:
        >>> sure, mute = 99 * torch.eye(2), torch.zeros(2, 2)
        >>> answers = answers_of(torch.stack([sure, mute]))
        >>> answers.information, answers.silent()
        ((0.6931471805599453, 0.0), [1])
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
    ensemble: Ensemble, unlabeled: Dataset[Any], batch_size: int = 256
) -> Answers:
    """Return what members say about unlabeled data, of which some thousands will do."""
    samples = length(unlabeled)
    count = min(samples, SAMPLES)
    rows = torch.linspace(0, samples - 1, count).round().long().split(batch_size)
    parts = []
    for batch in at_rows(unlabeled, rows, device=device_of(ensemble)):
        with evaluating(ensemble), torch.no_grad():
            parts.append(ensemble(batch.inputs).float())
    return answers_of(torch.cat(parts, dim=1))


def warn_of_silent(answers: Answers, method: str, *, stacklevel: int) -> None:
    """Warn of members whose answers on unlabeled data depend on no input."""
    silent: Sequence[int] = answers.silent()
    if silent:
        warnings.warn(
            f"members {silent} say nothing about the unlabeled data any more: their "
            f"answers are the same for every sample ({method} may weigh disagreement "
            "too much)",
            stacklevel=stacklevel + 1,
        )
