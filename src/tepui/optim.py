r"""Sharpness-aware minimization as a wrapper around any torch optimizer.

SAM looks for weights whose whole neighborhood has low loss. With the gradient
:math:`g = \nabla L(\theta)`, one step is

.. math::
    e = \rho \, g / \lVert g \rVert_2, \qquad
    \hat g = \nabla L(\theta + e), \qquad
    \theta \leftarrow \text{base}(\theta, \hat g).

The adaptive form (ASAM) measures the neighborhood relative to each weight,
:math:`e = \rho \, \theta^2 g / \lVert \theta g \rVert_2`.

Differs from common implementations: the weights are restored from a copy, so exactly;
the norm is taken over all parameters with a gradient, in one call; the base
optimizer's state is the wrapper's state, so momentum survives a state dict; running
statistics of a module handed over are those of the unperturbed pass.

References:
    Foret et al., Sharpness-Aware Minimization for Efficiently Improving
    Generalization, ICLR 2021. Kwon et al., ASAM, ICML 2021.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel as Parallel
from torch.nn.utils import clip_grads_with_norm_

from tepui.core import foreach
from tepui.core.checks import one_of, require
from tepui.core.new_gradients import (
    gradients_begun_anew,
    refuse_left_out_closures,
    refuse_none,
)
from tepui.core.types import check_types

__all__ = ["SAM", "sam_perturbation"]

Perturbation = Literal["global", "shard"]

EPSILON = 1e-12


def sam_perturbation(
    parameters: Sequence[Tensor],
    gradients: Sequence[Tensor],
    rho: float | Tensor,
    adaptive: bool = False,
) -> list[Tensor]:
    r"""Return :math:`\rho g / (\lVert g \rVert + 10^{-12})`, with one norm for all.

    Args:
        parameters: The weights; only their values matter, and only if ``adaptive``.
        gradients: One gradient per parameter.
        rho: Length of the step.
        adaptive: Scale each coordinate by its weight, as ASAM does.

    Returns:
        One offset per parameter; all zero where the gradient is zero.

    Example:
        >>> theta, g = [torch.zeros(2)], [torch.tensor([3.0, 4.0])]
        >>> sam_perturbation(theta, g, rho=0.5)
        [tensor([0.3000, 0.4000])]
    """
    if not 0 < len(gradients) == len(parameters):
        rule = f"be one for each of the parameters ({len(parameters)})"
        require(False, "gradients", rule, len(gradients))
    scaled = _scaled(parameters, gradients, adaptive)
    scale = rho / (foreach.norm(scaled) + EPSILON)
    return _offsets(parameters, scaled, scale, adaptive)


def _scaled(
    parameters: Sequence[Tensor], gradients: Sequence[Tensor], adaptive: bool
) -> list[Tensor]:
    # Lengths and products with them would overflow float16.
    scaled = foreach.wide(gradients)
    return foreach.multiply(scaled, _sizes(parameters)) if adaptive else scaled


def _offsets(
    parameters: Sequence[Tensor], scaled: list[Tensor], scale: Tensor, adaptive: bool
) -> list[Tensor]:
    offsets = foreach.scale(scaled, scale)
    if adaptive:
        foreach.multiply_(offsets, _sizes(parameters))
    return foreach.cast(offsets, parameters)


def _sizes(parameters: Sequence[Tensor]) -> list[Tensor]:
    """Return what the squares of the weights are the squares of."""
    return [p.abs() if p.is_complex() else p for p in parameters]


def require_step_alone(argument: str, optimizer: torch.optim.Optimizer) -> None:
    """Refuse an optimizer that makes passes of its own within a step, as LBFGS does."""
    closure = signature(optimizer.step).parameters.get("closure")
    needed = closure is not None and closure.default is closure.empty
    rule = "make its step without a closure"
    require(not needed, argument, rule, type(optimizer).__name__)


@dataclass
class _Now:
    """Where a step stands, in one place that an optimizer's wrappers share."""

    before: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    moved: bool = False  # whether the weights are perturbed
    waiting: bool = False  # whether gradients are those of both passes
    second_pass: ExitStack = field(default_factory=ExitStack)  # watches its gradients


