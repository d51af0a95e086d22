"""Members over ranks against one process, and what the ranks tell each other.

Run as ``PYTHONPATH=src python3 benchmarks/ranks.py``. Every process has one thread.
"""

import os
import socket
import subprocess
import sys
import time
from statistics import median

import torch

MEMBERS, IMAGES, BATCH, EPOCHS = 4, 128, 32, 3
REPEATS = 3
SAMPLES, VOTERS = 50_000, 8
VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def trained(name: str) -> list[float]:
    """Train four ResNets; return the seconds of every epoch's steps."""
    import tepui
    from tepui.methods import SED, DeepEnsemble

    method = SED(active=MEMBERS) if name == "SED" else DeepEnsemble()
    stream = torch.Generator().manual_seed(0)
    images = torch.rand(IMAGES, 3, 32, 32, generator=stream)
    data = tepui.data.Arrays(images, torch.arange(IMAGES) % 10)
    ensemble = tepui.Ensemble.build(
        lambda: tepui.models.ResNet18(num_classes=10, width=8), MEMBERS
    )
    run = tepui.fit(
        ensemble,
        data,
        method=method,
        epochs=EPOCHS,
        batch_size=BATCH,
        device="cpu",
        progress="none",
    )
    return [record.seconds for record in run.history]


def exchanged() -> dict[str, float]:
    """Return the milliseconds of an exchange and of a meeting, among ranks."""
    from tepui.training import exchange_here

    exchange = exchange_here()
    own = exchange.owned(VOTERS)
    targets = torch.zeros(128)
    kinds = {
        "masks": {i: torch.rand(SAMPLES) < 0.4 for i in own},
        "scores": {i: torch.rand(SAMPLES) for i in own},
    }
    turn, outputs = range(VOTERS), {i: torch.rand(128, 10) for i in own}
    calls = {
        **{
            name: lambda each=each: exchange.gather(each)
            for name, each in kinds.items()
        },
        "outputs": lambda: exchange.meet(outputs, turn, targets, VOTERS),
        "flags": lambda: exchange.agreed(False),
    }
    return {name: milliseconds(call) for name, call in calls.items()}


def milliseconds(call: object, repeats: int = 30) -> float:
    """Return the median time of a call."""
    assert callable(call)
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        call()
        times.append(1000 * (time.perf_counter() - begun))
    return median(times)


def launched(size: int, what: str) -> str:
    """Start this file once per rank; return what rank 0 printed."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
    processes = []
    for rank in range(size):
        values = (str(rank), str(rank), str(size), "127.0.0.1", port)
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        environment |= dict(zip(VARIABLES, values, strict=True))
        command = [sys.executable, __file__, what]
        processes.append(
            subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, text=True
            )
        )
    said, *_ = [process.communicate()[0] for process in processes]
    return said.strip()


def compare() -> None:
    """Print the tables of ``benchmarks/README.md``."""
    for method in ("DeepEnsemble", "SED"):
        # One after the other and again, since a busy machine changes its mind.
        pairs = [
            [float(launched(size, method)) for size in (1, 2)] for _ in range(REPEATS)
        ]
        alone, together = (median(column) for column in zip(*pairs, strict=True))
        ratio = median(two / one for one, two in pairs)
        figures = f"{alone:.2f} s alone, {together:.2f} s on two ranks, {ratio:.2f}"
        print(f"{method}: {figures}", flush=True)
    print(launched(2, "exchange"))


def main() -> None:
    if len(sys.argv) == 1:
        compare()
        return
    torch.set_num_threads(1)
    if sys.argv[1] == "exchange":
        shown = ", ".join(f"{name} {ms:.2f} ms" for name, ms in exchanged().items())
        print(shown)
        return
    print(median(trained(sys.argv[1])[1:]))


if __name__ == "__main__":
    main()
