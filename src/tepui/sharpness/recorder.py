"""Each sample's squared gradient norm, from what layers show in two passes.

Layers with a rule (:mod:`tepui.sharpness.layers`) are watched: their inputs in the
forward pass, the gradients of their outputs in the backward pass. All other parameters
are *hidden*, and differentiated per sample in passes of their own: the definition, for
any model, but with a gradient per sample, a block of samples at a time, vectorized if
torch can, one sample after another if it cannot. Hidden are

- parameters that belong to a module without a rule, or to the model itself;
- those of a layer that is not called, or whose calls do not show one row per sample;
- those of a layer whose share differs from that of plain differentiation, on two
  samples in either order, in strict float32: used elsewhere too, for instance.

What later batches reveal is added, and the batch is scored again.
"""

import inspect
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad
from torch.nn.attention import SDPBackend, sdpa_kernel

from tepui.core.checks import require
from tepui.core.precision import computing_in
from tepui.core.warning import warn
from tepui.data.arrays import Batch, Inputs, map_inputs
from tepui.losses import Loss
from tepui.modules.pruning import masks_of
from tepui.modules.running import as_taken, blocks, forward, one_sample, over_samples
from tepui.sharpness.layers import gradients, has_rule, shows_samples, squared_norms

# What rounding may do to a score or a layer's share of it, and to a share of no weight.
TOLERANCE, OF_SCORE = 1e-3, 1e-5
NAMED = 4  # parameters, in one sentence


