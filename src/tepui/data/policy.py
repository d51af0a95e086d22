"""Which augmentations members see: the same, or each member its own."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, final

from tepui.core.checks import require
from tepui.data.augment import Augmentation

Steps = tuple[Augmentation, ...]


@final
@dataclass(frozen=True, init=False)
class PerMember:
    """One policy of augmentation for each member.

    Attributes:
        policies: The augmentations of each member, in order.

    Example:
        >>> from tepui.data import HorizontalFlip, Mixup, RandomCrop
        >>> augment = PerMember(RandomCrop(), [HorizontalFlip(), Mixup(0.4)], [])
        >>> len(augment.policies)
        3
    """

    policies: tuple[Steps, ...]

    def __init__(self, *policies: Augmentation | Sequence[Augmentation]) -> None:
        given = tuple(
            (policy,) if isinstance(policy, Augmentation) else tuple(policy)
            for policy in policies
        )
        steps = [step for policy in given for step in policy]
        rule = "be an augmentation, or several in order"
        for step in steps:
            require(isinstance(step, Augmentation), "a policy", rule, step)
        object.__setattr__(self, "policies", given)

    def of(self, member: int, members: int) -> Steps:
        """Return the augmentations of one of so many members."""
        rule = f"have one policy per member ({members})"
        require(len(self.policies) == members, "augment", rule, len(self.policies))
        return self.policies[member]


def policy_of(augment: Iterable[Any] | PerMember) -> Any:
    """Return augmentations in order; lists of them are policies of the members.

    Example:
        >>> from tepui.data import HorizontalFlip, RandomCrop
        >>> policy_of([RandomCrop(), HorizontalFlip()])
        (RandomCrop(padding=4, fill=0.0), HorizontalFlip(probability=0.5))
        >>> policy_of([[RandomCrop()], []]) == PerMember(RandomCrop(), [])
        True
    """
    given = (augment,) if isinstance(augment, PerMember) else tuple(augment)
    if len(given) == 1 and isinstance(given[0], PerMember):
        return given[0]
    if any(isinstance(item, list | tuple) for item in given):
        return PerMember(*given)
    return given
