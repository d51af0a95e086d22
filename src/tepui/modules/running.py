"""Running a module for its outputs, leaving it unchanged."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import vmap
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.data.arrays import Batch, Inputs, map_inputs
from tepui.data.loading import in_order
from tepui.models.split import Frozen

# What BatchNorm says of inputs with too few or too many axes.
_DIMENSIONS = re.compile(r"expected .*D input \(got ")


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Put a module into eval mode inside the block, then restore each part's mode."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


@contextmanager
def undisturbed(module: nn.Module) -> Iterator[None]:
    """Run a block with a module in eval mode; restore modes and tensors after it.

    Changes that forward passes make to buffers, and to embeddings that they shorten to
    ``max_norm``, are undone.

    Args:
        module: The module.

    Yields:
        Nothing.
    """
    changing = [*module.buffers(), *_shortened_by_passes(module)]
    before = [(tensor, tensor.detach().clone()) for tensor in changing]
    with evaluating(module):
        try:
            yield
        finally:
            with torch.no_grad():
                for tensor, value in before:
                    tensor.copy_(value)


def _shortened_by_passes(module: nn.Module) -> list[Tensor]:
    kinds = (nn.Embedding, nn.EmbeddingBag)
    tables = [part for part in module.modules() if isinstance(part, kinds)]
    return [table.weight for table in tables if table.max_norm is not None]


def as_taken(module: nn.Module, inputs: Inputs) -> Inputs:
    """Return inputs in the type that a module computes in, whatever theirs is.

    Whole numbers of a mapping, and those of a module that looks them up in a table of
    embeddings, stay as they are. So do those of images: bytes are scaled first.

    Example:
        >>> as_taken(nn.Linear(2, 1), torch.tensor([[3, 4]]))
        tensor([[3., 4.]])
    """
    dtype = dtype_of(module)

    def taken(tensor: Tensor) -> Tensor:
        if tensor.is_floating_point():
            return tensor.to(dtype or tensor.dtype)
        rows = tensor is inputs and tensor.ndim <= 2 and not tensor.is_complex()
        return (
            tensor.to(dtype or torch.float)
            if rows and not _looks_up(module)
            else tensor
        )

    return map_inputs(taken, inputs)


def _looks_up(module: nn.Module) -> bool:
    kinds = (nn.Embedding, nn.EmbeddingBag)
    return any(isinstance(part, kinds) for part in module.modules())


def forward(module: Callable[..., Any], inputs: Inputs) -> Tensor:
    """Call a module with a tensor, or with a mapping as keyword arguments.

    Inputs come in the type that the module computes in.

    A module may return its outputs alone, in a mapping under ``"logits"``, or as the
    attribute ``logits`` of an object, as models of Hugging Face do.

    Example:
        >>> forward(lambda x: {"logits": 2 * x, "loss": None}, torch.ones(2))
        tensor([2., 2.])
    """
    if isinstance(module, nn.Module):
        inputs = as_taken(module, inputs)
    arguments, keywords = as_arguments(inputs)
    outputs = module(*arguments, **keywords)
    if isinstance(outputs, Tensor):
        return outputs
    if isinstance(outputs, Mapping):
        outputs = outputs.get("logits", outputs)
    else:
        outputs = getattr(outputs, "logits", outputs)
    if not isinstance(outputs, Tensor):
        raise ValueError(
            "module must return a tensor, or one under the name 'logits', "
            f"got {type(outputs).__name__} from {type(module).__name__}"
        )
    return outputs


@contextmanager
def refusal_named(inputs: Inputs, argument: str = "model") -> Iterator[None]:
    """Turn a module's error about its inputs into one that names their shape.

    Example:
        >>> with refusal_named(torch.zeros(2, 3)):  # doctest: +ELLIPSIS
        ...     nn.Linear(4, 1)(torch.zeros(2, 3))
        Traceback (most recent call last):
        ValueError: model must accept samples of shape (3,), but: mat1 and mat2...
    """
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except (IndexError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, ValueError) and not _DIMENSIONS.match(str(error)):
            raise  # says already what is wrong
        tensors = [inputs] if isinstance(inputs, Tensor) else list(inputs.values())
        shapes = ", ".join(str(tuple(tensor.shape[1:])) for tensor in tensors)
        raise ValueError(
            f"{argument} must accept samples of shape {shapes}, but: {error}"
        ) from error


def check_rows(outputs: Tensor, inputs: Inputs) -> None:
    """Raise if outputs of several members have not a row for every sample.

    Example:
        >>> check_rows(torch.zeros(3, 10), torch.zeros(64))
        Traceback (most recent call last):
        ValueError: members must return a row of outputs for each of 64 samples (a single sample goes in as a batch of one, such as sample[None]), got 'outputs of shape (10,)'
    """  # noqa: E501 - a doctest must show the whole message
    first = inputs if isinstance(inputs, Tensor) else next(iter(inputs.values()))
    rule = (
        f"return a row of outputs for each of {len(first)} samples (a single sample "
        "goes in as a batch of one, such as sample[None])"
    )
    shape = tuple(outputs.shape[1:])
    require(shape[:1] == (len(first),), "members", rule, f"outputs of shape {shape}")


def as_arguments(inputs: Inputs) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
    """Return the positional and keyword arguments that inputs stand for."""
    return ((inputs,), {}) if isinstance(inputs, Tensor) else ((), dict(inputs))


def one_sample(inputs: Inputs) -> Inputs:
    """Return a single sample as a batch of one."""
    if isinstance(inputs, Tensor):
        return inputs[None]
    return {name: value[None] for name, value in inputs.items()}


def over_samples(function: Callable[..., Any], *arguments: Any) -> Any:
    """Apply a function of one sample to many, vectorized where possible.

    A module that looks at the values of its inputs, or runs a recurrent layer, cannot
    be vectorized; its samples are taken one by one.
    """
    try:
        return vmap(function, randomness="same")(*arguments)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError:
        # Not always one that names vmap; what fails otherwise fails below again.
        pass
    samples = len(tree_leaves(arguments)[0])
    results = [
        function(*tree_map(lambda tensor, row=row: tensor[row], arguments))
        for row in range(samples)
    ]
    return tree_map(lambda *values: torch.stack(values), *results)


def device_of(module: nn.Module) -> torch.device:
    """Return where a module's first parameter or buffer lies."""
    for tensor in (*module.parameters(), *module.buffers()):
        return tensor.device
    return torch.device("cpu")


