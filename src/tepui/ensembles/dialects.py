"""One set of weights, many spellings: state dicts by the names that a module has.

Programs put words before the names of a state dict: ``module.`` of parallel wrappers,
``model.`` or any other attribute of a Lightning module, ``_orig_mod.`` of compiled
ones, also in the middle. Which words they are follows from the module that the weights
are for. What SharpBalance's released code calls the parts of its ResNet-18 for CIFAR is
understood too.
"""

import re
from collections import Counter
from collections.abc import Mapping

from torch import Tensor, nn

from tepui.core.checks import require
from tepui.models import ResNet18
from tepui.models.torchvision_weights import tensor_names

# Of torch.compile, FSDP and activation checkpointing, anywhere in a name.
MARKS = re.compile(r"\b(_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\.")
COUNTER = "num_batches_tracked"


def as_named_in(
    module: nn.Module, state: Mapping[str, Tensor], where: str
) -> dict[str, Tensor]:
    """Return a state by a module's names; what does not fit keeps its own.

    Of a checkpoint that holds a model under one name and other parts beside it (a loss
    with weights, metrics), the model's tensors alone are taken.

    Example:
        >>> import torch
        >>> state = {"net.weight": torch.ones(1, 2), "loss.weight": torch.ones(3)}
        >>> as_named_in(nn.Linear(2, 1, bias=False), state, "file")
        {'weight': tensor([[1., 1.]])}
    """
    present = module.state_dict()
    ours = {MARKS.sub("", name): name for name in present}
    unmarked = {MARKS.sub("", name): tensor for name, tensor in state.items()}
    theirs = _released_by_name(unmarked, module)
    prefix = _prefix({name: present[own] for name, own in ours.items()}, theirs, where)
    named = {
        name.removeprefix(prefix): tensor
        for name, tensor in theirs.items()
        if name.startswith(prefix)
    }
    fitted = {ours.get(name, name): tensor for name, tensor in named.items()}
    return _counters(module) | fitted


def _prefix(
    ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor], where: str
) -> str:
    """Return what stands before a module's names in a state."""
    found: Counter[str] = Counter()
    for name in theirs:
        parts = name.split(".")
        for count in range(len(parts)):
            if ".".join(parts[count:]) in ours and not _counts(name):
                found["".join(f"{part}." for part in parts[:count])] += 1
    needed = [name for name in ours if not _counts(name)]
    whole = [prefix for prefix, count in found.items() if count == len(needed)]
    if "" in whole or not found:
        return ""
    if not whole:
        return max(found, key=lambda prefix: found[prefix])
    shapes = {name: ours[name].shape for name in needed}
    fitting = [
        prefix
        for prefix in whole
        if all(theirs[prefix + name].shape == shape for name, shape in shapes.items())
    ]
    rule = "hold the weights once (give the state dict that is meant)"
    require(len(fitting) < 2, where, rule, f"them under each of {sorted(fitting)}")
    return (fitting or whole)[0]


def _counts(name: str) -> bool:
    return name.rpartition(".")[2] == COUNTER


def _counters(module: nn.Module) -> dict[str, Tensor]:
    """Return the counters of batches, which torch before 0.4.1 did not save."""
    state = module.state_dict().items()
    return {name: tensor for name, tensor in state if _counts(name)}


def _released_by_name(
    state: Mapping[str, Tensor], module: nn.Module
) -> Mapping[str, Tensor]:
    """Return tensors of the released ResNet-18 by the names of ours, others as is."""
    if not isinstance(module, ResNet18):
        return state
    released = tensor_names(module.state_dict(), module.released_names())
    ours = {theirs: name for name, theirs in released.items()}
    first = next(iter(ours))
    before = [name.removesuffix(first) for name in state if name.endswith(first)]
    prefix = min(before, key=len, default="")
    return {
        prefix + ours[rest] if (rest := name.removeprefix(prefix)) in ours else name: t
        for name, t in state.items()
    }
