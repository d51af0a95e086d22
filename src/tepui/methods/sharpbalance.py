r"""SharpBalance: members that are flat on different samples, chosen by the others.

Plain SAM makes members flat but alike. Here member :math:`i` minimizes

.. math::
    L(D_N^i; \theta_i) + \max_{\lVert e \rVert \le \rho} L(D_S^i; \theta_i + e),

where :math:`D_S^i` holds the samples that the *other* members select by their
sharpness, with some that nobody selects, and :math:`D_N^i` the rest. Until
``switch_at`` all members train with plain gradients, as a deep ensemble would, or with
full SAM, as published (``before="sam"``); then every member scores all samples by the
trace of their Fisher matrix, selects the extreme ones, and the sets of
:mod:`tepui.methods.sets` follow from all selections together.

A step weighs the plain gradient on normal samples by :math:`|D_N^i|/n` and the
sharpness-aware gradient on the others by :math:`|D_S^i|/n`. With *stratified* batches
every batch holds the same number of samples from either set, so that shapes never
change; the gradient's expectation is that of the objective all the same. Without,
batches are drawn from all data and split by membership, as published, with weights by
the share of each part in its batch; a single sample, which BatchNorm could not
normalize, goes with the others. Each part is normalized with its own statistics.

Differs between paper and released code (both are presets): the paper selects the
highest scores and leaves unselected samples normal; the code selects the lowest, gives
a part of the unselected samples to the sharpness-aware set (``split``, ``boost``),
lets perturbed passes update BatchNorm's statistics, and switches one epoch later than
its option says. The paper does not define when to switch.
The default has the released code's sets for CIFAR-10, in stratified batches: they gave
the higher accuracy on corrupted images of CIFAR-10 whenever both were compared. It
begins plainly, at three quarters of the passes. In 12 epochs a deep ensemble is better.
For the same price a deep ensemble can train half again as many epochs, which gained as
much on corrupted images and more on clean ones (two seeds). Its radius is a quarter of
the published 0.2, which cost a point of accuracy in runs of 40 epochs and six in 12.

References:
    Lu et al., Sharpness-diversity tradeoff: improving flat ensembles with
    SharpBalance, NeurIPS 2024.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, final

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from tepui.core import foreach
from tepui.core.checks import one_of, require
from tepui.core.members import check_moment, epoch_of
from tepui.core.warning import warn
from tepui.data.arrays import Batch, Division
from tepui.data.loading import length
from tepui.methods.base import ExchangingMethod, Method
from tepui.methods.deep_ensemble import DeepEnsemble
from tepui.methods.gsam import GSAM
from tepui.methods.member import Gradient, Member
from tepui.methods.sam import SAM
from tepui.methods.sets import (
    Leftover,
    extreme_samples,
    random_samples,
    sharpness_aware_set,
)
from tepui.sharpness import (
    sample_fisher_trace,
    sample_hessian_trace,
    sample_sam_gap,
    sample_worst_case_gap,
)

Before = Literal["sam", "plain"]
Select = Literal["highest", "lowest", "random", "same"]
Score = Callable[[nn.Module, Dataset[Any]], Tensor]
ScoreName = Literal["fisher", "sam_gap", "worst_case", "hessian_trace"]

# The radius of a base does not count; this one is on record in runs with plain SAM.
PLAIN_SAM = SAM(rho=0.05)

PUBLISHED_RHO = 0.2
# Fraction and leftover rule of the released code, by data set.
RELEASED: dict[str, tuple[float, Leftover]] = {
    "cifar10": (0.4, "boost"),
    "cifar100": (0.5, "split"),
    "tiny_imagenet": (0.3, "split"),
}


@final
@dataclass(frozen=True, kw_only=True)
class SharpBalance(ExchangingMethod):
    """Members that are flat on samples that the others select.

    Attributes:
        rho: Length of the perturbation; longer runs bear larger ones. In 40 epochs of
            CIFAR-10 and CIFAR-100 0.02 cost nothing and 0.1 a little. Where data
            shift, only labeled samples of the shift can choose.
        fraction: Share of the samples that each member selects.
        switch_at: When members score the data and the sets begin to matter: an
            epoch, or a share of the run.
        before: How members train until then: with ``"plain"`` gradients, or all samples
            with ``"sam"``, as published, which costs twice as much; on clean CIFAR-10
            that lost half a point in 12 epochs and gained 0.15 in 40.
        select: Which scores a member selects; ``"random"`` gives every member a random
            set of its own and ``"same"`` one random set to all, as controls.
        leftover: What happens to samples that no member selected; without effect on
            random sets.
        score: How samples are scored: by a name, or by a callable of a module and a
            data set that returns one score per sample.
        base: The sharpness-aware step; its ``rho`` is the one given here.
        refresh_every: Score again every so many epochs after the switch; five ensembles
            could not tell whether this helps.
        stratified: Draw batches of fixed composition; else split each batch by
            membership, as published.
        off_by_one: Switch one epoch later, as the released code does.
    """

    rho: float = 0.05
    fraction: float = 0.4
    switch_at: int | float = 0.5
    before: Before = "plain"
    select: Select = "lowest"
    leftover: Leftover = "boost"
    score: ScoreName | Score = "fisher"
    base: SAM | GSAM = PLAIN_SAM
    refresh_every: int | None = None
    stratified: bool = True
    off_by_one: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.rho >= 0, "rho", "be non-negative", self.rho)
        require(0 < self.fraction <= 1, "fraction", "lie in (0, 1]", self.fraction)
        check_moment("switch_at", self.switch_at)
        never = isinstance(self.switch_at, float) and self.switch_at == 1
        rule = "be a share below 1: at the end of the run the sets have no effect"
        require(not never, "switch_at", rule, self.switch_at)
        rule = "have start_at = 0: switch_at is when SharpBalance starts"
        require(self.base.start_at == 0, "base", rule, self.base)
        if isinstance(self.base, SAM) and self.base.rho == SAM().rho:
            object.__setattr__(self, "base", replace(self.base, rho=PLAIN_SAM.rho))
        usual = PLAIN_SAM if isinstance(self.base, SAM) else type(self.base)()
        radii = (usual.rho, self.rho)
        rule = f"leave its radius to rho ({self.rho}), which is the one that counts"
        require(self.base.rho in radii, "base", rule, self.base)
        require(
            self.refresh_every is None or self.refresh_every > 0,
            "refresh_every",
            "be positive",
            self.refresh_every,
        )

    @classmethod
    def paper(cls, **changes: Any) -> Self:
        """Return the method as the paper describes it.

        Args:
            changes: Fields to set otherwise.

        Returns:
            SAM until the switch, the highest scores, nothing of the leftover, a radius
            of 0.2.
        """
        sets = {"select": "highest", "leftover": "none"}
        return cls(**{"rho": PUBLISHED_RHO, "before": "sam", **sets, **changes})

    @classmethod
    def released(cls, dataset: str = "cifar10", **changes: Any) -> Self:
        """Return the method as the released code runs it.

        Args:
            dataset: ``"cifar10"``, ``"cifar100"`` or ``"tiny_imagenet"``, on which
                fraction and leftover rule depend.
            changes: Fields to set otherwise.

        Returns:
            SAM until the switch, the lowest scores, a part of the leftover, a radius of
            0.2, batches split by membership, perturbed passes that update BatchNorm's
            statistics, and the switch one epoch late.
        """
        one_of("dataset", dataset, RELEASED)
        fraction, leftover = RELEASED[dataset]
        values: dict[str, Any] = {
            "rho": PUBLISHED_RHO,
            "before": "sam",
            "fraction": fraction,
            "leftover": leftover,
            "select": "lowest",
            "base": SAM(update_statistics=True),
            "stratified": False,
            "off_by_one": True,
        }
        return cls(**{**values, **changes})

    @property
    def fixed_shapes(self) -> bool:
        """Whether every step meets the same shapes."""
        return self.stratified

    @property
    def scores_samples(self) -> bool:
        """Whether members select samples by their scores."""
        return self.select in ("lowest", "highest")

    def first_exchange(self, epochs: int) -> int:
        """Return the epoch before which members score the data.

        Args:
            epochs: Length of the run.

        Returns:
            The epoch; the length of the run or one more if that never comes, which is
            warned of in training.

        Raises:
            ValueError: If ``switch_at`` lies past the end of the run.
        """
        return epoch_of("switch_at", self.switch_at, epochs) + self.off_by_one

    def relative_cost(self, epoch: int, epochs: int) -> float:
        """Return one gradient, another on the samples of the set, and one to score."""
        if epoch < self.first_exchange(epochs):
            return 2.0 if self.before == "sam" else 1.0
        scores = self.exchanges_before(epoch, epochs)
        # Others select apart from each other; with three members, twice the fraction.
        return 1.0 + min(1.0, 2 * self.fraction) + float(scores)

    def prefix(self, epochs: int) -> tuple[Method, int]:
        """Return a deep ensemble or plain SAM, until members score the data."""
        before = self._base if self.before == "sam" else DeepEnsemble()
        return before, min(self.first_exchange(epochs), epochs)

    def exchanges_before(self, epoch: int, epochs: int) -> bool:
        """Return whether members score the data before this epoch."""
        since = epoch - self.first_exchange(epochs)
        if self.refresh_every is None:
            return since == 0
        return since >= 0 and since % self.refresh_every == 0

    def start(self, member: Member) -> dict[str, Tensor]:
        """Begin with no samples in the sharpness-aware set, or with all."""
        device, sharp = member.learning_rate.device, self.before == "sam"
        return {
            "sharp": torch.full((member.samples,), sharp, device=device),
            "switched": torch.zeros((), dtype=torch.bool, device=device),
        }

    def publish(
        self,
        member: Member,
        index: int,
        dataset: Dataset[Any],
        generator: torch.Generator,
    ) -> Tensor:
        """Return the samples that this member selects."""
        if self.select in ("random", "same"):
            return random_samples(length(dataset), self.fraction, generator)
        with warnings.catch_warnings():
            if index > 0 or bool(member.state["switched"]):  # the first has said it
                warnings.filterwarnings("ignore", ".*the Fisher trace of")
            scores = self._scores(member, dataset, generator)
        bad = int((~torch.isfinite(scores)).sum())
        require(
            bad == 0, f"scores of member {index}", "be finite", f"{bad} that are not"
        )
        highest = self.select == "highest"
        return extreme_samples(scores, self.fraction, generator, highest=highest)

    def receive(
        self,
        member: Member,
        index: int,
        published: Sequence[Tensor],
        generator: torch.Generator,
    ) -> None:
        """Build this member's sharpness-aware set from all selections."""
        selected = torch.stack(list(published))
        if self.select == "random":
            sharp = selected[index]
        elif self.select == "same":
            sharp = random_samples(selected.shape[1], self.fraction, generator)
        elif len(selected) == 1:
            warn(
                "SharpBalance needs other members: a single one trains with SAM",
            )
            sharp = torch.ones_like(selected[0])
        else:
            sharp = sharpness_aware_set(selected, index, self.leftover)
        member.state["sharp"].copy_(sharp)
        member.state["switched"].fill_(True)

    def divides_by(self, member: Member) -> Tensor | None:
        """Return the sharpness-aware set, if batches are to reflect it."""
        return member.state["sharp"] if self.stratified else None

    def gradient(self, member: Member, batch: Batch) -> Gradient:
        """Return SAM's or the plain gradient before the switch, the mixed one after."""
        if not self.stratified:
            batch = _divided(batch, member.state["sharp"][batch.index])
        if batch.division is None or batch.division.share == 1:
            return self._base.gradient(member, batch)
        if batch.division.share == 0:
            return member.gradient(batch)
        sharp, normal = batch.parts()
        plain, here = member.gradients(normal, sharp)
        aware = self._base.perturbed(member, sharp, here)
        share = batch.division.share
        values = foreach.interpolate(plain.values, aware.values, share)
        return Gradient(plain.loss.lerp(aware.loss, share), values)

    def summary(self, states: Sequence[Mapping[str, Tensor]]) -> dict[str, Any]:
        """Return sizes of the sharpness-aware sets and how they overlap."""
        if not any(state["switched"] for state in states):
            return {}
        masks = torch.stack([state["sharp"].float() for state in states])
        common = masks @ masks.t()
        joined = masks.sum(1)[:, None] + masks.sum(1) - common
        return {
            "samples": masks.shape[1],
            "sizes": [int(size) for size in masks.sum(1)],
            "overlaps": (common / joined.clamp(min=1)).tolist(),
        }

    @property
    def _base(self) -> SAM | GSAM:
        return replace(self.base, rho=self.rho)

    def _scores(
        self, member: Member, dataset: Dataset[Any], generator: torch.Generator
    ) -> Tensor:
        if callable(self.score):
            return self.score(member.module, dataset)
        if self.score == "fisher":
            return sample_fisher_trace(member.module, dataset, loss=member.loss)
        if self.score == "sam_gap":
            return sample_sam_gap(
                member.module, dataset, rho=self.rho, loss=member.loss
            )
        if self.score == "worst_case":
            gap = sample_worst_case_gap
            return gap(member.module, dataset, rho=self.rho, loss=member.loss)
        trace = sample_hessian_trace
        return trace(member.module, dataset, generator=generator, loss=member.loss)


def _divided(batch: Batch, sharp: Tensor) -> Batch:
    """Divide a batch by membership, with weights by the share of each part in it."""
    inside = _without_single(sharp)
    rows = int(inside.sum())
    if rows not in (0, len(inside)):
        batch = batch.take((~inside).to(torch.uint8).argsort(stable=True))
    return batch._replace(division=Division(rows, rows / len(inside)))


def _without_single(inside: Tensor) -> Tensor:
    """Return the division of a batch, with a part of one sample joined to the other."""
    count = int(inside.sum())
    if len(inside) == 1:
        return inside
    if count == 1:
        return torch.zeros_like(inside)
    return torch.ones_like(inside) if count == len(inside) - 1 else inside
