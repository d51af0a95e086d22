r"""Snapshot ensembles: the ends of a run's cycles, many members at the price of one.

Of :math:`E` epochs each of :math:`M` members has a cycle of :math:`E / M` (rounded to
whole epochs). The learning rate's schedule begins anew with every cycle; with
:class:`~tepui.training.Cosine` it is, :math:`t` epochs into a cycle of :math:`T`,

.. math:: \eta(t) = \frac{\eta_0}{2} \left(1 + \cos \frac{\pi t}{T}\right).

A member is the weights at the end of its cycle. The next one goes on from them, with
the optimizer's momentum, as in the released code.

Differs from the paper: a cycle ends with an epoch, and cycles of an uneven run differ
by one epoch.

References:
    Huang, Li, Pleiss, Liu, Hopcroft, Weinberger, Snapshot Ensembles: Train 1, Get M for
    Free, ICLR 2017.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.core.per_member import lists_of
from tepui.data.arrays import Batch
from tepui.methods.base import ExchangingMethod, MemberMethod, Method
from tepui.methods.deep_ensemble import DeepEnsemble
from tepui.methods.member import Gradient, Member

PLAIN = DeepEnsemble()


@final
@dataclass(frozen=True, kw_only=True)
class SnapshotEnsemble(MemberMethod):
    """Members one after the other, out of one run.

    Attributes:
        base: How each of them trains, such as ``SAM(rho=0.05)``.
    """

    base: MemberMethod = PLAIN

    def __post_init__(self) -> None:
        super().__post_init__()
        rule = "train members independently, each from its first weights"
        alone = not (isinstance(self.base, ExchangingMethod) or self.base.successive)
        require(alone, "base", rule, self.base)
        rule = "have one value for all members, which are parts of one run"
        require(not lists_of(self.base), "base", rule, self.base)

    @property
    def successive(self) -> bool:
        """Members train one after the other."""
        return True

    @property
    def fixed_shapes(self) -> bool:
        """Whether every step of the base meets the same shapes."""
        return self.base.fixed_shapes

    def phase(self, epoch: int, epochs: int) -> str:
        """Return the phase of the base, which counts the epochs of all cycles."""
        return self.base.phase(epoch, epochs)

    def relative_cost(self, epoch: int, epochs: int) -> float:
        """Return what an epoch costs the base."""
        return self.base.relative_cost(epoch, epochs)

    def prefix(self, epochs: int) -> tuple[Method, int]:
        """Return snapshots of the prefix of the base."""
        base, until = self.base.prefix(epochs)
        assert isinstance(base, MemberMethod)
        return replace(self, base=base), until

    def start(self, member: Member) -> dict[str, Tensor]:
        """Return what the base keeps, which every member takes over from the last."""
        return self.base.start(member)

    def gradient(self, member: Member, batch: Batch) -> Gradient:
        """Return the gradient of the base."""
        return self.base.gradient(member, batch)

    def after_update(self, member: Member) -> None:
        """Do what the base does."""
        self.base.after_update(member)

    def finish(self, member: Member, dataset: Dataset[Any]) -> None:
        """Do what the base does."""
        self.base.finish(member, dataset)

    def summary(self, states: Sequence[Mapping[str, Tensor]]) -> dict[str, Any]:
        """Return what the base shows."""
        return self.base.summary(states)
