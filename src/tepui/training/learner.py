"""A member with its optimizer, its place in the run and its best weights."""

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from tepui.methods.base import Method
from tepui.methods.member import Member
from tepui.modules.pruning import apply_masks, prune_
from tepui.modules.state import load_tensor_state, tensor_state
from tepui.training.optimizer import clip


class TrainingDiverged(RuntimeError):  # noqa: N818 - what happened, in plain words
    """A loss became infinite or NaN."""


@dataclass(eq=False)
class Best:
    """The weights with the lowest validation loss so far.

    Attributes:
        loss: That loss.
        epoch: The epoch after which it was measured.
        weights: The module's state then.
    """

    loss: float = float("inf")
    epoch: int = -1
    weights: dict[str, Tensor] = field(default_factory=dict)


@dataclass(eq=False)
class Learner:
    """One member in training, as the engine sees it.

    Attributes:
        index: Position in the ensemble.
        seed: What its draws derive from.
        method: The method, with this member's hyperparameters.
        member: What the method works on.
        optimizer: Applies gradients.
        losses: Loss of every step of the current epoch, on the device.
        clip_norm: Bound on the gradient's norm, if any.
        step: Steps done since the start of the run.
        exchanged: The last epoch before which members exchanged something.
        home: Where the member rests between its turns, if not on the device.
        best: Best weights, where they are kept.
    """

    index: int
    seed: int
    method: Method
    member: Member
    optimizer: torch.optim.Optimizer
    losses: Tensor
    clip_norm: float | None
    step: int = 0
    exchanged: int = -1
    home: torch.device | None = None
    best: Best = field(default_factory=Best)

    def __post_init__(self) -> None:
        self._peak_rates = [float(group["lr"]) for group in self.optimizer.param_groups]

    @property
    def peak_rates(self) -> tuple[float, ...]:
        """The learning rates before any schedule, one per parameter group."""
        return tuple(self._peak_rates)

    def clone(self) -> "Learner":
        """Return a learner with copies of this one's module and optimizer."""
        module, optimizer = copy.deepcopy((self.member.module, self.optimizer))
        # A copied optimizer forgets what its constructor noted of capturing, and warns.
        for name, value in vars(self.optimizer).items():
            vars(optimizer).setdefault(name, value)
        rate = optimizer.param_groups[0]["lr"]
        if not isinstance(rate, Tensor):
            rate = self.member.learning_rate.clone()
        member = self.member.clone(module, rate)
        clone = replace(self, member=member, optimizer=optimizer, best=Best())
        clone._peak_rates = list(self._peak_rates)  # not today's
        return clone

    @contextmanager
    def present(self) -> Iterator[None]:
        """Keep the member on the training device inside the block."""
        if self.home is None:
            yield
            return
        self._move(self.losses.device)
        try:
            yield
        finally:
            self.rest()

    def rest(self) -> None:
        """Leave the training device, where the member rests elsewhere."""
        if self.home is not None:
            self._move(self.home)

    def _move(self, device: torch.device) -> None:
        self.member.module.to(device)
        for parameter, entries in self.optimizer.state.items():
            for name, value in entries.items():
                if isinstance(value, Tensor) and value.shape == parameter.shape:
                    entries[name] = value.to(device)

    def set_time(self, factor: float, progress: float) -> None:
        """Set what follows from the step: learning rate and share of the run done."""
        rates = [peak * factor for peak in self._peak_rates]
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        self.member.learning_rate.fill_(rates[0])
        self.member.progress.fill_(progress)

    def update(self, gradients: list[Tensor]) -> None:
        """Apply a gradient; pruned weights stay zero whatever the optimizer does."""
        if self.clip_norm is not None:
            clip(gradients, self.clip_norm)
        for parameter, gradient in zip(self.member.parameters, gradients, strict=True):
            parameter.grad = _laid_out_like(parameter, gradient)
        self.optimizer.step()
        for parameter in self.member.parameters:
            parameter.grad = None
        if self.member.sparse:
            apply_masks(self.member.module)

    def check_finite(
        self, first_step: int, factor: Callable[[int], float], checkpoint: str
    ) -> None:
        """Raise if a loss of the current epoch, or a weight, is not finite."""
        losses = self.losses[: self.step - first_step]
        bad = (~torch.isfinite(losses)).nonzero()
        if len(bad):
            at = int(bad[0])
            what, value, step = "loss", f"{float(losses[at])}", first_step + at
        elif not self._has_finite_weights():
            what, value, step = "weights", "infinite or NaN values", self.step - 1
        else:
            return
        rate = self._peak_rates[0] * factor(step)
        raise TrainingDiverged(
            f"{what} of member {self.index} must stay finite, got {value} at step "
            f"{step} with learning rate {rate:g}; {checkpoint}"
        )

    def _has_finite_weights(self) -> bool:
        tensors = [p.detach() for p in self.member.parameters]
        # A finite sum has finite terms only; an infinite one may be an overflow.
        if bool(torch.stack([t.sum().isfinite() for t in tensors]).all()):
            return True
        return bool(torch.stack([t.isfinite().all() for t in tensors]).all())

    def keep_best(self, loss: float, epoch: int) -> None:
        """Keep a copy of the weights if they are the best so far."""
        if loss < self.best.loss:
            state = tensor_state(self.member.module)
            copies = {name: tensor.detach().clone() for name, tensor in state.items()}
            self.best = Best(loss, epoch, copies)

    def prune(self, sparsity: float) -> None:
        """Remove the smallest weights; what was best before counts no more."""
        with self.present():
            prune_(self.member.module, sparsity)
        self.best = Best()

    def tensors(self) -> dict[str, Tensor]:
        """Return every tensor that a resumed run needs."""
        return {
            "losses": self.losses,
            **_prefixed("module", tensor_state(self.member.module)),
            **_prefixed("best", self.best.weights),
            **_prefixed("method", self.member.state),
            **{
                f"optimizer/{name}": value
                for name, value in self._optimizer_state()
                if isinstance(value, Tensor)
            },
        }

    def document(self) -> dict[str, Any]:
        """Return everything else that a resumed run needs."""
        best = [self.best.loss, self.best.epoch] if self.best.weights else None
        numbers = {
            name: value
            for name, value in self._optimizer_state()
            if isinstance(value, bool | int | float)
        }
        return {
            "step": self.step,
            "exchanged": self.exchanged,
            "best": best,
            "optimizer": numbers,
        }

    def restore(self, tensors: Mapping[str, Tensor], document: dict[str, Any]) -> None:
        """Take up the state that :meth:`tensors` and :meth:`document` describe."""
        module, device = self.member.module, self.losses.device
        where = f"checkpoint of member {self.index}"
        load_tensor_state(module, _under("module", tensors), where)
        self.losses.copy_(tensors["losses"])
        self.step = document["step"]
        self.exchanged = document["exchanged"]
        if document["best"] is not None:
            weights = _under("best", tensors)
            copies = {name: tensor.to(device) for name, tensor in weights.items()}
            loss, epoch = document["best"]
            self.best = Best(loss, epoch, copies)
        for name, tensor in _under("method", tensors).items():
            self.member.state[name] = tensor.to(device)
        self._restore_optimizer(
            {**_under("optimizer", tensors), **document["optimizer"]}
        )

    def _optimizer_state(self) -> Iterator[tuple[str, Any]]:
        for number, entries in self.optimizer.state_dict()["state"].items():
            for name, value in entries.items():
                yield f"{number}/{name}", value

    def _restore_optimizer(self, values: Mapping[str, Any]) -> None:
        state: dict[int, dict[str, Any]] = {}
        for name, value in values.items():
            number, key = name.split("/", 1)
            state.setdefault(int(number), {})[key] = value
        groups = self.optimizer.state_dict()["param_groups"]
        rates = [group["lr"] for group in self.optimizer.param_groups]
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})
        # A captured graph reads this very tensor.
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        # Fused optimizers compute wrong updates, silently, when a buffer lies in
        # another memory format than its parameter.
        for parameter, entries in self.optimizer.state.items():
            for key, value in entries.items():
                if isinstance(value, Tensor) and value.shape == parameter.shape:
                    entries[key] = torch.empty_like(parameter).copy_(value).detach()


def _prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    start = f"{prefix}/"
    return {
        name.removeprefix(start): tensor
        for name, tensor in tensors.items()
        if name.startswith(start)
    }


def _laid_out_like(parameter: Tensor, gradient: Tensor) -> Tensor:
    """Return a gradient with the strides of its parameter, as fused updates need."""
    if gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)
