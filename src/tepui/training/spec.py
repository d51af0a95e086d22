"""Everything that a run can be told, as two frozen values.

:func:`tepui.fit` builds them from its keywords, studies keep them, the run folder
records them, and the command line has an option for each field, explained as here.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, final

import torch

from tepui.core.checks import require
from tepui.core.members import for_member, lists_of
from tepui.core.spec import written
from tepui.core.types import check_fields
from tepui.data.augment import Augmentation, PerMember, policy_of
from tepui.data.mixing import Mixing
from tepui.losses import CrossEntropy, Loss
from tepui.methods.base import ExchangingMethod, MemberMethod, Method
from tepui.methods.coupled import CoupledMethod
from tepui.modules.pruning import Prune
from tepui.training.history import EarlyStopping
from tepui.training.numerics import Precision
from tepui.training.optimizer import SGD, AdamW, Cosine, Optimizer, Schedule
from tepui.training.progress import Style

Keep = Literal["last", "best"]
RunnerName = Literal["auto", "eager", "graph"]


class Stretch(NamedTuple):
    """The epochs in which a member trains."""

    first: int
    end: int  # the first epoch in which it does not train any more
    origin: int | None = None  # the member from which it goes on; None begins anew


@dataclass(frozen=True)
class Course:
    """Which members train in which epochs.

    All members train in all epochs; or the first one trains alone until members part,
    and the others go on from its weights; or members train one after the other, each
    from where its predecessor ended.

    Attributes:
        stretches: One per member, none of which begins before an earlier one.

    Example:
        >>> Course.parting(3, epochs=5, part_at=3).member_epochs()
        9
        >>> [*map(Course.successive(2, epochs=5).active, range(5))]
        [[0], [0], [1], [1], [1]]
    """

    stretches: tuple[Stretch, ...]

    @classmethod
    def parting(cls, members: int, epochs: int, part_at: int = 0) -> "Course":
        """Return that of members which are one until an epoch."""
        origin = 0 if part_at else None
        others = (Stretch(part_at, epochs, origin) for _ in range(1, members))
        return cls((Stretch(0, epochs), *others))

    @classmethod
    def successive(cls, members: int, epochs: int) -> "Course":
        """Return that of members which share the epochs, one after the other."""
        ends = [index * epochs // members for index in range(members + 1)]
        stretches = (
            Stretch(ends[index], ends[index + 1], index - 1)
            for index in range(1, members)
        )
        return cls((Stretch(0, ends[1]), *stretches))

    @cached_property
    def all_begin_anew(self) -> bool:
        """Whether no member goes on from another."""
        return all(stretch.origin is None for stretch in self.stretches)

    def active(self, epoch: int) -> list[int]:
        """Return the members that train in an epoch."""
        numbered = enumerate(self.stretches)
        return [index for index, each in numbered if each.first <= epoch < each.end]

    def following(self, epoch: int) -> list[int]:
        """Return the members that go on from another before an epoch."""
        return [
            index
            for index, stretch in enumerate(self.stretches)
            if stretch.origin is not None and stretch.first == epoch
        ]

    def begun(self, epoch: int) -> int:
        """Return how many members, the first ones, have begun in an epoch."""
        return sum(stretch.first <= epoch for stretch in self.stretches)

    def cycle(self, epoch: int) -> Stretch:
        """Return the epochs over which the schedule runs that an epoch is part of."""
        last = max(stretch.end for stretch in self.stretches) - 1
        return self.stretches[self.active(min(epoch, last))[0]]

    def member_epochs(self, first: int = 0, end: int | None = None) -> int:
        """Return for how many epochs members train, all of them together.

        Args:
            first: The first epoch that counts.
            end: The first one after it that does not count.
        """
        ends = [min(s.end, s.end if end is None else end) for s in self.stretches]
        firsts = [max(stretch.first, first) for stretch in self.stretches]
        return sum(max(0, e - f) for f, e in zip(firsts, ends, strict=True))


@final
@dataclass(frozen=True, kw_only=True)
class TrainingSpec:
    """What the weights depend on, beside data, seeds and model.

    Attributes:
        method: How to train.
        epochs: Length of the run.
        batch_size: Samples per step and member.
        loss: Returns one loss per sample.
        optimizer: Builds a torch optimizer from parameters.
        schedule: Learning rate over time.
        augment: Random changes of batches, in order, such as RandomCrop; or one
            policy of them for each member.
        keep: Each member's last weights, or its best by validation loss.
        accumulate: Split each batch into this many parts to save memory, of two samples
            at least.
        clip_norm: Bound on the norm of the gradient; by default 1 for GaussianNLL,
            none for other losses.
        prune: Remove each member's smallest weights, such as Prune with sparsity 0.9.
        average: Share of the run, at its end, over which each member's weights are
            averaged.
        ema: Decay of a moving average of each member's weights over the whole run,
            such as 0.999, which takes their place as ``average`` does.
        part_at: Epoch until which all members are one network, trained as the first
            one; each goes on from it with its own draws.
        precision: What forward passes compute in; ``"auto"`` is bfloat16 on a GPU and
            float32 elsewhere.
        early_stopping: End the run once a score of the validation data has not improved
            for some epochs, such as EarlyStopping with patience 5.
    """

    method: Method
    epochs: int
    batch_size: int = 64
    loss: Loss = field(default_factory=CrossEntropy)
    optimizer: Optimizer = field(default_factory=SGD)
    schedule: Schedule = field(default_factory=Cosine)
    augment: tuple[Augmentation, ...] | PerMember = ()
    keep: Keep = "last"
    accumulate: int = 1
    clip_norm: float | None = None
    prune: Prune | None = None
    average: float | None = None
    ema: float | None = None
    part_at: int | None = None
    precision: Precision = "auto"
    early_stopping: EarlyStopping | None = None

    def __post_init__(self) -> None:
        method, rule = self.method, "be a method, such as SAM()"
        trains = isinstance(method, MemberMethod | CoupledMethod)
        require(trains, "method", rule, method)
        rule = "be a schedule, such as Cosine()"
        require(isinstance(self.schedule, Schedule), "schedule", rule, self.schedule)
        object.__setattr__(self, "augment", policy_of(self.augment))
        check_fields(self)
        _require_positive(self, "epochs", "batch_size", "accumulate", "clip_norm")
        rule = "be an instance, such as CrossEntropy()"
        require(not isinstance(self.loss, type), "loss", rule, self.loss)
        average, ema = self.average, self.ema
        rule = "be a share of the run in (0, 1]"
        require(average is None or 0 < average <= 1, "average", rule, average)
        require(ema is None or 0 < ema < 1, "ema", "lie in (0, 1)", ema)
        rule = "be None beside average, another mean of the weights"
        require(ema is None or average is None, "ema", rule, ema)
        only: dict[str, int | None] = {}  # what a kind of method can have
        if method.successive:  # whose members are one run
            names = ("average", "prune", "early_stopping", "part_at")
            only = dict.fromkeys(names, None)
        if isinstance(method, CoupledMethod):  # whose members meet inside the loss
            only = {"accumulate": 1, "part_at": None}
        for name, value in only.items():
            rule, given = (
                f"be {value} with {type(method).__name__}",
                getattr(self, name),
            )
            require(given == value, name, rule, given)
        if self.part_at is not None:
            self._check_parting(self.part_at)
        self._check_augment()

    @property
    def policies(self) -> tuple[tuple[Augmentation, ...], ...]:
        """The augmentations of each member, or those that all share."""
        if isinstance(self.augment, PerMember):
            return self.augment.policies
        return (self.augment,)

    @property
    def views(self) -> int:
        """How many further views of a sample the loss compares with it."""
        loss = self.loss
        return 2 if isinstance(loss, CrossEntropy) and loss.consistency else 0

    def _check_parting(self, part_at: int) -> None:
        """Refuse members that cannot be one network until they part."""
        _require_positive(self, "part_at")
        rule = f"be less than epochs ({self.epochs})"
        require(part_at < self.epochs, "part_at", rule, part_at)
        method, prune = self.method, self.prune
        rule = "be no later than the first exchange of members"
        met = isinstance(method, ExchangingMethod) and any(
            method.exchanges_before(epoch, self.epochs) for epoch in range(part_at)
        )
        require(not met, "part_at", rule, part_at)
        rule = "be one for all members if they part later"
        early = prune is not None and prune.epoch(self.epochs) < part_at
        lists = {} if prune is None else lists_of(prune)
        require(not (early and lists), "sparsity of prune", rule, prune)

    def course(self, members: int) -> Course:
        """Return which of so many members train in which epochs."""
        if self.method.successive:
            return Course.successive(members, self.epochs)
        return Course.parting(members, self.epochs, self.part_at or 0)

    def costs(self, members: int) -> list[float]:
        """Return what each epoch costs all members, in passes of a member's data.

        Args:
            members: How many there are.

        Returns:
            About how many gradients a sample takes, one number per epoch.
        """
        course, epochs = self.course(members), self.epochs
        return [
            len(course.active(epoch))
            * self.method.relative_cost(epoch, epochs)
            * (1 + self.views)
            for epoch in range(epochs)
        ]

    def loss_of(self, member: int, members: int) -> Loss:
        """Return one member's loss, with its own values where they differ."""
        if isinstance(self.loss, CrossEntropy):
            return for_member(self.loss, member, members)
        return self.loss

    def optimizer_of(self, member: int, members: int) -> Optimizer:
        """Return one member's optimizer, with its own values where they differ."""
        if isinstance(self.optimizer, SGD | AdamW):
            return for_member(self.optimizer, member, members)
        return self.optimizer

    def _check_augment(self) -> None:
        """Refuse augmentations that fit neither method nor loss."""
        method, name = self.method, type(self.method).__name__
        coupled = isinstance(method, CoupledMethod)
        rule = f"be one policy for {name}, whose members share each batch"
        one = not isinstance(self.augment, PerMember)
        require(one or not coupled, "augment", rule, written(self.augment))
        for steps in self.policies:
            mixing = [type(step).__name__ for step in steps if isinstance(step, Mixing)]
            rule = "mix samples once, in its last step"
            last = not mixing or isinstance(steps[-1], Mixing)
            require(last and len(mixing) < 2, "augment", rule, written(steps))
            rule = f"not mix samples for {name}, which scores each by its own label"
            fits = not (mixing and method.scores_samples)
            require(fits, "augment", rule, ", ".join(mixing))
            rule = "have a step that is no mixing, to make views for consistency"
            fits = len(steps) > 0 and not mixing
            require(fits or not self.views, "augment", rule, written(steps))
        rule = (
            f"be 0 for {name}, which compares or scores samples by outputs of its own"
        )
        fits = not (self.views and (coupled or method.scores_samples))
        got = getattr(self.loss, "consistency", 0)
        require(fits, "consistency", rule, got)


