"""What a prediction of an ensemble costs: operations, time and memory."""

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.utils.data import Dataset

from tepui.core.storage import write_document
from tepui.data.arrays import Inputs
from tepui.data.loading import at_rows
from tepui.ensembles.ensemble import Ensemble
from tepui.modules.running import device_of, evaluating, refusal_named

COST, COST_KIND = "cost.json", "prediction_cost"
_WARM_UP, _REPEATS, _ENOUGH_SECONDS = 2, 20, 0.5


@dataclass(frozen=True)
class PredictionCost:
    """What one prediction of a whole ensemble costs.

    Attributes:
        parameters: How many weights there are, those that members share once.
        bytes: The memory of weights and buffers.
        operations: Floating-point operations for one sample, a multiplication and an
            addition counting two.
        seconds: How long one sample alone takes, the median of several.
        peak_bytes: The largest memory on a GPU meanwhile; None on a CPU.
        device: Where it was measured.
    """

    parameters: int
    bytes: int
    operations: int
    seconds: float
    peak_bytes: int | None
    device: str


def prediction_cost(ensemble: Ensemble, dataset: Dataset[Any]) -> PredictionCost:
    """Count and time an ensemble's prediction of one sample.

    Args:
        ensemble: What predicts, where it lies.
        dataset: Its first sample is predicted.

    Returns:
        What it costs there.

    Raises:
        ValueError: If the ensemble does not accept the sample.

    Example:
        >>> import tepui
        >>> data = tepui.data.Arrays(torch.randn(5, 4), torch.arange(5) % 3)
        >>> ensemble = Ensemble.build(lambda: torch.nn.Linear(4, 3), members=2)
        >>> cost = prediction_cost(ensemble, data)
        >>> cost.parameters, cost.bytes, cost.operations
        (30, 120, 48)
    """
    from torch.utils.flop_counter import FlopCounterMode  # brings Triton

    device = device_of(ensemble)
    (batch,) = at_rows(dataset, [torch.zeros(1).long()], device=device)
    with evaluating(ensemble), torch.no_grad():
        with FlopCounterMode(display=False) as counter, refusal_named(batch.inputs):
            ensemble(batch.inputs)
        seconds, peak = _timed(ensemble, batch.inputs, device)
    # The state has a tensor once for each member; parameters and buffers are unique.
    weights = [*ensemble.parameters()]
    held = [*weights, *ensemble.buffers()]
    return PredictionCost(
        parameters=sum(tensor.numel() for tensor in weights),
        bytes=sum(tensor.nbytes for tensor in held),
        operations=counter.get_total_flops(),
        seconds=seconds,
        peak_bytes=peak,
        device=_name(device),
    )


def write_cost(ensemble: Ensemble, dataset: Dataset[Any], folder: Path) -> None:
    """Write what a prediction costs beside an ensemble's evaluations."""
    document = asdict(prediction_cost(ensemble, dataset))
    write_document(folder / COST, COST_KIND, document)


def _timed(
    ensemble: Ensemble, inputs: Inputs, device: torch.device
) -> tuple[float, int | None]:
    """Return the median time of a prediction, and the peak memory on a GPU."""
    on_gpu = device.type == "cuda"
    for _ in range(_WARM_UP):
        ensemble(inputs)
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(device)
    times: list[float] = []
    while len(times) < _REPEATS and sum(times) < _ENOUGH_SECONDS:
        if on_gpu:
            torch.cuda.synchronize(device)
        start = time.perf_counter()
        ensemble(inputs)
        if on_gpu:
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - start)
    peak = torch.cuda.max_memory_allocated(device) if on_gpu else None
    return median(times), peak


def _name(device: torch.device) -> str:
    if device.type != "cuda":
        count = torch.get_num_threads()
        return f"{device.type}, {count} thread{'' if count == 1 else 's'}"
    return torch.cuda.get_device_name(device)