class Recorder:
    """Watches layers: inputs in the forward pass, shares in the backward pass."""

    def __init__(
        self, model: nn.Module, loss: Loss, autocast: torch.dtype | None
    ) -> None:
        self.model = model
        self.loss = loss
        self.autocast = autocast
        self.trainable = {n: p for n, p in model.named_parameters() if p.requires_grad}
        require(len(self.trainable) > 0, "model", "have trainable parameters", "none")
        self.names = {id(p): name for name, p in self.trainable.items()}
        self.layers = {
            part: leaves
            for part in model.modules()
            if has_rule(part) and (leaves := self._leaves(part, ("weight", "bias")))
        }
        self.hidden: set[str] = set()
        for part in model.modules():
            unruled = set(self._leaves(part)) - set(self.layers.get(part, {}))
            self._hide(id(getattr(part, leaf)) for leaf in unruled)
        uses = Counter(
            key for leaves in self.layers.values() for key in leaves.values()
        )
        self.repeated = {key for key, count in uses.items() if count > 1}
        masks = masks_of(model)
        self.masks = {id(p): masks[n] for n, p in self.trainable.items() if n in masks}
        self.checked = 0  # samples that the layers were compared on
        self.told: set[str] = set()
        self._watching = False
        self._begin()

    @contextmanager
    def attached(self) -> Iterator[Self]:
        """Watch the model's layers inside the block."""
        handles = [
            # Before hooks of others, which may change what a layer returns.
            layer.register_forward_hook(self._watch, with_kwargs=True, prepend=True)
            for layer in self.layers
        ]
        try:
            with layer_by_layer():
                yield self
        finally:
            for handle in handles:
                handle.remove()

    def score(self, batch: Batch) -> Tensor:
        """Return each sample's squared gradient norm."""
        if self.checked < min(2, len(batch.targets)):
            self.checked = 0
            few = next(blocks(batch, 2))
            with computing_in("float32", batch.targets.device):
                self._check(few)
            self.checked = len(few.targets)
        # Gradients of repeated parameters are summed whole before they are squared.
        held = [p for p in self.trainable.values() if id(p) in self.repeated]
        parts = blocks(batch, samples_at_a_time(held))
        scores = [self._settled(part, self.loss, self.autocast) for part in parts]
        self._tell()
        return torch.cat(scores)

    def _tell(self) -> None:
        """Warn of parameters that are differentiated per sample, of each once."""
        new = [n for n in self.trainable if n in self.hidden and n not in self.told]
        if not new:
            return
        self.told.update(new)
        more = [f"{len(new) - NAMED} more"] if len(new) > NAMED else []
        warn(
            f"{', '.join(new[:NAMED] + more)}: for the Fisher trace of "
            f"{type(self.model).__name__} these are differentiated sample by sample, "
            "which is as exact and slower"
        )

    def _check(self, few: Batch) -> None:
        """Compare with plain differentiation, on outputs that cannot saturate."""
        # Weights that differ by sample, as equal ones hide what samples exchange.
        weights = torch.linspace(1, 2, len(few.targets), device=few.targets.device)
        few = Batch(few.inputs, weights, few.index)
        plain = norms_by_name(self.model, few, _probe)
        flipped = {name: norms.flip(0) for name, norms in plain.items()}
        both = ((few, plain), (few.mapped(lambda part: part.flip(0)), flipped))
        try:
            while any(self._exposed(batch, expected) for batch, expected in both):
                continue
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:
            self._hide(self.names)

    def _exposed(self, few: Batch, plain: dict[str, Tensor]) -> bool:
        """Hide parameters whose part of the scores is wrong; return if any were."""
        before = len(self.hidden)
        total = torch.stack(list(plain.values())).sum(0).double()
        scores = self._settled(few, _probe, None).double()
        wrong = self._wrong(plain, total)
        self._hide(wrong)
        if not wrong and not _close(scores, total, TOLERANCE):
            self._hide(self.names)
        return len(self.hidden) > before

    def _wrong(self, plain: dict[str, Tensor], total: Tensor) -> set[int]:
        """Return the parameters whose part of the scores is not as it should be."""
        slack = OF_SCORE * total.nan_to_num(0, 0, 0)
        groups = [{key} for key in self.repeated]
        found = [self.summed.get(key) for key in self.repeated]
        norms = [0 if g is None else g.square().flatten(1).sum(1) for g in found]
        for layer in self.layers:
            groups.append(set(self._visible(layer).values()) - self.repeated)
            norms.append(sum(share for of, share in self.shares if of is layer))
        wrong: set[int] = set()
        for keys, norm in zip(groups, norms, strict=True):
            names = [self.names[key] for key in keys]
            shown = [plain[name] for name in names if name not in self.hidden]
            if not shown:
                continue
            expected = torch.stack(shown).sum(0).double()
            if not _close(expected.new_zeros(()) + norm, expected, TOLERANCE, slack):
                wrong |= keys
        return wrong

    def _settled(
        self, batch: Batch, loss: Loss, autocast: torch.dtype | None
    ) -> Tensor:
        """Return scores from a pass that revealed nothing new about the layers."""
        while True:
            scores = self._layered(batch, loss, autocast)
            if not self._learned():
                return scores

    def _learned(self) -> bool:
        """Note which layers are called in ways not seen before; return if any were."""
        before = len(self.hidden), len(self.repeated)
        for layer in self.misfits:
            self._hide(self._visible(layer).values())
        for layer in self.layers:
            keys = self._visible(layer).values()
            if self.calls[layer] > 1:
                self.repeated |= set(keys)
            if layer not in self.calls and not self.checked:
                self._hide(keys)
        return before != (len(self.hidden), len(self.repeated))

    def _layered(
        self, batch: Batch, loss: Loss, autocast: torch.dtype | None
    ) -> Tensor:
        if len(self.hidden) == len(self.trainable):
            self._begin()
            return whole_gradient_norms(self.model, batch, loss)
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
        shares = [*(share for _, share in self.shares), *squares]
        hidden = [name for name in self.trainable if name in self.hidden]
        if hidden:
            shares.append(whole_gradient_norms(self.model, batch, loss, hidden))
        if not shares:
            return torch.zeros(len(batch.targets), device=batch.targets.device)
        return torch.stack(shares).sum(0)

    def _begin(self, samples: int = 0) -> None:
        self.samples = samples
        self.calls: Counter[nn.Module] = Counter()
        self.misfits: set[nn.Module] = set()
        self.roots: list[Tensor] = []
        self.shares: list[tuple[nn.Module, Tensor]] = []
        self.summed: dict[int, Tensor] = {}

    def _watch(
        self,
        layer: nn.Module,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        output: Tensor,
    ) -> Tensor | None:
        if not self._watching or not self._visible(layer):
            return None
        self.calls[layer] += torch.is_grad_enabled()
        if not torch.is_grad_enabled():
            return None
        inputs = _in_order(layer, arguments, keywords)
        if not shows_samples(layer, inputs, self.samples):
            self.misfits.add(layer)
            return None
        if not output.requires_grad:
            # Gradients are asked for here; the copy may be changed in place after.
            root = output.detach().requires_grad_()
            self.roots.append(root)
            output = root.clone()
        like = _memory_format(output)

        def note(grads: Tensor) -> Tensor:
            grads = grads.contiguous(memory_format=like)
            self._share(layer, inputs, grads)
            return grads

        output.register_hook(note)
        return output

    def _share(self, layer: nn.Module, inputs: tuple[Any, ...], grads: Tensor) -> None:
        """Add what a layer's parameters contribute to each sample's norm."""
        parameters = self._visible(layer)
        once = [name for name, key in parameters.items() if key not in self.repeated]
        several = [name for name, key in parameters.items() if key in self.repeated]
        with torch.no_grad(), torch.autocast(grads.device.type, enabled=False):
            if once:
                mask = self.masks.get(parameters.get("weight", 0))
                share = squared_norms(layer, inputs, grads, once, mask)
                self.shares.append((layer, share))
            if not several:
                return
            for name, value in gradients(layer, inputs, grads, several).items():
                key = parameters[name]
                alive = value * self.masks[key] if key in self.masks else value
                self.summed[key] = self.summed.get(key, 0) + alive

    def _hide(self, keys: Iterable[int]) -> None:
        self.hidden |= {self.names[key] for key in keys}

    def _visible(self, layer: nn.Module) -> dict[str, int]:
        """Return a layer's parameters that are not hidden: name in the layer, key."""
        leaves = self.layers[layer].items()
        return {leaf: key for leaf, key in leaves if self.names[key] not in self.hidden}

    def _leaves(
        self, part: nn.Module, among: Iterable[str] | None = None
    ) -> dict[str, int]:
        """Return a module's own trainable parameters: name in the module, key."""
        own = part.named_parameters(recurse=False)
        leaves = {leaf: id(p) for leaf, p in own if id(p) in self.names}
        return {k: v for k, v in leaves.items() if among is None or k in among}