def dtype_of(module: nn.Module) -> torch.dtype | None:
    """Return the type of a module's first floating parameter or buffer, if any."""
    for tensor in chain(module.parameters(), module.buffers()):
        if tensor.is_floating_point():
            return tensor.dtype
    return None


def chunks(inputs: Inputs, batch_size: int) -> Iterator[Inputs]:
    """Yield inputs in batches along the first axis."""
    if isinstance(inputs, Tensor):
        yield from inputs.split(batch_size)
        return
    names = list(inputs)
    for parts in zip(*(inputs[n].split(batch_size) for n in names), strict=True):
        yield dict(zip(names, parts, strict=True))


def blocks(batch: Batch, size: int) -> Iterator[Batch]:
    """Yield a batch in parts of at most ``size`` samples, in order."""
    if len(batch.targets) <= size:
        yield batch._replace(division=None)
        return
    for start in range(0, len(batch.targets), size):
        yield batch.take(slice(start, start + size))


def trained_batchnorms(module: nn.Module) -> list[nn.modules.batchnorm._BatchNorm]:
    """Return the layers whose running statistics training changes."""
    kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
    frozen = {q for p in module.modules() if isinstance(p, Frozen) for q in p.modules()}
    return [
        part
        for part in module.modules()
        if isinstance(part, kinds) and part not in frozen and part.track_running_stats
    ]


def reestimate_batchnorm(
    module: nn.Module, dataset: Dataset[Any], batch_size: int = 256
) -> None:
    """Estimate BatchNorm's running statistics anew, as a mean over all batches."""
    norms = trained_batchnorms(module)
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    with evaluating(module), torch.no_grad():
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None
            norm.training = True
        try:
            for batch in in_order(dataset, batch_size, device=device_of(module)):
                forward(module, batch.inputs)
        finally:
            for norm, momentum in zip(norms, momenta, strict=True):
                norm.momentum = momentum


def classifier_of(model: nn.Module) -> nn.Linear:
    """Return a model's last linear layer.

    Example:
        >>> classifier_of(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)))
        Linear(in_features=3, out_features=2, bias=True)
    """
    named = getattr(model, "classifier", None)
    inside = named if isinstance(named, nn.Module) else model
    layers = [part for part in inside.modules() if isinstance(part, nn.Linear)]
    require(len(layers) > 0, "model", "have a linear layer", type(model).__name__)
    return layers[-1]
