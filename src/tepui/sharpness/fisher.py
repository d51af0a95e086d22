r"""The trace of each sample's Fisher matrix: its squared gradient norm.

.. math:: s(j) = \lVert \nabla_\theta \, \ell(f_\theta(x_j), y_j) \rVert_2^2

over all trainable parameters that are not pruned, with the true label and with
BatchNorm in eval mode, so that samples do not affect each other. One forward and one
backward pass per batch suffice: each layer's share follows from its inputs and output
gradients (:mod:`tepui.sharpness.layers`). Parameters used more than once are summed
over their uses before squaring; parameters outside known layers are differentiated per
sample. If that disagrees with plain differentiation of two samples, in strict float32,
the whole model is differentiated per sample instead.

Differs from the released code of SharpBalance: no per-sample gradient of the whole
model is held in memory.
"""

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.core.precision import strict_float32
from tepui.data.arrays import Batch, Inputs
from tepui.data.loading import in_order
from tepui.losses import Loss, cross_entropy
from tepui.modules.pruning import masks_of
from tepui.modules.running import (
    as_arguments,
    blocks,
    device_of,
    forward,
    one_sample,
    over_samples,
    undisturbed,
)
from tepui.sharpness.layers import gradients, has_rule, squared_norms
from tepui.sharpness.measurement import Measurement, mean_of
from tepui.sharpness.selection import Data, select

# Elements of one block of whole per-sample gradients, where they must be formed.
WHOLE_GRADIENT_ELEMENTS = 2**27


def sample_fisher_trace(
    model: nn.Module,
    dataset: Dataset[Any],
    *,
    loss: Loss = cross_entropy,
    batch_size: int | None = None,
    autocast: torch.dtype | None = None,
    workers: int = 0,
) -> Tensor:
    """Return each sample's squared gradient norm.

    Args:
        model: Any module; its mode, parameters and buffers are left unchanged.
        dataset: Samples as the model sees them at test time, not augmented.
        loss: Returns one loss per sample.
        batch_size: Samples per pass; the result does not depend on it. By default 512
            on a GPU and 128 elsewhere.
        autocast: Type of the forward pass, such as ``torch.bfloat16``; norms are
            still summed in float32. None keeps that of the weights.
        workers: Processes that load a data set not held in tensors.

    Returns:
        Shape ``(samples,)``, on the model's device, in the order of the data set.

    Example:
        >>> from tepui.data import Arrays
        >>> data = Arrays(torch.tensor([[3.0, 4.0]]), torch.tensor([[1.0]]))
        >>> model = nn.Linear(2, 1, bias=False)
        >>> _ = nn.init.zeros_(model.weight)
        >>> def half_square(outputs, targets):
        ...     return 0.5 * (outputs - targets).square().sum(1)
        >>> sample_fisher_trace(model, data, loss=half_square)  # |-1 * (3, 4)|²
        tensor([25.])
    """
    size = _batch_size(model, batch_size)
    require(size > 0, "batch_size", "be positive", size)
    batches = in_order(dataset, size, device=device_of(model), workers=workers)
    return _scores(model, batches, loss, autocast)


def fisher_trace(
    model: nn.Module,
    dataset: Data,
    *,
    loss: Loss = cross_entropy,
    autocast: torch.dtype | None = None,
    num_samples: int | None = None,
    batch_size: int | None = None,
    generator: torch.Generator | None = None,
) -> Measurement:
    """Return the mean of :func:`sample_fisher_trace`.

    Args:
        model: Any module; left unchanged.
        dataset: A data set, or a loader that does not shuffle.
        loss: Returns one loss per sample.
        autocast: Type of the forward pass; None keeps that of the weights.
        num_samples: How many samples; None takes all.
        batch_size: Samples per pass; the value does not depend on it.
        generator: Draws the samples; None always draws the same ones.

    Returns:
        A non-negative value, with its standard error over samples.
    """
    size = _batch_size(model, batch_size)
    batches = select(model, dataset, loss, size, num_samples, generator)
    precision = None if autocast is None else str(autocast)
    settings = batches.settings("fisher_trace", autocast=precision)
    return mean_of(_scores(model, batches, loss, autocast), settings)


def _batch_size(model: nn.Module, asked: int | None) -> int:
    if asked is not None:
        return asked
    return 512 if device_of(model).type == "cuda" else 128


