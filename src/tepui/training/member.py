"""One member in training: its passes, its optimizer, its place in the run."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import Tensor, nn

from tepui.core import foreach
from tepui.core.checks import require
from tepui.methods.base import Method
from tepui.modules.pruning import apply_masks, masks_in_state, prune_
from tepui.modules.sharing import frozen_names
from tepui.modules.state import load_tensor_state, tensor_state
from tepui.training.averaging import (
    averaged_tensors,
    means_of,
    start_average,
    update_average,
    update_moving_average,
)
from tepui.training.batches import BatchSplit
from tepui.training.numerics import Numerics
from tepui.training.optimizer import clip
from tepui.training.passes import MemberPasses


class TrainingDiverged(RuntimeError):  # noqa: N818 - what happened, in plain words
    """A loss became infinite or NaN."""

    remedy = (
        "with a lower learning rate, clip_norm=1 (--set clip_norm=1), or inputs and "
        "targets scaled to about 1"
    )


@dataclass(eq=False)
class Best:
    """The weights with the lowest validation loss so far."""

    loss: float = float("inf")
    epoch: int = -1  # the epoch after which it was measured
    weights: dict[str, Tensor] = field(default_factory=dict)  # what was trained, then


class TrainingMember(MemberPasses):
    """One member in training; methods see a :class:`~tepui.methods.Member` of it.

    What is not named here is an argument of :class:`MemberPasses`.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        index: int,
        seed: int,
        method: Method,
        optimizer: torch.optim.Optimizer,
        steps: int,
        numerics: Numerics,
        clip_norm: float | None = None,
        average: float | None = None,
        ema: float | None = None,
        offloaded: bool = False,
        **passes: Any,
    ) -> None:
        rate = optimizer.param_groups[0]["lr"]
        if not isinstance(rate, Tensor):
            rate = torch.tensor(rate, device=numerics.device)
        super().__init__(
            module, learning_rate=rate, seed=seed, autocast=numerics.autocast, **passes
        )
        self.index = index
        self.method = method
        self.optimizer = optimizer
        self.peak_rates = tuple(float(group["lr"]) for group in optimizer.param_groups)
        self.step = 0  # steps done since the start of the run
        # Of every step of the current epoch; NaN where a coupled member sat out.
        self.step_losses = torch.zeros(steps, device=numerics.device)
        # What coupled members descended together; one tensor for all of them.
        self.joint_losses: Tensor | None = None
        self.exchanged = -1  # the last epoch before which members exchanged something
        self.split: BatchSplit | None = None
        self.average: dict[str, Tensor] = {}
        self.best = Best()
        self._clip_norm = clip_norm
        self._average_share = average
        self._ema = ema
        self.offloaded = offloaded  # in host memory, between its turns
        self._started: dict[str, Tensor] = {}

    @property
    def device(self) -> torch.device:
        """Where the member is trained."""
        return self.step_losses.device

    def begin(self) -> None:
        """Let the method declare its state, at the member's first weights."""
        with self.on_device():
            self.adopt_state(dict(self.method.start(self)))
            if self._average_share is not None or self._ema is not None:
                self.average = start_average(self.module, self.progress)

    def check_state(self) -> None:
        """Raise if the method's state is not made of the tensors it began with."""
        names = self.state.keys() | self._started.keys()
        changed = [n for n in names if self.state.get(n) is not self._started.get(n)]
        if changed:
            what = f"state of {type(self.method).__name__}"
            rule = "keep the tensors that start returned and change them in place"
            require(False, what, rule, f"other tensors under {sorted(changed)}")

    def whole(self, module: nn.Module) -> None:
        """Take raw inputs from now on, by a module that holds the present one."""
        if module is not self.module:
            self._adopt(module)

    def trained_state(self) -> dict[str, Tensor]:
        """Return the module's state without what is frozen."""
        frozen, state = frozen_names(self.module), tensor_state(self.module)
        return {name: tensor for name, tensor in state.items() if name not in frozen}

    def load_trained(self, state: Mapping[str, Tensor], where: str) -> None:
        """Load a state that may lack what is frozen."""
        frozen, present = frozen_names(self.module), tensor_state(self.module)
        kept = {name: present[name] for name in frozen if name not in state}
        load_tensor_state(self.module, {**kept, **state}, where)

    def clone(self, shared: Sequence[Tensor] = ()) -> Self:
        """Return a member with copies of all that this one changes in a step.

        Args:
            shared: Frozen tensors of which it holds no copies.
        """
        alone = {id(tensor): tensor for tensor in shared}
        module, optimizer = copy.deepcopy((self.module, self.optimizer), alone)
        # A copied optimizer forgets what its constructor noted of capturing, and warns.
        for name, value in vars(self.optimizer).items():
            vars(optimizer).setdefault(name, value)
        clone = copy.copy(self)
        clone._adopt(module)
        clone.optimizer = optimizer
        rate = optimizer.param_groups[0]["lr"]
        is_tensor = isinstance(rate, Tensor)
        clone.learning_rate = rate if is_tensor else self.learning_rate.clone()
        clone.progress = self.progress.clone()
        clone.average = {name: t.clone() for name, t in self.average.items()}
        clone.adopt_state({name: t.clone() for name, t in self.state.items()})
        clone.best = Best()
        return clone

    def adopt_state(self, state: dict[str, Tensor]) -> None:
        """Keep the method's state in other tensors from now on."""
        self.state, self._started = state, dict(state)

    @contextmanager
    def on_device(self) -> Iterator[None]:
        """Keep the member on the training device inside the block."""
        if not self.offloaded:
            yield
            return
        self._move(self.device)
        try:
            yield
        finally:
            self.offload()

    def offload(self) -> None:
        """Leave the training device, where the member waits elsewhere."""
        if self.offloaded:
            self._move(torch.device("cpu"))

    def _move(self, device: torch.device) -> None:
        self.module.to(device)
        for parameter, entries in self.optimizer.state.items():
            for name, value in entries.items():
                if isinstance(value, Tensor) and value.shape == parameter.shape:
                    entries[name] = value.to(device)
        # The tensors stay the same objects, as check_state asks of the method's.
        for kept in (self.state, self.average, self.best.weights):
            for tensor in kept.values():
                tensor.data = tensor.data.to(device)

    def set_time(self, factor: float, progress: float) -> None:
        """Set what follows from the step: learning rate and share of the run done."""
        rates = self.rates(factor)
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        self.learning_rate.fill_(rates[0])
        self.progress.fill_(progress)

    def set_time_from(self, row: Tensor) -> None:
        """Set it from the rates and the progress of a step, on the device."""
        for group, rate in zip(self.optimizer.param_groups, row, strict=False):
            if isinstance(group["lr"], Tensor):
                group["lr"].copy_(rate)
        self.learning_rate.copy_(row[0])
        self.progress.copy_(row[-1])

    def rates(self, factor: float) -> list[float]:
        """Return the learning rates of all groups at a share of their peaks."""
        return [peak * factor for peak in self.peak_rates]

    def take_step(self, gradients: list[Tensor]) -> None:
        """Apply a gradient, and do what follows every update."""
        self.update(gradients)
        self.method.after_update(self)
        if self.sparse:
            apply_masks(self.module)
        if self._average_share is not None:
            tensors, start = averaged_tensors(self.module), 1 - self._average_share
            update_average(self.average, tensors, self.progress, start)
        if self._ema is not None:
            tensors = averaged_tensors(self.module)
            update_moving_average(self.average, tensors, self._ema)
        self.check_state()

    def update(self, gradients: list[Tensor]) -> None:
        """Apply a gradient; pruned weights stay zero whatever the optimizer does."""
        if self._clip_norm is not None:
            clip(gradients, self._clip_norm)
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = _laid_out_like(parameter, gradient)
        self.optimizer.step()
        for parameter in self.parameters:
            parameter.grad = None
        if self.sparse:
            apply_masks(self.module)

    def prune(self, sparsity: float) -> None:
        """Remove the smallest weights; what was best before counts no more."""
        with self.on_device():
            prune_(self.module, sparsity)
            if self.average:
                means = means_of(self.average)[: len(self.parameters)]
                foreach.copy_(means, self.masked(means))
        self.best = Best()

    def keep_best(self, loss: float, epoch: int) -> None:
        """Keep a copy of the weights if they are the best so far."""
        if loss < self.best.loss:
            state = self.trained_state()
            copies = {name: tensor.detach().clone() for name, tensor in state.items()}
            self.best = Best(loss, epoch, copies)

    def divergence(self, first_step: int) -> str | None:
        """Return what is not finite in the current epoch, and since which step."""
        said = f"of member {self.index} must stay finite, got"
        joint = self.joint_losses
        recorded = self.step_losses if joint is None else joint
        losses = recorded[: self.step - first_step]
        bad = (~torch.isfinite(losses)).nonzero()
        if len(bad):
            at = int(bad[0])
            return f"loss {said} {float(losses[at])} at step {first_step + at}"
        tensors = [p.detach() for p in self.parameters]
        # A finite sum has finite terms only; an infinite one may be an overflow.
        if bool(torch.stack([t.sum() for t in tensors]).isfinite().all()):
            return None
        if bool(torch.stack([t.isfinite().all() for t in tensors]).all()):
            return None
        return f"weights {said} infinite or NaN values at step {self.step - 1}"


