"""Warnings that point at the line of the caller, however deep they arise.

One of them tells of outputs that are probabilities where logits are expected.
"""

import sys
import warnings
from pathlib import Path

import torch
from torch import Tensor

# Frames of these folders are ours, or lie between ours.
_PASSED = (str(Path(__file__).parents[1]), str(Path(torch.__file__).parent))


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line that is neither of tepui nor of torch.

    Args:
        message: What to say.
        category: Of the warning.
    """
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PASSED):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


CLOSE = 1e-4  # to one, which probabilities in float32 sum to


def are_probabilities(outputs: Tensor) -> bool:
    """Return whether all rows could only be probabilities of two classes or more.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[2.0, -1.0, 0.5], [0.2, 0.1, 3.0]])
        >>> are_probabilities(logits), are_probabilities(logits.softmax(1))
        (False, True)
    """
    if outputs.shape[-1] < 2 or not outputs.is_floating_point():
        return False
    inside = bool(((outputs > 0) & (outputs < 1)).all())
    return inside and bool(((outputs.sum(-1) - 1).abs() < CLOSE).all())


def warn_of_probabilities(outputs: Tensor) -> None:
    """Warn if members return probabilities, of which softmax would be taken again."""
    if are_probabilities(outputs):
        warn(
            "members seem to return probabilities (positive rows that sum to 1), but "
            "are taken to return logits, of which softmax makes probabilities: leave "
            "out their last softmax, or return its logarithm (log_softmax)",
        )
