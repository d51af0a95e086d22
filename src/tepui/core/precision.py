"""How a block computes, whatever rounding the surroundings allow."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeVar, get_args

import torch

from tepui.core.checks import one_of

Precision = Literal["float32", "tf32", "bfloat16"]
"""In ``"tf32"`` a GPU rounds what enters matrix products; in ``"bfloat16"`` forward
passes run in bfloat16 as well, with float32 weights."""

Answer = TypeVar("Answer")


@contextmanager
def computing_in(precision: Precision, device: torch.device) -> Iterator[None]:
    """Compute inside the block as :func:`precision_on` says, and in nothing else.

    In float32 that is without TF32, bfloat16 and autocast.
    """
    used = precision_on(device, precision)
    narrow = torch.bfloat16 if used == "bfloat16" else None
    with (
        products(rounded=used != "float32"),
        torch.autocast(device.type, narrow, enabled=narrow is not None),
    ):
        yield


def precision_on(device: torch.device, precision: Precision) -> Precision:
    """Return what a device asked for a precision computes in: a CPU only in float32."""
    one_of("precision", precision, get_args(Precision))
    return precision if device.type == "cuda" else "float32"


@contextmanager
def products(*, rounded: bool) -> Iterator[None]:
    """Let products of float32 matrices be rounded to TF32 inside the block, or not."""
    parts = [(part, part.fp32_precision) for part in _parts_with_precision()]
    matmul = _answered(torch.get_float32_matmul_precision)
    cudnn = _answered(lambda: torch.backends.cudnn.allow_tf32)
    torch.set_float32_matmul_precision("high" if rounded else "highest")
    torch.backends.cudnn.allow_tf32 = rounded
    for part, _ in parts:
        part.fp32_precision = "tf32" if rounded else "ieee"
    try:
        yield
    finally:
        # Where newer settings contradicted them, the older ones stay strict.
        torch.set_float32_matmul_precision(matmul or "highest")
        torch.backends.cudnn.allow_tf32 = cudnn or False
        for part, precision in parts:
            part.fp32_precision = precision


def _parts_with_precision() -> list[Any]:
    """Return the parts with a precision of their own, of which older torch has none."""
    backends: Any = torch.backends
    cudnn, onednn = backends.cudnn, backends.mkldnn
    if not hasattr(cudnn, "conv"):
        return []
    operations = [cudnn.conv, cudnn.rnn, onednn.matmul, onednn.conv, onednn.rnn]
    return [backends.cuda.matmul, *operations]


def _answered(question: Callable[[], Answer]) -> Answer | None:
    """Return an older setting's value, None where newer settings contradict it."""
    try:
        return question()
    except RuntimeError:
        return None
