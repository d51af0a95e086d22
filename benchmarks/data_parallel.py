"""The batches of one member over two ranks against one process.

Run as ``PYTHONPATH=src python3 benchmarks/data_parallel.py``, on two idle cores; every
process has one thread. The sum of a gradient over ranks is timed alone as well.
"""

import sys
from statistics import median

import torch
from rank_processes import in_turn, launched, milliseconds

import tepui
from tepui.methods import SAM, DeepEnsemble
from tepui.training import exchange_here
from tepui.training.ranks import place_of_environment

IMAGES, BATCH, EPOCHS, WIDTH, REPEATS = 128, 64, 3, 16, 3
STEPS = IMAGES // BATCH
METHODS = {"plain": DeepEnsemble(), "SAM": SAM(rho=0.1)}


def network() -> tepui.models.ResNet18:
    return tepui.models.ResNet18(num_classes=10, width=WIDTH)


def trained(name: str, ranks: int) -> float:
    """Train a ResNet; return the seconds of an epoch's steps."""
    stream = torch.Generator().manual_seed(0)
    images = torch.rand(IMAGES, 3, 32, 32, generator=stream)
    data = tepui.data.Arrays(images, torch.arange(IMAGES) % 10)
    run = tepui.fit(
        tepui.Ensemble.build(network, 1),
        data,
        method=METHODS[name],
        epochs=EPOCHS,
        batch_size=BATCH,
        data_parallel=ranks,
        device="cpu",
        progress="none",
    )
    return median(record.seconds for record in run.history[1:])


def summed() -> float:
    """Return the milliseconds in which two ranks add up a gradient."""
    group = exchange_here(2).data_group(torch.device("cpu"))
    size = sum(parameter.numel() for parameter in network().parameters())
    flat = torch.rand(size)
    return milliseconds(lambda: group.sum_(flat))


def compare() -> None:
    """Print the numbers of ``benchmarks/README.md``."""
    adding = float(launched(__file__, 2, "sum"))
    for number, name in enumerate(METHODS, start=1):
        alone, together, ratio = in_turn(__file__, (name,), REPEATS)
        step = 1000 * together / STEPS
        figures = f"{alone:.2f} s alone, {together:.2f} s on two ranks, {ratio:.2f}"
        share = f"{100 * number * adding / step:.1f} % of a step add up gradients"
        print(f"{name}: {figures}; {share}", flush=True)
    print(f"a sum takes {adding:.1f} ms")


def main() -> None:
    if len(sys.argv) == 1:
        compare()
        return
    torch.set_num_threads(1)
    if sys.argv[1] == "sum":
        print(summed())
    else:
        print(trained(sys.argv[1], place_of_environment().size))


if __name__ == "__main__":
    main()
