"""How many small members share a GPU, and what runs in one process leave behind.

Milliseconds per step of all members, for 4 and for 16 of them: ConvNet of width 8 on
8-pixel images (as digits are), and of width 16 on 32-pixel images with random crops and
flips. Then the memory that is held after each of ten runs. Needs a GPU:

    PYTHONPATH=src python3 benchmarks/many_members.py
"""

import argparse
import json
from pathlib import Path

import torch
from training_step import images

import tepui
from tepui.data import Arrays, HorizontalFlip, RandomCrop
from tepui.methods import DeepEnsemble, SharpBalance
from tepui.models import ConvNet

STEPS = 100
COUNTS = (4, 16)


def digits() -> Arrays:
    stream = torch.Generator().manual_seed(0)
    pixels = torch.rand(64 * STEPS, 1, 8, 8, generator=stream)
    return Arrays(pixels, torch.randint(10, (64 * STEPS,), generator=stream))


def small() -> ConvNet:
    return ConvNet()


def larger() -> ConvNet:
    return ConvNet(in_channels=3, width=16)


CASES = {
    "8 pixels": (small, digits, {"batch_size": 64}),
    "32 pixels": (
        larger,
        lambda: images(128 * STEPS),
        {"batch_size": 128, "augment": (RandomCrop(), HorizontalFlip())},
    ),
}


def fitted(factory, data, members, method=None, epochs=3, **how) -> tepui.Run:
    return tepui.fit(
        tepui.Ensemble.build(factory, members=members),
        data,
        method=method or DeepEnsemble(),
        epochs=epochs,
        device="cuda",
        progress="none",
        **how,
    )


def milliseconds(factory, data, members, **how) -> float:
    """Return the time of one step of all members, by the faster of two epochs."""
    run = fitted(factory, data, members, **how)
    return 1e3 * min(record.seconds for record in run.history[1:]) / STEPS


def held_after(runs: int) -> list[int]:
    """Return the bytes that torch holds on the GPU after each of some runs."""
    data, held = digits(), []
    for _ in range(runs):
        fitted(small, data, 4, SharpBalance(switch_at=1), epochs=2, batch_size=64)
        held.append(torch.cuda.memory_reserved())
    return held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    arguments = parser.parse_args()
    found = {"held after each run": held_after(10)}
    for name, (factory, make, how) in CASES.items():
        data = make()
        times = [milliseconds(factory, data, count, **how) for count in COUNTS]
        found[name] = dict(zip(map(str, COUNTS), times, strict=True))
        shown = ", ".join(
            f"{c}: {t:.3f} ms" for c, t in zip(COUNTS, times, strict=True)
        )
        print(f"{name}, members {shown}, ratio {times[1] / times[0]:.2f}", flush=True)
    megabytes = [value // 2**20 for value in found["held after each run"]]
    print(f"MiB held after each run: {megabytes}")
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
