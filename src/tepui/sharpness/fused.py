r"""Per-sample gradient norms of convolutions and BatchNorm in one GPU kernel each.

A sample's weight gradient at one tap of a convolution's kernel is
:math:`\sum_p g_p a_{p + \text{tap}}^\top` over output positions :math:`p`. Each program
sums one tile of it in registers and writes only the sum of its squares, so neither
patches of the input nor gradients of the weight reach memory. Tiles are added up
afterwards in a fixed order: results repeat to the bit.
"""

from collections.abc import Collection
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

LARGEST_TILE = 128
SMALLEST_TILE = 16  # of a matrix product in Triton

# Sizes by which no load is aligned; a kernel compiled for some of them serves all.
SIZES = (
    *("height", "width", "out_width", "positions", "stride_down", "stride_across"),
    *("top", "left", "dilation_down", "dilation_across", "kernel_width"),
    *("column_tiles", "taps", "tiles"),
)


def convolution_norms(
    module: nn.Conv2d,
    inputs: Tensor,
    grads: Tensor,
    padding: tuple[int, int],
    mask: Tensor | None = None,
) -> Tensor:
    """Return each sample's squared gradient norm over a convolution's weight."""
    inputs = inputs.to(grads.dtype).contiguous(memory_format=torch.channels_last)
    grads = grads.contiguous(memory_format=torch.channels_last)
    samples, out_channels, out_height, out_width = grads.shape
    channels, height, width = inputs.shape[1:]
    rows, columns = (_tile(count) for count in (out_channels, channels))
    taps = module.kernel_size[0] * module.kernel_size[1]
    column_tiles = -(-channels // columns)
    tiles = taps * -(-out_channels // rows) * column_tiles
    squares = torch.empty(samples, tiles, device=grads.device)
    alive = None if mask is None else mask.permute(2, 3, 0, 1).contiguous()
    _convolution_norms[(samples * tiles,)](
        inputs,
        grads,
        squares,
        squares if alive is None else alive,
        channels,
        height,
        width,
        out_channels,
        out_width,
        out_height * out_width,
        *module.stride,
        *padding,
        *module.dilation,
        module.kernel_size[1],
        column_tiles,
        taps,
        tiles,
        ROUNDED=torch.get_float32_matmul_precision() != "highest",
        MASKED=alive is not None,
        ROWS=rows,
        COLUMNS=columns,
        POSITIONS=min(_tile(out_height * out_width), 128 // grads.element_size()),
        num_warps=8 if rows * columns > 64 * 64 else 4,
    )
    return squares.sum(1)


def batch_norm_norms(
    module: Any, inputs: Tensor, grads: Tensor, names: Collection[str]
) -> Tensor:
    """Return each sample's squared gradient norm over BatchNorm's scale and shift."""
    inputs = inputs.contiguous(memory_format=torch.channels_last)
    grads = grads.contiguous(memory_format=torch.channels_last)
    samples, channels = grads.shape[:2]
    columns = _tile(channels)
    tiles = -(-channels // columns)
    squares = torch.empty(samples, tiles, device=grads.device)
    _batch_norm_norms[(samples * tiles,)](
        inputs,
        grads,
        module.running_mean,
        module.running_var,
        squares,
        channels,
        grads[0, 0].numel(),
        tiles,
        module.eps,
        WEIGHT="weight" in names,
        BIAS="bias" in names,
        COLUMNS=columns,
        POSITIONS=32,
    )
    return squares.sum(1)


def _tile(size: int) -> int:
    return max(SMALLEST_TILE, min(LARGEST_TILE, triton.next_power_of_2(size)))


@triton.jit(do_not_specialize=SIZES)
def _convolution_norms(  # pragma: no cover - compiled for the GPU
    inputs,
    grads,
    squares,
    alive,
    channels,
    height,
    width,
    out_channels,
    out_width,
    positions,
    stride_down,
    stride_across,
    top,
    left,
    dilation_down,
    dilation_across,
    kernel_width,
    column_tiles,
    taps,
    tiles,
    ROUNDED: tl.constexpr,
    MASKED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    POSITIONS: tl.constexpr,
):
    """Square one tile of one sample's weight gradient at one tap of the kernel."""
    sample = (tl.program_id(0) // tiles).to(tl.int64)
    tile = tl.program_id(0) % tiles
    tap, block = tile % taps, tile // taps
    down = (tap // kernel_width) * dilation_down - top
    across = (tap % kernel_width) * dilation_across - left
    row = (block // column_tiles) * ROWS + tl.arange(0, ROWS)
    column = (block % column_tiles) * COLUMNS + tl.arange(0, COLUMNS)
    inputs += sample * height * width * channels
    grads += sample * positions * out_channels
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, positions, POSITIONS):
        position = start + tl.arange(0, POSITIONS)
        y = (position // out_width) * stride_down + down
        x = (position % out_width) * stride_across + across
        real = position < positions
        inside = real & (y >= 0) & (y < height) & (x >= 0) & (x < width)
        g = tl.load(
            grads + position[None, :] * out_channels + row[:, None],
            mask=real[None, :] & (row[:, None] < out_channels),
            other=0.0,
        )
        a = tl.load(
            inputs + (y * width + x)[:, None] * channels + column[None, :],
            mask=inside[:, None] & (column[None, :] < channels),
            other=0.0,
        )
        if ROUNDED and g.dtype == tl.float32:
            g, a = g.to(tl.bfloat16), a.to(tl.bfloat16)
        total = tl.dot(g, a, total, input_precision="ieee")
    if MASKED:
        there = (row[:, None] < out_channels) & (column[None, :] < channels)
        at = (tap * out_channels + row[:, None]) * channels + column[None, :]
        total = tl.where(tl.load(alive + at, mask=there, other=0) != 0, total, 0.0)
    square = tl.sum(tl.sum(total * total, 1), 0)
    tl.store(squares + sample * tiles + tile, square)


@triton.jit(do_not_specialize=SIZES)
def _batch_norm_norms(  # pragma: no cover - compiled for the GPU
    inputs,
    grads,
    mean,
    variance,
    squares,
    channels,
    positions,
    tiles,
    epsilon,
    WEIGHT: tl.constexpr,
    BIAS: tl.constexpr,
    COLUMNS: tl.constexpr,
    POSITIONS: tl.constexpr,
):
    """Square the gradients of some channels' scale and shift for one sample."""
    sample = (tl.program_id(0) // tiles).to(tl.int64)
    tile = tl.program_id(0) % tiles
    column = tile * COLUMNS + tl.arange(0, COLUMNS)
    there = column < channels
    center = tl.load(mean + column, mask=there, other=0.0)
    spread = tl.load(variance + column, mask=there, other=1.0) + epsilon
    inputs += sample * positions * channels
    grads += sample * positions * channels
    scale = tl.zeros((COLUMNS,), dtype=tl.float32)
    shift = tl.zeros((COLUMNS,), dtype=tl.float32)
    for start in range(0, positions, POSITIONS):
        position = start + tl.arange(0, POSITIONS)
        at = position[:, None] * channels + column[None, :]
        mask = (position < positions)[:, None] & there[None, :]
        g = tl.load(grads + at, mask=mask, other=0.0).to(tl.float32)
        a = tl.load(inputs + at, mask=mask, other=0.0).to(tl.float32)
        scale += tl.sum(g * (a - center[None, :]), 0)
        shift += tl.sum(g, 0)
    total = tl.zeros((COLUMNS,), dtype=tl.float32)
    if WEIGHT:
        total += scale * scale / spread
    if BIAS:
        total += shift * shift
    tl.store(squares + sample * tiles + tile, tl.sum(total, 0))
