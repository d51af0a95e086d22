"""The kernels of :mod:`tepui.models.batch_norm`.

Activations lie as rows of channels. Every program sums some rows of some channels; the
partial sums are joined in a fixed order, so results repeat to the bit. Variances are
joined from those of the parts and not from squares, which would lose digits where the
mean is large.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

TILE = 4096  # elements that a program holds at once
CHANNELS = 64  # of a tile, at most
PROGRAMS = 512  # that sum, about
PARTS = 256  # into which rows are divided, at most
JOINED = 16  # channels whose parts one program joins

# Sizes that only bound loops; a kernel compiled for some of them serves all.
SIZES = ("rows", "share", "parts")


def forward(
    norm: nn.BatchNorm2d, x: Tensor, added: Tensor | None, relu: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the result, and every channel's mean and reciprocal deviation."""
    rows, channels, tile, parts, share = _layout(x)
    partial = torch.empty(2, parts, channels, device=x.device)
    mean, scale = torch.empty(2, channels, device=x.device)
    blocks = triton.cdiv(channels, tile[1])
    _moments[(parts, blocks)](x, partial, rows, channels, share, parts, *tile)
    _join_moments[(triton.cdiv(channels, JOINED),)](
        partial,
        mean,
        scale,
        norm.running_mean,
        norm.running_var,
        norm.num_batches_tracked,
        rows,
        channels,
        share,
        parts,
        norm.momentum,
        norm.eps,
        PARTS,
        JOINED,
    )
    return applied(norm, x, mean, scale, added, relu), mean, scale


def applied(
    norm: nn.BatchNorm2d,
    x: Tensor,
    mean: Tensor,
    scale: Tensor,
    added: Tensor | None,
    relu: bool,
) -> Tensor:
    """Return the result for every channel's mean and reciprocal deviation."""
    rows, channels, tile, _, _ = _layout(x)
    out = torch.empty_like(x)
    grid = (triton.cdiv(rows, tile[0]), triton.cdiv(channels, tile[1]))
    _apply[grid](
        x,
        x if added is None else added,
        out,
        mean,
        scale,
        norm.weight,
        norm.bias,
        rows,
        channels,
        added is not None,
        relu,
        *tile,
    )
    return out


