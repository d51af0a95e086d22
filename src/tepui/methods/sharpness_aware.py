"""The kind of method that perturbs weights, which other methods use as their base."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from tepui.core.members import check_moment, epoch_of, per_member, require_each
from tepui.data.arrays import Batch
from tepui.methods.base import MemberMethod, Method
from tepui.methods.deep_ensemble import DeepEnsemble
from tepui.methods.member import Gradient, Member
from tepui.optim import sam_perturbation

BEFORE_START = "before start_at"  # a phase


@dataclass(frozen=True, kw_only=True)
class SharpnessAware(MemberMethod):
    """A method that takes its gradient at weights moved uphill.

    Other methods use one as their ``base``.

    Attributes:
        rho: Length of the perturbation; one value, or one per member.
        adaptive: Measure the perturbation relative to each weight (ASAM).
        update_statistics: Let the perturbed pass update BatchNorm's running
            statistics too.
        start_at: When perturbing begins, an epoch or a share of the run; plain
            gradients before.
    """

    rho: float | tuple[float, ...] = per_member(0.02)
    adaptive: bool = False
    update_statistics: bool = False
    start_at: int | float = 0

    def __post_init__(self) -> None:
        check_moment("start_at", self.start_at)
        super().__post_init__()
        require_each(lambda rho: rho >= 0, "rho", "be non-negative", self.rho)

    def phase(self, epoch: int, epochs: int) -> str:
        """Return ``"before start_at"`` until then."""
        start = epoch_of("start_at", self.start_at, epochs)
        return BEFORE_START if epoch < start else "main"

    def relative_cost(self, epoch: int, epochs: int) -> float:
        """Return two gradients, one until ``start_at``."""
        return 1.0 if self.phase(epoch, epochs) == BEFORE_START else 2.0

    def prefix(self, epochs: int) -> tuple[Method, int]:
        """Return a deep ensemble until ``start_at``, if there is such a beginning.

        A subclass that does more than perturb begins like itself alone.
        """
        start = epoch_of("start_at", self.start_at, epochs)
        kind = type(self)
        more = (
            kind.start is not Method.start
            or kind.after_update is not Method.after_update
            or kind.gradient is not SharpnessAware.gradient
        )
        return (self, epochs) if more or start == 0 else (DeepEnsemble(), start)

    def gradient(self, member: Member, batch: Batch) -> Gradient:
        """Return the loss here and the gradient that the perturbed weights give."""
        here = member.gradient(batch)
        return self.perturbed(member, batch, here) if self.perturbs(member) else here

    def perturbs(self, member: Member) -> bool:
        """Return whether a member's weights are to be moved in its present phase.

        Args:
            member: The member.

        Returns:
            False until ``start_at``.
        """
        return self.start_at == 0 or member.phase != BEFORE_START

    def perturbed(self, member: Member, batch: Batch, here: Gradient) -> Gradient:
        """Return the sharpness-aware gradient, reusing the unperturbed one.

        Args:
            member: The member.
            batch: The samples.
            here: Their loss and gradient at the member's weights.

        Returns:
            The loss here and the gradient to step along.
        """
        offsets = self.offsets(member, here.values)
        with member.moved(offsets, update_buffers=self.update_statistics):
            perturbed = member.gradient(batch).values
        return Gradient(here.loss, self.combined(here.values, perturbed))

    def offsets(self, member: Member, values: Sequence[Tensor]) -> list[Tensor]:
        """Return how far the weights move uphill.

        Args:
            member: The member.
            values: The gradient at its weights.

        Returns:
            One offset per trainable parameter, of joint length :meth:`radius`.
        """
        radius = self.radius(member)
        return sam_perturbation(member.parameters, values, radius, self.adaptive)

    def radius(self, member: Member) -> float | Tensor:
        """Return the length of the perturbation at this step."""
        assert not isinstance(self.rho, tuple), "resolve with for_member first"
        return self.rho

    @abstractmethod
    def combined(
        self, here: Sequence[Tensor], perturbed: Sequence[Tensor]
    ) -> list[Tensor]:
        """Return the gradient to step along from those at both points.

        Args:
            here: The gradient at the member's weights.
            perturbed: The gradient at the perturbed weights.

        Returns:
            One tensor per trainable parameter.
        """
