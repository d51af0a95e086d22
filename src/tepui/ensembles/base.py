"""What the parts of an ensemble know of it."""

from torch import nn

from tepui.core.task import Task


class EnsembleBase(nn.Module):
    """A module of several members, whose outputs have a meaning.

    Attributes:
        members: The members.
        task: What outputs mean; None where nobody has said.
    """

    members: nn.ModuleList
    task: Task | None
