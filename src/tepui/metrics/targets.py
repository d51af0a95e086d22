"""Metrics of outputs that meet targets of the same shape, in chunks.

Targets have shape ``(samples, …)``: one number per sample, or several. What members say
of them has a further axis in front, ``(members, samples, …)``. All numbers of all
samples count alike.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from tepui.core.checks import have_values, require
from tepui.metrics.chunks import check_finite, dtype_of, wide
from tepui.metrics.streaming import Streaming


class TargetMean(Streaming[Tensor]):
    """A metric that is a mean over all numbers to be predicted."""

    num_states = 2

    def add(self, values: Tensor, *sources: Tensor) -> None:
        """Add some values, given what they derive from."""
        summed = wide(values) if values.is_floating_point() else values
        count = values.new_full((), values.numel(), dtype=torch.int64)
        self.keep((count, summed.sum()), *sources)

    def value(self, *state: Tensor) -> Tensor:
        """Return the mean."""
        count, total = state
        return wide(total) / count


def member_tensors(targets: Tensor, **outputs: Tensor) -> tuple[Tensor, ...]:
    """Return what members say, then the targets, checked and in one type."""
    check_numbers("targets", targets)
    for name, values in outputs.items():
        shape = tuple(values.shape)
        rule = f"have shape (members, {', '.join(map(str, targets.shape))})"
        require(values.ndim > 0 and shape[0] > 0, name, rule, shape)
        require(shape[1:] == tuple(targets.shape), name, rule, shape)
        check_numbers(name, values)
    sizes = {name: len(values) for name, values in outputs.items()}
    require(len(set(sizes.values())) == 1, " and ".join(sizes), "agree", sizes)
    return in_one_type(*outputs.values(), targets)


def joint_tensors(**tensors: Tensor) -> tuple[Tensor, ...]:
    """Return tensors in the shape of the last one, checked and in one type."""
    *_, (last, model) = tensors.items()
    check_numbers(last, model)
    for name, values in tensors.items():
        rule = f"have the shape of {last}, {tuple(model.shape)}"
        require(values.shape == model.shape, name, rule, tuple(values.shape))
        check_numbers(name, values)
    return in_one_type(*tensors.values())


def quantile_tensors(
    targets: Tensor, quantiles: Tensor, levels: Tensor
) -> tuple[Tensor, Tensor]:
    """Return quantiles and targets, the latter with an axis for the levels."""
    check_numbers("targets", targets)
    wanted = (*targets.shape, len(levels))
    rule = f"have shape {wanted}, the levels last"
    require(tuple(quantiles.shape) == wanted, "quantiles", rule, tuple(quantiles.shape))
    check_numbers("quantiles", quantiles)
    values, answers = in_one_type(quantiles, targets)
    return values, answers.unsqueeze(-1)


def check_numbers(name: str, values: Tensor) -> None:
    """Check that values are ``(samples, …)``, floating and finite."""
    shape = tuple(values.shape)
    require(values.ndim > 0, name, "have shape (samples, …)", shape)
    require(values.is_floating_point(), name, "be floating point", values.dtype)
    require(values.numel() > 0, name, "hold at least one sample", shape)
    check_finite(name, values)


def check_variances(variances: Tensor) -> None:
    """Check that variances are positive."""
    if have_values():
        least = float(variances.detach().min())
        require(least > 0, "variances", "be positive", least)


def check_levels(levels: Sequence[float]) -> Tensor:
    """Return the levels of quantiles, which must lie between 0 and 1, in float64."""
    require(len(levels) > 0, "levels", "hold at least one", tuple(levels))
    inside = all(0 < level < 1 for level in levels)
    require(inside, "levels", "lie in (0, 1)", tuple(levels))
    return torch.tensor([*levels], dtype=torch.float64, device="cpu")


def in_one_type(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Return tensors without gradient, in the widest type among them."""
    dtype = torch.float32
    for tensor in tensors:
        dtype = torch.promote_types(dtype, dtype_of(tensor))
    return tuple(tensor.detach().to(dtype) for tensor in tensors)