@final
@dataclass(frozen=True, kw_only=True)
class ExecutionSpec:
    """How and where a run is carried out.

    ``runner`` says how steps run on a device that holds the members, ``offload`` that
    it holds one of them at a time (their steps then run eagerly, in turn). Which
    members this process trains at all is the business of an
    :class:`~tepui.training.Exchange`, beside which both work as they do without.

    Attributes:
        device: Where to train; a GPU if there is one.
        deterministic: Choose only algorithms that repeat to the bit.
        runner: ``"graph"`` replays captured steps on a GPU, all members side by side;
            ``"eager"`` runs members in turn; ``"auto"`` takes graphs where it can.
        compile: Compile forward passes; by default on a GPU where the run is long
            enough to repay it.
        workers: Processes that load a data set of your own.
        offload: Keep only one member at a time on the device.
        data_parallel: Ranks that share every batch of a member, under torchrun.
        checkpoint_every: Epochs between checkpoints.
        stop_after: Leave after this many epochs, with a checkpoint to go on from.
        progress: How the run is shown to a person.
    """

    device: str | torch.device | None = None
    deterministic: bool = False
    runner: RunnerName = "auto"
    compile: bool | None = None
    workers: int = 0
    offload: bool = False
    data_parallel: int = 1
    checkpoint_every: int = 1
    stop_after: int | None = None
    progress: Style = "auto"

    def __post_init__(self) -> None:
        check_fields(self)
        require(self.workers >= 0, "workers", "be non-negative", self.workers)
        _require_positive(self, "data_parallel", "checkpoint_every", "stop_after")


def _require_positive(spec: Any, *names: str) -> None:
    for name in names:
        value = getattr(spec, name)
        require(value is None or value > 0, name, "be positive", value)