class SAM(torch.optim.Optimizer):
    """Sharpness-aware minimization around any torch optimizer.

    ``step`` takes a closure that zeroes gradients, backpropagates and returns the
    loss; it runs both passes and returns the loss at the unperturbed weights. The
    base optimizer applies weight decay and momentum at the unperturbed weights.

    A closure may backpropagate several times, to accumulate over parts of a large
    batch, but all of them itself: gradients from before it are refused, as the pass at
    the perturbed weights must start from none. Training loops that leave gradients from
    one closure to the next (``accumulate_grad_batches`` of Lightning) cannot use it.
    Loops that make the step themselves, without a closure, call ``backward(closure)``
    before it, in place of the loss's ``backward``.

    It works as it is in loops of several processes that average gradients while they
    backpropagate: DistributedDataParallel, also with ``no_sync`` around all but the
    last part of a batch, and ``torch.distributed.fsdp.fully_shard``, whose gradients
    the closure must set to None (as ``zero_grad`` does by default).

    Args:
        params: Parameters or parameter groups; groups may set their own ``rho``.
        base_optimizer: Class of the optimizer that makes the step.
        rho: Length of the perturbation.
        adaptive: Measure the perturbation relative to each weight (ASAM).
        module: If given, its buffers (BatchNorm's running statistics) are left by
            the perturbed pass as the first pass set them.
        max_grad_norm: Clip the final gradient to this norm.
        perturbation: Where several processes share a batch: ``"global"`` moves all of
            them along the gradient of the whole batch, as one process would;
            ``"shard"`` moves each along the gradient of its own part (m-SAM), another
            method with a result of its own. The latter needs ``module`` wrapped in
            DistributedDataParallel.
        base_kwargs: Arguments of the base optimizer.

    Example:
        >>> weight = nn.Parameter(torch.tensor([3.0]))
        >>> optimizer = SAM([weight], torch.optim.SGD, rho=0.1, lr=0.5)
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = 0.5 * weight.square().sum()
        ...     loss.backward()
        ...     return loss
        >>> optimizer.step(closure).item()
        4.5
        >>> weight.detach()  # 3 - 0.5 * (3 + 0.1)
        tensor([1.4500])
    """

    def __init__(
        self,
        params: Iterable[Any],
        base_optimizer: Callable[..., torch.optim.Optimizer],
        rho: float = 0.05,
        adaptive: bool = False,
        *,
        module: nn.Module | None = None,
        max_grad_norm: float | None = None,
        perturbation: Perturbation = "global",
        **base_kwargs: Any,
    ) -> None:
        kind = type(base_optimizer).__name__
        rule = f"be the class {kind}, not an instance of it"
        instance = isinstance(base_optimizer, torch.optim.Optimizer)
        require(not instance, "base_optimizer", rule, f"{kind}(...)")
        check_types(SAM.__init__, locals())
        require(rho >= 0, "rho", "be non-negative", rho)
        positive = max_grad_norm is None or max_grad_norm > 0
        require(positive, "max_grad_norm", "be positive", max_grad_norm)
        params = list(params)
        require(len(params) > 0, "params", "hold at least one parameter", params)
        one_of("perturbation", perturbation, get_args(Perturbation))
        rule = (
            'be "global" unless module is a DistributedDataParallel, of which every '
            "process holds a copy of the weights that it can move alone"
        )
        alone = perturbation == "global" or isinstance(module, Parallel)
        require(alone, "perturbation", rule, perturbation)
        super().__init__(params, {"rho": rho, "adaptive": adaptive, **base_kwargs})
        built = base_optimizer(self.param_groups, **base_kwargs)
        rule = "build a torch optimizer, as torch.optim.SGD does"
        fits = isinstance(built, torch.optim.Optimizer)
        require(fits, "base_optimizer", rule, type(built).__name__)
        require_step_alone("base_optimizer", built)
        self.base_optimizer = built
        self.defaults = {**self.base_optimizer.defaults, **self.defaults}
        self._adopt_base_state()
        self._module = module
        self._max_grad_norm = max_grad_norm
        self._perturbs_by = perturbation
        self._now = _Now()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters; the group may set its own ``rho``.

        Args:
            param_group: ``params`` and, where they differ, its own settings.

        Raises:
            ValueError: If its ``rho`` is negative.
        """
        if isinstance(param_group, dict):  # else torch refuses it
            rho = param_group.get("rho", self.defaults["rho"])
            require(rho >= 0, "rho", "be non-negative", rho)
        super().add_param_group(param_group)

    @torch.no_grad()
    def first_step(self, zero_grad: bool = False) -> None:
        """Move the weights to the perturbed point.

        Args:
            zero_grad: Clear the gradients afterwards; else that is left to the caller,
                before the pass at the perturbed weights.

        Raises:
            RuntimeError: If the weights are perturbed already, or if no parameter has
                a gradient.
            ValueError: If a gradient is sparse.
        """
        if self._now.moved:
            raise RuntimeError(
                "first_step was called twice: call second_step before the next one"
            )
        refuse_none(self._parameters())
        parameters, offsets = self._perturbation()
        buffers = [] if self._module is None else self._module.buffers()
        self._now.before = [(t, t.detach().clone()) for t in (*parameters, *buffers)]
        self._now.moved = True
        foreach.add_(parameters, offsets)
        if zero_grad:
            self.zero_grad()
        watch = gradients_begun_anew(self._parameters())
        self._now.second_pass.enter_context(watch)

    @torch.no_grad()
    def second_step(self, zero_grad: bool = False, scaler: Any = None) -> None:
        """Restore the weights and let the base optimizer step.

        Args:
            zero_grad: Clear the gradients afterwards.
            scaler: A ``torch.amp.GradScaler`` whose scaled loss was backpropagated;
                the step is left out when it finds an infinite gradient.

        Raises:
            RuntimeError: If :meth:`first_step` was not called, or if gradients were
                not zeroed and backpropagated since; the weights are restored.
        """
        if not self._now.moved:
            raise RuntimeError("second_step was called without first_step")
        self._restore()
        self._now.second_pass.close()
        self._descend(scaler)
        # Schedulers ask for this mark, which they put on step, not on second_step.
        self._opt_called = True
        if zero_grad:
            self.zero_grad()

    def backward(self, closure: Callable[[], Tensor]) -> Tensor:
        """Run both passes and leave the gradient at the perturbed weights in ``.grad``.

        For loops that clip or unscale gradients and make the step themselves, without a
        closure: what they do, they do to the final gradient. Both passes see the same
        dropout masks.

        Args:
            closure: Zeroes gradients, backpropagates and returns the loss.

        Returns:
            The loss at the unperturbed weights.

        Raises:
            RuntimeError: If the closure adds to gradients instead of zeroing them or
                does not backpropagate, or if the gradient of an earlier call still
                waits for its step.
        """
        refuse_left_out_closures()
        self._refuse_waiting_gradient()
        states = [(stream, stream.get_state()) for stream in self._streams()]
        with ExitStack() as first_pass:
            first_pass.enter_context(torch.enable_grad())
            if self._perturbs_by == "shard" and isinstance(self._module, Parallel):
                first_pass.enter_context(self._module.no_sync())
            loss = closure()
        self.first_step()
        for stream, state in states:
            stream.set_state(state)
        try:
            with torch.enable_grad(), self._now.second_pass:
                closure()
        finally:
            self._restore()
        self._now.waiting = True
        return loss

    def step(  # type: ignore[override]
        self, closure: Callable[[], Tensor] | None = None, scaler: Any = None
    ) -> Tensor | None:
        """Run both passes and the base optimizer's step.

        Args:
            closure: Zeroes gradients, backpropagates and returns the loss; left out
                only after :meth:`backward`, which ran it.
            scaler: A ``torch.amp.GradScaler``, where the closure scales its loss;
                its ``update`` stays with the caller.

        Returns:
            The loss at the unperturbed weights, if a closure is given.

        Raises:
            ValueError: If no closure is given, nor was :meth:`backward` called.
            RuntimeError: If the closure adds to gradients instead of zeroing them or
                does not backpropagate.
        """
        if closure is None and not self._now.waiting:
            raise ValueError(
                "closure must be given: SAM needs a second pass at the perturbed "
                "weights; where a loop or a gradient scaler calls step without one, "
                "call backward(closure) before it instead of loss.backward(), or "
                "first_step and second_step"
            )
        loss = None if closure is None else self.backward(closure)
        self._descend(scaler)
        return loss

    def state_dict(self) -> dict[str, Any]:
        """Return the base optimizer's state, momentum included, with rho."""
        return self.base_optimizer.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what :meth:`state_dict` returned.

        Args:
            state_dict: The state; that of a bare base optimizer leaves ``rho`` alone.
        """
        radii = [(group["rho"], group["adaptive"]) for group in self.param_groups]
        self.base_optimizer.load_state_dict(state_dict)
        self._adopt_base_state()
        for group, (rho, adaptive) in zip(self.param_groups, radii, strict=True):
            group.setdefault("rho", rho)
            group.setdefault("adaptive", adaptive)

    def _streams(self) -> list[torch.Generator]:
        """Return the generators that dropout draws from."""
        devices = {p.device for group in self.param_groups for p in group["params"]}
        on_cuda = [device.index for device in devices if device.type == "cuda"]
        generators = [torch.cuda.default_generators[index] for index in on_cuda]
        return [torch.default_generator, *generators]

    def _adopt_base_state(self) -> None:
        self.param_groups = self.base_optimizer.param_groups
        self.state = self.base_optimizer.state

    def _parameters(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"]]

    def _refuse_waiting_gradient(self) -> None:
        """Refuse a gradient that would be lost, unless it is one a scaler left out."""
        gradients = [p.grad for p in self._parameters() if p.grad is not None]
        if self._now.waiting and 0 < foreach.norm(gradients).item() < math.inf:
            raise RuntimeError(
                "backward was called twice without a step in between: gradients of "
                "several batches cannot be added up, as each has a perturbation of its "
                "own; backpropagate all parts of a batch in one closure (in Hugging "
                "Face's Trainer keep gradient_accumulation_steps at 1)"
            )

    @torch.no_grad()
    def _descend(self, scaler: Any) -> None:
        """Clip the gradient and let the base optimizer step."""
        self._now.waiting = False
        if scaler is not None:
            scaler.unscale_(self.base_optimizer)
        if self._max_grad_norm is not None:
            gradients = [p.grad for p in self._parameters() if p.grad is not None]
            norm = foreach.norm(gradients)
            clip_grads_with_norm_(self._parameters(), self._max_grad_norm, norm)
        if scaler is None:
            self.base_optimizer.step()
        else:
            scaler.step(self.base_optimizer)

    def _perturbation(self) -> tuple[list[Tensor], list[Tensor]]:
        """Return the parameters with a gradient and their offsets."""
        groups = []
        for group in self.param_groups:
            moving = [p for p in group["params"] if p.grad is not None]
            gradients = [p.grad for p in moving if p.grad is not None]
            dense = all(gradient.layout == torch.strided for gradient in gradients)
            require(dense, "gradients", "be dense (sparse=False in layers)", "sparse")
            if moving:
                scaled = _scaled(moving, gradients, group["adaptive"])
                groups.append((group, moving, scaled))
        norm = foreach.norm(s for _, _, scaled in groups for s in scaled) + EPSILON
        # Where a gradient overflowed nothing moves, so that the second pass leaves no
        # NaN in running statistics and a gradient scaler sees the overflow again.
        return [p for _, moving, _ in groups for p in moving], [
            offset.nan_to_num_(0.0, 0.0, 0.0)
            for group, moving, scaled in groups
            for offset in _offsets(
                moving, scaled, group["rho"] / norm, group["adaptive"]
            )
        ]

    @torch.no_grad()
    def _restore(self) -> None:
        for tensor, before in self._now.before:
            tensor.copy_(before)
        self._now.before = []
        self._now.moved = False