def backward(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    mean: Tensor,
    scale: Tensor,
    out: Tensor | None,
    relu: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Return the gradients of x, weight, bias and, if there is an out, the addend."""
    rows, channels, tile, parts, share = _layout(x)
    partial = torch.empty(2, parts, channels, device=x.device)
    sums = torch.empty(2, channels, device=x.device)
    dx = torch.empty_like(x)
    dadded = None if out is None else torch.empty_like(x)
    values = (grad, x, x if out is None else out, mean, scale, weight, bias)
    masks = relu, out is not None
    blocks = triton.cdiv(channels, tile[1])
    _gradient_sums[(parts, blocks)](
        *values, partial, rows, channels, share, parts, *masks, *tile
    )
    _join_sums[(2 * triton.cdiv(channels, JOINED),)](
        partial, sums, channels, parts, PARTS, JOINED
    )
    _apply_gradient[(triton.cdiv(rows, tile[0]), blocks)](
        *values,
        sums,
        dx,
        dx if dadded is None else dadded,
        rows,
        channels,
        *masks,
        *tile,
    )
    return dx, sums[1], sums[0], dadded


def _layout(x: Tensor) -> tuple[int, int, tuple[int, int], int, int]:
    """Return rows, channels, a tile's of both, parts and the rows of each part."""
    channels = x.shape[1]
    rows = x.numel() // channels
    columns = min(CHANNELS, triton.next_power_of_2(channels))
    tile = (TILE // columns, columns)
    wanted = min(PARTS, max(1, PROGRAMS // triton.cdiv(channels, columns)))
    share = tile[0] * triton.cdiv(rows, tile[0] * wanted)
    return rows, channels, tile, triton.cdiv(rows, share), share


@triton.jit(do_not_specialize=SIZES)
def _moments(  # pragma: no cover - compiled for the GPU
    x,
    partial,
    rows,
    channels,
    share,
    parts,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Write the mean of some rows and the sum of squares around it."""
    part = tl.program_id(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    there = column < channels
    last = tl.minimum((part + 1) * share, rows)
    # Every row of a tile keeps moments of its own; they are joined after the loop.
    count = tl.zeros((ROWS,), dtype=tl.float32)
    mean = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    squares = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for offset in range(0, share, ROWS):
        row = part * share + offset + tl.arange(0, ROWS)
        real = (row < last)[:, None] & there[None, :]
        at = row[:, None] * channels + column[None, :]
        value = tl.load(x + at, mask=real, other=0.0).to(tl.float32)
        count += (row < last).to(tl.float32)
        step = tl.where(real, value - mean, 0.0)
        mean += step * (1.0 / tl.maximum(count, 1.0))[:, None]
        squares += step * (value - mean)
    total = tl.sum(count, 0)
    center = tl.sum(mean * count[:, None], 0) / total
    apart = mean - center[None, :]
    squares += apart * apart * count[:, None]
    tl.store(partial + part * channels + column, center, mask=there)
    at = (parts + part) * channels + column
    tl.store(partial + at, tl.sum(squares, 0), mask=there)


@triton.jit(do_not_specialize=SIZES)
def _join_moments(  # pragma: no cover - compiled for the GPU
    partial,
    mean,
    scale,
    running_mean,
    running_variance,
    batches,
    rows,
    channels,
    share,
    parts,
    momentum,
    epsilon,
    PARTS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Join the moments of all parts, and move the running ones."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    there = column < channels
    part = tl.arange(0, PARTS)
    real = (part < parts)[:, None] & there[None, :]
    at = part[:, None] * channels + column[None, :]
    means = tl.load(partial + at, mask=real, other=0.0)
    squares = tl.load(partial + parts * channels + at, mask=real, other=0.0)
    count = tl.maximum(tl.minimum(rows - part * share, share), 0).to(tl.float32)
    center = tl.sum(means * count[:, None], 0) / rows
    apart = tl.where(real, means - center[None, :], 0.0)
    total = tl.sum(squares + apart * apart * count[:, None], 0)
    tl.store(mean + column, center, mask=there)
    tl.store(scale + column, 1.0 / tl.sqrt_rn(total / rows + epsilon), mask=there)
    old = tl.load(running_mean + column, mask=there)
    tl.store(running_mean + column, old + momentum * (center - old), mask=there)
    old = tl.load(running_variance + column, mask=there)
    new = total / (rows - 1)
    tl.store(running_variance + column, old + momentum * (new - old), mask=there)
    if tl.program_id(0) == 0:
        tl.store(batches, tl.load(batches) + 1)


@triton.jit(do_not_specialize=SIZES)
def _apply(  # pragma: no cover - compiled for the GPU
    x,
    added,
    out,
    mean,
    scale,
    weight,
    bias,
    rows,
    channels,
    ADDS: tl.constexpr,
    RELU: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Normalize one tile, add another to it, and clip it below."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    there = column < channels
    real = (row < rows)[:, None] & there[None, :]
    at = row[:, None] * channels + column[None, :]
    slope = tl.load(scale + column, mask=there) * tl.load(weight + column, mask=there)
    center = tl.load(mean + column, mask=there)
    shift = tl.load(bias + column, mask=there)
    value = tl.load(x + at, mask=real).to(tl.float32)
    value = (value - center[None, :]) * slope[None, :] + shift[None, :]
    if ADDS:
        value += tl.load(added + at, mask=real).to(tl.float32)
    if RELU:
        value = tl.where(value < 0, 0.0, value)  # NaN stays NaN
    tl.store(out + at, value.to(out.dtype.element_ty), mask=real)


@triton.jit
def _masked(  # pragma: no cover - compiled for the GPU
    grad,
    x,
    out,
    at,
    real,
    center,
    slope,
    shift,
    RELU: tl.constexpr,
    ADDS: tl.constexpr,
):
    """Return a tile of the gradient before ReLU, and the inputs around their mean."""
    value = tl.load(x + at, mask=real, other=0.0).to(tl.float32) - center[None, :]
    g = tl.load(grad + at, mask=real, other=0.0).to(tl.float32)
    if RELU:
        if ADDS:
            y = tl.load(out + at, mask=real, other=0.0).to(tl.float32)
        else:
            y = value * slope[None, :] + shift[None, :]
        g = tl.where(y <= 0, 0.0, g)
    return g, value


@triton.jit(do_not_specialize=SIZES)
def _gradient_sums(  # pragma: no cover - compiled for the GPU
    grad,
    x,
    out,
    mean,
    scale,
    weight,
    bias,
    partial,
    rows,
    channels,
    share,
    parts,
    RELU: tl.constexpr,
    ADDS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Sum the gradients of shift and scale over some rows."""
    part = tl.program_id(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    there = column < channels
    center = tl.load(mean + column, mask=there, other=0.0)
    spread = tl.load(scale + column, mask=there, other=0.0)
    slope = spread * tl.load(weight + column, mask=there, other=0.0)
    shift = tl.load(bias + column, mask=there, other=0.0)
    last = tl.minimum((part + 1) * share, rows)
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    product = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for offset in range(0, share, ROWS):
        row = part * share + offset + tl.arange(0, ROWS)
        real = (row < last)[:, None] & there[None, :]
        at = row[:, None] * channels + column[None, :]
        g, value = _masked(grad, x, out, at, real, center, slope, shift, RELU, ADDS)
        total += g
        product += g * value
    tl.store(partial + part * channels + column, tl.sum(total, 0), mask=there)
    at = (parts + part) * channels + column
    tl.store(partial + at, tl.sum(product, 0) * spread, mask=there)


@triton.jit(do_not_specialize=SIZES)
def _join_sums(  # pragma: no cover - compiled for the GPU
    partial,
    sums,
    channels,
    parts,
    PARTS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Add up the parts of one of the two sums."""
    which = tl.program_id(0) % 2
    column = (tl.program_id(0) // 2) * COLUMNS + tl.arange(0, COLUMNS)
    part = tl.arange(0, PARTS)
    real = (part < parts)[:, None] & (column < channels)[None, :]
    at = (which * parts + part[:, None]) * channels + column[None, :]
    total = tl.sum(tl.load(partial + at, mask=real, other=0.0), 0)
    tl.store(sums + which * channels + column, total, mask=column < channels)


@triton.jit(do_not_specialize=SIZES)
def _apply_gradient(  # pragma: no cover - compiled for the GPU
    grad,
    x,
    out,
    mean,
    scale,
    weight,
    bias,
    sums,
    dx,
    dadded,
    rows,
    channels,
    RELU: tl.constexpr,
    ADDS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Write one tile of the gradients of x and of what was added."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    there = column < channels
    real = (row < rows)[:, None] & there[None, :]
    at = row[:, None] * channels + column[None, :]
    center = tl.load(mean + column, mask=there)
    spread = tl.load(scale + column, mask=there)
    slope = spread * tl.load(weight + column, mask=there)
    shift = tl.load(bias + column, mask=there)
    average = tl.load(sums + column, mask=there) / rows
    along = tl.load(sums + channels + column, mask=there) * spread / rows
    g, value = _masked(grad, x, out, at, real, center, slope, shift, RELU, ADDS)
    if ADDS:
        tl.store(dadded + at, g.to(dadded.dtype.element_ty), mask=real)
    result = (g - average[None, :] - value * along[None, :]) * slope[None, :]
    tl.store(dx + at, result.to(dx.dtype.element_ty), mask=real)
