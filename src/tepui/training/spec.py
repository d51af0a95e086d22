"""Everything that a run can be told, as two frozen values.

:func:`tepui.fit` builds them from its keywords, studies keep them, the run folder
records them, and the command line has an option for each field, explained as here.
"""

import inspect
import math
from dataclasses import dataclass, field
from typing import Any, Literal, final

import torch

from tepui.core.checks import require
from tepui.core.members import for_member, lists_of
from tepui.core.spec import document, leaves, written
from tepui.core.types import check_fields
from tepui.data.augment import Augmentation, PerMember, policy_of
from tepui.data.mixing import Mixing
from tepui.losses import CrossEntropy, Loss
from tepui.methods.base import ExchangingMethod, MemberMethod, Method
from tepui.methods.coupled import CoupledMethod
from tepui.modules.pruning import Prune
from tepui.optim import Perturbation
from tepui.training.course import Course
from tepui.training.early_stopping import EarlyStopping
from tepui.training.numerics import CPUKernels, Precision
from tepui.training.optimizer import SGD, AdamW, Optimizer
from tepui.training.progress import Style
from tepui.training.schedule import Cosine, Schedule, as_schedule

Keep = Literal["last", "best"]
RunnerName = Literal["auto", "eager", "graph"]


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
        perturbation: Where sharpness-aware methods move the weights: along the
            ``"global"`` gradient of a batch, or each rank that shares it
            (``data_parallel``) along that of its ``"shard"`` (m-SAM).
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
    perturbation: Perturbation = "global"
    precision: Precision = "auto"
    early_stopping: EarlyStopping | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "schedule", as_schedule(self.schedule))
        method, optimizer, schedule = self.method, self.optimizer, self.schedule
        rule = f"be a method, such as {_called(method)}()"
        require(isinstance(method, Method), "method", rule, method)
        trains = isinstance(method, MemberMethod | CoupledMethod)
        rule = "derive from MemberMethod and define gradient(self, member, batch)"
        require(trains, "method", rule, method)
        rule = "be SGD(...), AdamW(...) or a function from parameters to an optimizer"
        builds = callable(optimizer) and not isinstance(
            optimizer, torch.optim.Optimizer
        )
        require(builds, "optimizer", rule, optimizer)
        rule = "be a schedule, such as Cosine(), or a function of the run's progress"
        require(isinstance(schedule, Schedule), "schedule", rule, schedule)
        object.__setattr__(self, "augment", policy_of(self.augment))
        check_fields(self)
        _require_positive(self, "epochs", "batch_size", "accumulate", "clip_norm")
        rule = "be an instance, such as CrossEntropy()"
        require(not isinstance(self.loss, type), "loss", rule, self.loss)
        require(_takes_two(self.loss), "loss", "take (outputs, targets)", self.loss)
        average, ema = self.average, self.ema
        rule = "be a share of the run in (0, 1]"
        require(average is None or 0 < average <= 1, "average", rule, average)
        require(ema is None or 0 < ema < 1, "ema", "lie in (0, 1)", ema)
        rule = "be None beside average, another mean of the weights"
        require(ema is None or average is None, "ema", rule, ema)
        if method.successive:
            rule = f"be None with {type(method).__name__}, whose members are one run"
            for name in ("average", "prune", "early_stopping", "part_at"):
                require(getattr(self, name) is None, name, rule, getattr(self, name))
        if self.part_at is not None:
            self._check_parting(self.part_at)
        coupled = isinstance(method, CoupledMethod)
        rule = "be 1 where members are coupled inside the loss"
        fits = self.accumulate == 1 or not coupled
        require(fits, "accumulate", rule, self.accumulate)
        for name, value in leaves(document(self)):
            finite = not isinstance(value, float) or math.isfinite(value)
            require(finite, name, "be finite", value)
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
        rule = "be None where members are coupled inside the loss"
        require(not isinstance(method, CoupledMethod), "part_at", rule, part_at)
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
        cpu_kernels: Whose convolutions and matrix products a CPU uses: those of
            ``"onednn"``, or torch's own (``"native"``), faster on some ARM processors;
            by default as torch is set.
        runner: ``"graph"`` replays captured steps on a GPU, all members side by side;
            ``"eager"`` runs members in turn; ``"auto"`` takes graphs where it can.
        compile: Compile forward passes; by default on a GPU where the run is long
            enough to repay it.
        workers: Processes that load data not held in tensors.
        offload: Keep only one member at a time on the device.
        data_parallel: Ranks that share every batch of a member, under torchrun.
        checkpoint_every: Epochs between checkpoints.
        stop_after: Leave after this many epochs, with a checkpoint to go on from.
        progress: How the run is shown to a person.
    """

    device: str | torch.device | None = None
    deterministic: bool = False
    cpu_kernels: CPUKernels | None = None
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
        stays = self.offload and self.runner == "graph"
        rule = 'be False with runner="graph", which keeps members on the device'
        require(not stays, "offload", rule, self.offload)


def _takes_two(loss: Loss) -> bool:
    try:
        inspect.signature(loss).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # written in C
        return True
    return True


def _called(method: object) -> str:
    """Return the class that was given in place of its instance, else an example."""
    if isinstance(method, type) and issubclass(method, Method):
        return method.__name__
    return "SAM"


def _require_positive(spec: Any, *names: str) -> None:
    for name in names:
        value = getattr(spec, name)
        require(value is None or value > 0, name, "be positive", value)
