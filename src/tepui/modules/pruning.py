r"""Sparse members: the smallest weights of a whole network are set to zero for good.

Global magnitude pruning removes the share :math:`s` of smallest :math:`|w|` among all
weights of linear and convolutional layers taken together; biases, normalization and
embeddings stay dense and do not count. Each pruned weight has a boolean mask beside it,
a buffer named after it (``weight_mask`` beside ``weight``), so that masks travel with
state dicts, devices and copies. Training multiplies gradients and weights by their
masks, and measures of sharpness leave masked weights out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from tepui.core.checks import require
from tepui.core.members import epoch_of, per_member, require_each
from tepui.core.types import check_fields
from tepui.core.warning import warn

SUFFIX = "_mask"

PRUNABLE = (nn.Linear, nn.modules.conv._ConvNd, nn.MultiheadAttention)


@final
@dataclass(frozen=True, kw_only=True)
class Prune:
    """When and how far members are pruned during a run.

    Attributes:
        sparsity: Share of the weights to remove; one value, or one per member.
        prune_at: Share of the run after which members are pruned, to the nearest
            epoch. At zero the initial weights decide, whose scale differs by layer:
            high sparsity can then empty whole layers, and a warning reports this.
    """

    sparsity: float | tuple[float, ...] = per_member(0.9)
    prune_at: float = 0.5

    def __post_init__(self) -> None:
        check_fields(self)
        rule = "be a share in [0, 1)"
        require_each(lambda share: 0 <= share < 1, "sparsity", rule, self.sparsity)
        share = self.prune_at
        require(0 <= share < 1, "prune_at", rule, share)

    def epoch(self, epochs: int) -> int:
        """Return the epoch before which members are pruned, at the latest the last.

        Args:
            epochs: Length of the run.

        Returns:
            The epoch, from 0.

        Example:
            >>> tuple(Prune(prune_at=share).epoch(4) for share in (0.0, 0.5, 0.7, 0.9))
            (0, 2, 3, 3)
        """
        return min(epoch_of("prune_at", self.prune_at, epochs), epochs - 1)


def prune_(module: nn.Module, sparsity: float) -> None:
    """Set the smallest weights of a network to zero for good.

    Example:
        >>> layer = nn.Linear(4, 1, bias=False)
        >>> _ = layer.weight.data.copy_(torch.tensor([[3.0, -1.0, 0.5, -2.0]]))
        >>> prune_(layer, 0.5)
        >>> layer.weight.data
        tensor([[ 3., -0.,  0., -2.]])
    """
    require(0 <= sparsity < 1, "sparsity", "be a share in [0, 1)", sparsity)
    add_masks(module)
    masks = masks_of(module)
    parameters = dict(module.named_parameters())
    sizes = torch.cat([parameters[name].detach().abs().flatten() for name in masks])
    # A stable order decides among equals, so that the count is exact.
    smallest = sizes.sort(stable=True).indices[: round(sparsity * len(sizes))]
    kept = torch.ones(len(sizes), dtype=torch.bool, device=sizes.device)
    kept[smallest] = False
    parts = kept.split([mask.numel() for mask in masks.values()])
    for (name, mask), part in zip(masks.items(), parts, strict=True):
        mask.copy_(part.view(mask.shape))
        if not part.any():
            warn(f"all weights of {name} are pruned at sparsity {sparsity}")
    apply_masks(module)


def check_prunable(module: nn.Module) -> None:
    """Raise if a module has nothing that can be pruned."""
    there = next(_prunable(module), None) is not None
    require(there, "module", "have linear or convolutional layers", type(module))


def add_masks(module: nn.Module) -> None:
    """Give every weight that can be pruned a mask, true everywhere."""
    check_prunable(module)
    for layer, name, weight in _prunable(module):
        if name + SUFFIX not in layer._buffers:
            mask = torch.ones_like(weight, dtype=torch.bool, requires_grad=False)
            layer.register_buffer(name + SUFFIX, mask)


def masks_of(module: nn.Module) -> dict[str, Tensor]:
    """Return the masks of a module's weights by the name of the weight."""
    buffers = dict(module.named_buffers())
    return {
        name: buffers[name + SUFFIX]
        for name, _ in module.named_parameters()
        if name + SUFFIX in buffers
    }


def masks_in_state(module: nn.Module) -> dict[str, Tensor]:
    """Return copies of a module's masks by their names in its state dict.

    Example:
        >>> layer = nn.Linear(2, 1)
        >>> prune_(layer, 0.5)
        >>> list(masks_in_state(layer))
        ['weight_mask']
    """
    return {name + SUFFIX: mask.clone() for name, mask in masks_of(module).items()}


def adopt_masks(module: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Give a module the masks that a state holds and the module lacks."""
    parameters = dict(module.named_parameters())
    buffers = dict(module.named_buffers())
    for name in state:
        weight = name.removesuffix(SUFFIX)
        if name.endswith(SUFFIX) and name not in buffers and weight in parameters:
            layer, _, leaf = weight.rpartition(".")
            mask = torch.ones_like(parameters[weight], dtype=torch.bool)
            module.get_submodule(layer).register_buffer(leaf + SUFFIX, mask)


def apply_masks(module: nn.Module) -> None:
    """Set masked weights to zero."""
    masks = masks_of(module)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name in masks:
                parameter.mul_(masks[name])


def sparsity_of(module: nn.Module) -> float:
    """Return the share of zeros among the weights that can be pruned.

    Args:
        module: Any module; its linear and convolutional layers count.

    Returns:
        The share; NaN if there is no such layer.
    """
    weights = [weight for _, _, weight in _prunable(module)]
    zeros = sum(int((weight == 0).sum()) for weight in weights)
    count = sum(weight.numel() for weight in weights)
    return zeros / count if count else float("nan")


def _prunable(module: nn.Module) -> Iterator[tuple[nn.Module, str, Tensor]]:
    """Yield layer, name and value of every weight that can be pruned, each once."""
    seen: set[int] = set()
    for layer in module.modules():
        if not isinstance(layer, PRUNABLE):
            continue
        for name, weight in layer.named_parameters(recurse=False):
            if weight.ndim > 1 and weight.requires_grad and id(weight) not in seen:
                seen.add(id(weight))
                yield layer, name, weight
