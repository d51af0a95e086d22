"""An ensemble as one classifier, for programs that know single models alone."""

import math
from typing import Any, final

import torch
from torch import Tensor, nn

from tepui.ensembles.ensemble import Ensemble


@final
class JointLogits(nn.Module):
    """An ensemble as one module from inputs to logits ``(samples, classes)``.

    Its logits are logarithms of the members' mean probabilities, so that their softmax
    is what :meth:`Ensemble.predict` returns as ``probs`` before any calibration.

    Args:
        ensemble: The ensemble, whose members it holds; in eval mode from now on.

    Example:
        >>> ensemble = Ensemble.build(lambda: nn.Linear(4, 3), members=2)
        >>> x = torch.randn(5, 4)
        >>> probs = JointLogits(ensemble)(x).softmax(1)
        >>> torch.testing.assert_close(probs, ensemble.predict(x).probs)
    """

    def __init__(self, ensemble: Ensemble) -> None:
        super().__init__()
        self.ensemble = ensemble
        self.eval()

    def forward(self, *inputs: Any, **named: Any) -> Tensor:
        """Return the logits of a batch."""
        given = inputs[0] if inputs else named
        logits: Tensor = self.ensemble(given).log_softmax(-1)
        return torch.logsumexp(logits, 0) - math.log(len(self.ensemble))
