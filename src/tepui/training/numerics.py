"""Precision, determinism and threads of a run, set inside a block."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import cuda

from tepui.core.checks import one_of, require
from tepui.core.precision import products

Precision = Literal["auto", "float32", "tf32", "bfloat16"]


@dataclass(frozen=True)
class Numerics:
    """How a run computes.

    In ``"tf32"`` a GPU rounds what enters matrix products; in ``"bfloat16"`` training's
    forward passes run in bfloat16, with float32 weights, and all else as in ``"tf32"``.
    """

    device: torch.device
    precision: Literal["float32", "tf32", "bfloat16"]
    deterministic: bool
    threads: int  # threads of the CPU; results depend on their number

    @property
    def autocast(self) -> torch.dtype | None:
        """The type of forward passes, None for that of the weights."""
        return torch.bfloat16 if self.precision == "bfloat16" else None

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Set torch's switches inside the block and restore them after."""
        exactly = torch.are_deterministic_algorithms_enabled()
        warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
        benchmark, threads = torch.backends.cudnn.benchmark, torch.get_num_threads()
        torch.use_deterministic_algorithms(
            self.deterministic or exactly,
            warn_only=warn_only and not self.deterministic,
        )
        # Trying cuDNN's algorithms takes seconds per shape for no gain.
        torch.backends.cudnn.benchmark = False
        set_threads(self.threads)
        rounded = self.precision != "float32"
        try:
            with products(rounded=rounded), not_autocast(self.device.type):
                yield
        finally:
            torch.use_deterministic_algorithms(exactly, warn_only=warn_only)
            torch.backends.cudnn.benchmark = benchmark
            set_threads(threads)


def set_threads(number: int) -> None:
    """Compute with so many threads on a CPU; torch takes its time even for as many."""
    if torch.get_num_threads() != number:
        torch.set_num_threads(number)


def not_autocast(device: str) -> AbstractContextManager[object]:
    """Return a block without the autocast of its surroundings, if they have one."""
    if not torch.is_autocast_enabled(device):
        return nullcontext()
    # Inside another block rounded weights would be kept from step to step.
    return torch.autocast(device, enabled=False, cache_enabled=False)


def numerics_of(
    device: str | torch.device | None,
    precision: Precision,
    deterministic: bool,
    threads: int | None = None,
) -> Numerics:
    """Resolve what the caller left open."""
    one_of("precision", precision, get_args(Precision))
    place = place_of(device)
    if precision == "auto":
        precision = "bfloat16" if place.type == "cuda" else "float32"
    threads = threads or torch.get_num_threads()
    return Numerics(place, precision, deterministic, threads)


def place_of(device: str | torch.device | None) -> torch.device:
    """Return a device that is there; by default a GPU if there is one."""
    try:
        place = torch.device(device or ("cuda" if cuda.is_available() else "cpu"))
    except RuntimeError as error:
        raise ValueError(f"device must name a device, got {device!r}") from error
    there = place.type != "cuda" or cuda.is_available()
    require(there, "device", "be available, but torch sees no CUDA device", str(device))
    return place