def _laid_out_like(parameter: Tensor, gradient: Tensor) -> Tensor:
    """Return a gradient with the strides of its parameter, as fused updates need."""
    if gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)


def tensors_of(member: TrainingMember) -> dict[str, Tensor]:
    """Return every tensor that a resumed run needs, but for what is frozen."""
    joint = member.joint_losses
    return {
        "losses": member.step_losses,
        **({} if joint is None else {"joint": joint}),
        **_prefixed("module", member.trained_state()),
        **_prefixed("best", member.best.weights),
        **_prefixed("method", member.state),
        **_prefixed("average", member.average),
        **{
            f"optimizer/{name}": value
            for name, value in _optimizer_state(member.optimizer)
            if isinstance(value, Tensor)
        },
    }


def document_of(member: TrainingMember) -> dict[str, Any]:
    """Return everything else that a resumed run needs."""
    best = [member.best.loss, member.best.epoch] if member.best.weights else None
    numbers = {
        name: value
        for name, value in _optimizer_state(member.optimizer)
        if isinstance(value, bool | int | float)
    }
    return {
        "step": member.step,
        "exchanged": member.exchanged,
        "best": best,
        "optimizer": numbers,
    }


def restore(
    member: TrainingMember,
    tensors: Mapping[str, Tensor],
    document: dict[str, Any],
    *,
    branches: bool = False,
) -> None:
    """Put back what :func:`tensors_of` and :func:`document_of` took out.

    A run that branches off one whose method kept no state begins with its own, and one
    that will be pruned with its own masks.
    """
    where = f"checkpoint of member {member.index}"
    masks = masks_in_state(member.module) if branches else {}
    member.load_trained({**masks, **under("module/", tensors)}, where)
    member.step_losses.copy_(tensors["losses"])
    if member.joint_losses is not None:
        member.joint_losses.copy_(tensors["joint"])
    member.step = document["step"]
    member.exchanged = document["exchanged"]
    if document["best"] is not None:
        weights = {**masks, **under("best/", tensors)}
        copies = {name: tensor.to(member.device) for name, tensor in weights.items()}
        loss, epoch = document["best"]
        member.best = Best(loss, epoch, copies)
    state = under("method/", tensors)
    if state or not branches:
        _refill(member.state, state, f"method's state in {where}")
    _refill(member.average, under("average/", tensors), f"average in {where}")
    restore_optimizer(
        member.optimizer, {**under("optimizer/", tensors), **document["optimizer"]}
    )
    member.offload()


