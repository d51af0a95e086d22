"""Squared norms of gradients that are formed for every sample.

This is the definition, and right for any model, but holds a gradient per sample: a
block of samples at a time, vectorized where torch can, one sample after another where
it cannot.
"""

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad
from torch.nn.attention import SDPBackend, sdpa_kernel

from tepui.data.arrays import Batch, Inputs, map_inputs
from tepui.losses import Loss
from tepui.modules.pruning import masks_of
from tepui.modules.running import as_taken, blocks, forward, one_sample, over_samples

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
        with _vectorizable(model):
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
def _vectorizable(model: nn.Module) -> Iterator[None]:
    """Run kernels that vectorize: plain attention, tables with dense gradients."""
    kinds = (nn.Embedding, nn.EmbeddingBag)
    tables = [p for p in model.modules() if isinstance(p, kinds) and p.sparse]
    for table in tables:
        table.sparse = False
    try:
        with sdpa_kernel(SDPBackend.MATH), layer_by_layer(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "There is a performance drop")
            yield
    finally:
        for table in tables:
            table.sparse = True