def _scores(
    model: nn.Module, batches: Iterable[Batch], loss: Loss, autocast: torch.dtype | None
) -> Tensor:
    with undisturbed(model), _Recorder(model, loss, autocast).attached() as recorder:
        return torch.cat([recorder.score(batch) for batch in batches])


def whole_gradient_norms(
    model: nn.Module, batch: Batch, loss: Loss, names: list[str] | None = None
) -> Tensor:
    """Return squared gradient norms by differentiating every sample on its own."""
    every = dict(model.named_parameters())
    chosen = names or [name for name, p in every.items() if p.requires_grad]
    inner = {name: every[name].detach() for name in chosen}
    fixed = {name: p.detach() for name, p in every.items() if name not in inner}
    fixed |= dict(model.named_buffers())
    masks = masks_of(model)

    def sample_loss(
        parameters: dict[str, Tensor], inputs: Inputs, target: Tensor
    ) -> Tensor:
        arguments, keywords = as_arguments(one_sample(inputs))
        outputs = functional_call(model, {**parameters, **fixed}, arguments, keywords)
        outputs = getattr(outputs, "logits", outputs)
        return loss(outputs, target[None])[0]

    gradient = partial(grad(sample_loss), inner)
    totals = []
    for part in blocks(batch, _samples_at_a_time(inner.values())):
        with sdpa_kernel(SDPBackend.MATH):  # the other kernels do not vectorize
            by_name = over_samples(gradient, part.inputs, part.targets)
        alive = (g * masks[n] if n in masks else g for n, g in by_name.items())
        norms = [g.detach().square().flatten(1).sum(1) for g in alive]
        totals.append(torch.stack(norms).sum(0))
    return torch.cat(totals)


