"""Members over ranks against one process, and what the ranks tell each other.

Run as ``PYTHONPATH=src python3 benchmarks/ranks.py``, on two idle cores; every process
has one thread. Targets: two ranks take 0.6 of the time of one process, a coupled
method's exchange 5 % of its step, and SharpBalance's for 50 000 samples and 8 members
50 ms.
"""

import sys
from collections.abc import Mapping
from statistics import median

import torch
from rank_processes import in_turn, launched, milliseconds

import tepui
from tepui.methods import SED, DeepEnsemble, SharpBalance
from tepui.training import exchange_here

MEMBERS, IMAGES, BATCH, EPOCHS, CLASSES = 4, 128, 32, 3, 10
REPEATS = 3
SAMPLES, VOTERS = 50_000, 8
STEPS = IMAGES // BATCH


def trained(name: str) -> float:
    """Train four ResNets; return the seconds of an epoch's steps."""
    method = SED(active=MEMBERS) if name == "SED" else DeepEnsemble()
    stream = torch.Generator().manual_seed(0)
    images = torch.rand(IMAGES, 3, 32, 32, generator=stream)
    data = tepui.data.Arrays(images, torch.arange(IMAGES) % CLASSES)
    ensemble = tepui.Ensemble.build(
        lambda: tepui.models.ResNet18(num_classes=CLASSES, width=8), MEMBERS
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
    return median(record.seconds for record in run.history[1:])


def meeting() -> float:
    """Return the milliseconds in which ranks exchange the outputs of a step."""
    exchange = exchange_here()
    outputs = {i: torch.rand(BATCH, CLASSES) for i in exchange.owned(MEMBERS)}
    targets = torch.zeros(BATCH)
    return milliseconds(
        lambda: exchange.meet(outputs, range(MEMBERS), targets, MEMBERS)
    )


def exchanged() -> dict[str, float]:
    """Return the milliseconds of what SharpBalance exchanges before an epoch."""
    exchange = exchange_here()
    own = exchange.owned(VOTERS)
    masks = {i: torch.rand(SAMPLES) < SharpBalance().fraction for i in own}
    scores = {i: torch.rand(SAMPLES) for i in own}
    return {
        "masks": milliseconds(lambda: exchange.gather(masks)),
        "scores": milliseconds(lambda: exchange.gather(scores)),
        "flags": milliseconds(lambda: exchange.agreed(False)),
    }


def compare() -> None:
    """Print the numbers of ``benchmarks/README.md``, each with its target."""
    seconds: Mapping[str, float] = {}
    for method in ("DeepEnsemble", "SED"):
        alone, together, ratio = in_turn(__file__, (method,), REPEATS)
        seconds = {**seconds, method: together}
        figures = f"{alone:.2f} s alone, {together:.2f} s on two ranks"
        print(f"{method}: {figures}, ratio {ratio:.2f} (target 0.60)", flush=True)
    step = 1000 * seconds["SED"] / STEPS
    met = float(launched(__file__, 2, "meeting"))
    share = f"{100 * met / step:.2f} % (target 5 %)"
    print(f"SED: {met:.2f} ms of a step of {step:.0f} ms, {share}", flush=True)
    print(launched(__file__, 2, "exchange"), "(target 50 ms)")


def main() -> None:
    if len(sys.argv) == 1:
        compare()
        return
    torch.set_num_threads(1)
    if sys.argv[1] == "exchange":
        print(", ".join(f"{name} {ms:.2f} ms" for name, ms in exchanged().items()))
    elif sys.argv[1] == "meeting":
        print(meeting())
    else:
        print(trained(sys.argv[1]))


if __name__ == "__main__":
    main()
