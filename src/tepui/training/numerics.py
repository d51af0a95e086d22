"""Precision, determinism and threads of a run, set inside a block."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Literal, get_args

import torch

from tepui.core.checks import one_of, require

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
        kept = (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
            torch.backends.cudnn.benchmark,
            torch.get_float32_matmul_precision(),
            torch.backends.cudnn.allow_tf32,
            torch.get_num_threads(),
        )
        deterministic = self.deterministic or kept[0]
        self._set(
            deterministic,
            kept[1] and not self.deterministic,
            False,  # trying cuDNN's algorithms takes seconds per shape for no gain
            "highest" if self.precision == "float32" else "high",
            self.precision != "float32",
            self.threads,
        )
        try:
            with not_autocast(self.device.type):
                yield
        finally:
            self._set(*kept)

    @staticmethod
    def _set(
        deterministic: bool,
        warn_only: bool,
        benchmark: bool,
        matmul: str,
        tf32: bool,
        threads: int,
    ) -> None:
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
        torch.backends.cudnn.benchmark = benchmark
        torch.set_float32_matmul_precision(matmul)
        torch.backends.cudnn.allow_tf32 = tf32
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)


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
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    place = known_device(device)
    if precision == "auto":
        precision = "bfloat16" if place.type == "cuda" else "float32"
    threads = threads or torch.get_num_threads()
    return Numerics(place, precision, deterministic, threads)


def known_device(device: str | torch.device) -> torch.device:
    """Return the device of a name, if the machine has it."""
    try:
        place = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device must name a device, got {device!r}") from error
    there = place.type != "cuda" or torch.cuda.is_available()
    require(there, "device", "be available, but torch sees no CUDA device", str(device))
    return place