class _Recorder:
    """Watches layers: inputs in the forward pass, shares in the backward pass."""

    def __init__(
        self, model: nn.Module, loss: Loss, autocast: torch.dtype | None
    ) -> None:
        self.model = model
        self.loss = loss
        self.autocast = autocast
        self.trainable = {n: p for n, p in model.named_parameters() if p.requires_grad}
        require(len(self.trainable) > 0, "model", "have trainable parameters", "none")
        ids = {id(p) for p in self.trainable.values()}
        self.layers = {
            part: names
            for part in model.modules()
            if has_rule(part) and (names := _direct_names(part, ids))
        }
        uses = Counter(
            id(getattr(part, name))
            for part, names in self.layers.items()
            for name in names
        )
        self.repeated = {key for key, count in uses.items() if count > 1}
        masks = masks_of(model)
        self.masks = {id(p): masks[n] for n, p in self.trainable.items() if n in masks}
        self.whole: bool | None = None
        self._watching = False
        self._begin()

    @contextmanager
    def attached(self) -> Iterator[Self]:
        """Watch the model's layers inside the block."""
        handles = [layer.register_forward_hook(self._watch) for layer in self.layers]
        try:
            yield self
        finally:
            for handle in handles:
                handle.remove()

    def score(self, batch: Batch) -> Tensor:
        """Return each sample's squared gradient norm."""
        if self.whole is None:
            with strict_float32(batch.targets.device):
                self.whole = not self._layers_tell_all(next(blocks(batch, 2)))
        if self.whole:
            return whole_gradient_norms(self.model, batch, self.loss)
        # Gradients of repeated parameters are summed whole before they are squared.
        held = [p for p in self.trainable.values() if id(p) in self.repeated]
        parts = blocks(batch, _samples_at_a_time(held))
        return torch.cat([self._layered(p, self.loss, self.autocast) for p in parts])

    def _layers_tell_all(self, few: Batch) -> bool:
        """Compare with plain differentiation, on outputs that cannot saturate."""

        def probe(outputs: Tensor, targets: Tensor) -> Tensor:
            weights = torch.linspace(1, 2, outputs[0].numel(), device=outputs.device)
            return outputs.flatten(1) @ weights.to(outputs.dtype)

        self._layered(few, probe, None)
        again = [layer for layer, count in self.calls.items() if count > 1]
        self.repeated |= {id(p) for layer in again for p in layer.parameters()}
        layered = self._layered(few, probe, None).double()
        plain = whole_gradient_norms(self.model, few, probe).double()
        close = torch.allclose(layered, plain, rtol=1e-3, atol=0, equal_nan=True)
        if self.sound and close:
            return True
        parameters = self.trainable.values()
        warnings.warn(
            f"{type(self.model).__name__} uses parameters in ways its layers do not "
            "show: the Fisher trace needs a gradient of all "
            f"{_elements(parameters):,} parameters for every sample, at most "
            f"{_samples_at_a_time(parameters):,} samples at a time, which can take "
            "minutes where layers take seconds",
            stacklevel=4,
        )
        return False

    def _layered(
        self, batch: Batch, loss: Loss, autocast: torch.dtype | None
    ) -> Tensor:
        self._begin(len(batch.targets))
        device = batch.targets.device.type
        with _frozen(self.trainable.values()), torch.enable_grad():
            self._watching = True
            try:
                with torch.autocast(device, autocast, enabled=autocast is not None):
                    outputs = forward(self.model, batch.inputs)
            finally:
                self._watching = False
            outputs = outputs.float() if outputs.dtype.itemsize < 4 else outputs
            if self.roots:
                total = loss(outputs, batch.targets).sum()
                torch.autograd.grad(total, self.roots, allow_unused=True)
        squares = (g.square().flatten(1).sum(1) for g in self.summed.values())
        shares = [*self.shares, *squares]
        seen = {id(p) for layer in self.calls for p in layer.parameters(recurse=False)}
        unseen = [name for name, p in self.trainable.items() if id(p) not in seen]
        if unseen:
            shares.append(whole_gradient_norms(self.model, batch, loss, unseen))
        if not shares:
            return torch.zeros(len(batch.targets), device=batch.targets.device)
        return torch.stack(shares).sum(0)

    def _begin(self, samples: int = 0) -> None:
        self.samples = samples
        self.calls: Counter[nn.Module] = Counter()
        self.roots: list[Tensor] = []
        self.shares: list[Tensor] = []
        self.summed: dict[int, Tensor] = {}
        self.sound = True

    def _watch(
        self, layer: nn.Module, arguments: tuple[Any, ...], output: Tensor
    ) -> Tensor | None:
        if not self._watching:
            return None
        self.calls[layer] += 1
        if not arguments or arguments[0].shape[:1] != (self.samples,):
            self.sound = False
            return None
        if not output.requires_grad:
            # Gradients are asked for here; the copy may be changed in place after.
            root = output.detach().requires_grad_()
            self.roots.append(root)
            output = root.clone()
        inputs = arguments[0].detach()
        like = _memory_format(output)

        def note(grads: Tensor) -> Tensor:
            grads = grads.contiguous(memory_format=like)
            self._share(layer, inputs, grads)
            return grads

        output.register_hook(note)
        return output

    def _share(self, layer: nn.Module, inputs: Tensor, grads: Tensor) -> None:
        """Add what a layer's parameters contribute to each sample's norm."""
        parameters = {name: id(getattr(layer, name)) for name in self.layers[layer]}
        once = [name for name, key in parameters.items() if key not in self.repeated]
        several = [name for name, key in parameters.items() if key in self.repeated]
        with torch.no_grad(), torch.autocast(grads.device.type, enabled=False):
            if once:
                mask = self.masks.get(parameters.get("weight", 0))
                self.shares.append(squared_norms(layer, inputs, grads, once, mask))
            if not several:
                return
            for name, value in gradients(layer, inputs, grads, several).items():
                key = parameters[name]
                alive = value * self.masks[key] if key in self.masks else value
                self.summed[key] = self.summed.get(key, 0) + alive


def _direct_names(part: nn.Module, ids: set[int]) -> list[str]:
    """Return the names of a module's direct parameters that are among ``ids``."""
    return [n for n, p in part.named_parameters(recurse=False) if id(p) in ids]


def _elements(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.numel() for tensor in tensors)


def _samples_at_a_time(parameters: Iterable[Tensor]) -> int:
    """Return how many samples' gradients of these parameters fit into a block."""
    return max(1, WHOLE_GRADIENT_ELEMENTS // max(1, _elements(parameters)))


def _memory_format(tensor: Tensor) -> torch.memory_format:
    """Return how a tensor lies in memory: gradients that lie alike need no copies."""
    last = torch.channels_last
    if tensor.ndim == 4 and tensor.is_contiguous(memory_format=last):
        return last
    return torch.contiguous_format


@contextmanager
def _frozen(parameters: Iterable[Tensor]) -> Iterator[None]:
    """Disable gradients of parameters inside the block."""
    held = list(parameters)
    for parameter in held:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in held:
            parameter.requires_grad_(True)
