"""What the parts of an ensemble know of it."""

import torch
from torch import nn

from tepui.modules.running import dtype_of
from tepui.tasks import Task


class EnsembleBase(nn.Module):
    """A module of several members, whose outputs have a meaning.

    Attributes:
        members: The members.
        task: What outputs mean; None where nobody has said.
    """

    members: nn.ModuleList
    task: Task | None

    @property
    def dtype(self) -> torch.dtype:
        """The type that members compute in."""
        return dtype_of(self) or torch.float32
