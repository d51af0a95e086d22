"""Strict float32 inside a block, whatever rounding the surroundings allow."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

Answer = TypeVar("Answer")


@contextmanager
def strict_float32(device: torch.device) -> Iterator[None]:
    """Compute in full float32 inside the block: no TF32, no bfloat16, no autocast."""
    parts = [(part, part.fp32_precision) for part in _parts_with_precision()]
    matmul = _answered(torch.get_float32_matmul_precision)
    cudnn = _answered(lambda: torch.backends.cudnn.allow_tf32)
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    for part, _ in parts:
        part.fp32_precision = "ieee"
    try:
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        if matmul is not None:
            torch.set_float32_matmul_precision(matmul)
        if cudnn is not None:
            torch.backends.cudnn.allow_tf32 = cudnn
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
