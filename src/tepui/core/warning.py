"""Warnings that point at the line of the caller, however deep they arise."""

import sys
import warnings
from pathlib import Path

import torch

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
