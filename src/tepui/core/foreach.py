"""Arithmetic on lists of tensors, in one kernel for all of a list.

A network has hundreds of parameters, and hundreds of launches per update would cost
more than the arithmetic. Torch offers these kernels under private names only, which its
own optimizers rest on; every use of them in this package is here.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torch.nn.utils import get_total_norm


def wide(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Return tensors in float32 if they are in less."""
    return [t.float() if t.dtype.itemsize < 4 else t for t in tensors]


def cast(tensors: Iterable[Tensor], like: Iterable[Tensor]) -> list[Tensor]:
    """Return tensors in the types of others."""
    return [t.to(other.dtype) for t, other in zip(tensors, like, strict=True)]


def norm(tensors: Iterable[Tensor]) -> Tensor:
    """Return the joint norm of all tensors, which would overflow float16.

    Example:
        >>> norm([torch.full((2,), 6e4, dtype=torch.float16)])
        tensor(84852.8125)
    """
    return get_total_norm(wide(tensors))


def add(first: Sequence[Tensor], second: Sequence[Tensor]) -> list[Tensor]:
    """Return sums, tensor by tensor."""
    return list(torch._foreach_add(list(first), list(second)))


def subtract(first: Sequence[Tensor], second: Sequence[Tensor]) -> list[Tensor]:
    """Return differences, tensor by tensor."""
    return list(torch._foreach_sub(list(first), list(second)))


def multiply(first: Sequence[Tensor], second: Sequence[Tensor]) -> list[Tensor]:
    """Return products, tensor by tensor."""
    return list(torch._foreach_mul(list(first), list(second)))


def scale(tensors: Sequence[Tensor], factor: float | Tensor) -> list[Tensor]:
    """Return all tensors times one number."""
    return list(torch._foreach_mul(list(tensors), factor))


def interpolate(
    start: Sequence[Tensor], end: Sequence[Tensor], share: float
) -> list[Tensor]:
    """Return the points that lie a share of the way from one list to another."""
    return list(torch._foreach_lerp(list(start), list(end), share))


def add_(tensors: Sequence[Tensor], offsets: Sequence[Tensor]) -> None:
    """Add offsets in place."""
    torch._foreach_add_(list(tensors), list(offsets))


def multiply_(tensors: Sequence[Tensor], factors: Sequence[Tensor]) -> None:
    """Multiply in place, tensor by tensor."""
    torch._foreach_mul_(list(tensors), list(factors))


def scale_(tensors: Sequence[Tensor], factor: float | Tensor) -> None:
    """Multiply all tensors by one number, in place."""
    torch._foreach_mul_(list(tensors), factor)


def copy_(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    """Copy into the targets, all of one type in one kernel."""
    pairs = list(zip(targets, sources, strict=True))
    with torch.no_grad():
        for dtype in dict.fromkeys(target.dtype for target in targets):
            same = [pair for pair in pairs if pair[0].dtype == dtype]
            torch._foreach_copy_([pair[0] for pair in same], [pair[1] for pair in same])