def restore_optimizer(
    optimizer: torch.optim.Optimizer, values: Mapping[str, Any]
) -> None:
    """Give an optimizer its state, in the memory that a captured graph reads."""
    state: dict[int, dict[str, Any]] = {}
    for name, value in values.items():
        number, key = name.split("/", 1)
        state.setdefault(int(number), {})[key] = value
    groups = optimizer.state_dict()["param_groups"]
    rates = [group["lr"] for group in optimizer.param_groups]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
    # A captured graph reads this very tensor.
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
    # Fused optimizers compute wrong updates, silently, when a buffer lies in another
    # memory format than its parameter.
    for parameter, entries in optimizer.state.items():
        for key, value in entries.items():
            if isinstance(value, Tensor) and value.shape == parameter.shape:
                entries[key] = torch.empty_like(parameter).copy_(value).detach()


def _refill(
    tensors: Mapping[str, Tensor], saved: Mapping[str, Tensor], what: str
) -> None:
    """Copy saved values into existing tensors."""
    now, then = ({n: [*t.shape] for n, t in x.items()} for x in (tensors, saved))
    require(now == then, what, f"hold tensors of the shapes {now}", then)
    for name, tensor in tensors.items():
        tensor.copy_(saved[name])


def _optimizer_state(optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, Any]]:
    for number, entries in optimizer.state_dict()["state"].items():
        for name, value in entries.items():
            yield f"{number}/{name}", value


def _prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def under(start: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names begin so, by what follows.

    Example:
        >>> under("a/", {"a/b": torch.zeros(1), "c": torch.ones(1)})
        {'b': tensor([0.])}
    """
    return {
        name.removeprefix(start): tensor
        for name, tensor in tensors.items()
        if name.startswith(start)
    }