def _probe(outputs: Tensor, weights: Tensor) -> Tensor:
    slopes = torch.linspace(1, 2, outputs[0].numel(), device=outputs.device)
    return weights.to(outputs.dtype) * (outputs.flatten(1) @ slopes.to(outputs.dtype))


def _close(
    found: Tensor, expected: Tensor, relative: float, absolute: Tensor | float = 0.0
) -> bool:
    both = found == expected
    both |= found.isnan() & expected.isnan()
    within = (found - expected).abs() <= relative * expected.abs() + absolute
    return bool((both | within).all())


def _in_order(
    layer: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[Any, ...]:
    """Return a call's arguments by position, tensors detached."""
    if keywords:
        bound = inspect.signature(layer.forward).bind(*arguments, **keywords)
        bound.apply_defaults()
        arguments = bound.args
    return tuple(a.detach() if isinstance(a, Tensor) else a for a in arguments)


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


# Elements of one block of whole per-sample gradients.
WHOLE_GRADIENT_ELEMENTS = 2**27


def whole_gradient_norms(
    model: nn.Module, batch: Batch, loss: Loss, names: Collection[str] | None = None
) -> Tensor:
    """Return squared gradient norms by differentiating every sample on its own."""
    parts = _norms_by_block(model, batch, loss, names)
    return torch.cat([torch.stack(list(norms.values())).sum(0) for norms in parts])


def norms_by_name(model: nn.Module, batch: Batch, loss: Loss) -> dict[str, Tensor]:
    """Return each sample's squared gradient norm over every trainable parameter."""
    parts = list(_norms_by_block(model, batch, loss, None))
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def samples_at_a_time(parameters: Iterable[Tensor]) -> int:
    """Return how many samples' gradients of these parameters fit into a block."""
    elements = sum(parameter.numel() for parameter in parameters)
    return max(1, WHOLE_GRADIENT_ELEMENTS // max(1, elements))


@contextmanager
def layer_by_layer() -> Iterator[None]:
    """Keep transformers from running as one kernel that neither way can look into."""
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)


def _norms_by_block(
    model: nn.Module, batch: Batch, loss: Loss, names: Collection[str] | None
) -> Iterator[dict[str, Tensor]]:
    every = dict(model.named_parameters())
    chosen = names or [name for name, p in every.items() if p.requires_grad]
    inner = {name: every[name].detach() for name in chosen}
    fixed = {name: p.detach() for name, p in every.items() if name not in inner}
    fixed |= dict(model.named_buffers())
    masks = masks_of(model)

    def sample_loss(
        parameters: dict[str, Tensor], inputs: Inputs, target: Tensor
    ) -> Tensor:
        def called(*arguments: Tensor, **keywords: Tensor) -> object:
            tensors = {**parameters, **fixed}
            return functional_call(model, tensors, arguments, keywords)

        taken = as_taken(model, one_sample(inputs))
        return loss(forward(called, taken), target[None])[0]

    for part in blocks(batch, samples_at_a_time(inner.values())):
        with _vectorizable():
            by_name = _gradients(sample_loss, inner, part)
        alive = {n: g * masks[n] if n in masks else g for n, g in by_name.items()}
        yield {n: g.detach().square().flatten(1).sum(1) for n, g in alive.items()}


def _gradients(
    sample_loss: Callable[..., Tensor], inner: dict[str, Tensor], batch: Batch
) -> dict[str, Tensor]:
    """Return each sample's gradients; by autograd where functional transforms fail."""
    try:
        gradient = partial(grad(sample_loss), inner)
        by_name: dict[str, Tensor] = over_samples(gradient, batch.inputs, batch.targets)
        return by_name
    except torch.OutOfMemoryError:
        raise
    except RuntimeError:
        # Checkpoints and backward hooks, for instance.
        return _gradients_by_autograd(sample_loss, inner, batch)


def _gradients_by_autograd(
    sample_loss: Callable[..., Tensor], inner: dict[str, Tensor], batch: Batch
) -> dict[str, Tensor]:
    leaves = {name: value.detach().requires_grad_() for name, value in inner.items()}
    rows = []
    for sample in blocks(batch, 1):
        alone = map_inputs(lambda part: part[0], sample.inputs)
        with torch.enable_grad():
            value = sample_loss(leaves, alone, sample.targets[0])
        grads = torch.autograd.grad(
            value, list(leaves.values()), allow_unused=True, materialize_grads=True
        )
        rows.append(grads)
    columns = zip(*rows, strict=True)
    return {name: torch.stack(c) for name, c in zip(leaves, columns, strict=True)}


@contextmanager
def _vectorizable() -> Iterator[None]:
    """Run kernels that vectorize, such as plain attention."""
    with sdpa_kernel(SDPBackend.MATH), layer_by_layer(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "There is a performance drop")
        yield
