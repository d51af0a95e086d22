"""Times an exam: an ensemble on a test set and its corrupted copies, by phase.

Images are smooth noise of 32 pixels, or with ``--data`` CIFAR-10's test set; members
are untrained, which makes no difference to their speed. The first exam makes the
copies, the second finds them on the device. Phases are timed by waiting for the device
between them, so that an exam as a whole, which does not wait, is timed apart from them.

Usage: python benchmarks/examination.py [--data FOLDER] [--images 10000] [--members 3]
           [--width 64] [--severities 1 2 3 4 5] [--batch 1024] [--device cuda]
           [--precision float32 tf32 bfloat16] [--json FILE]
"""

import argparse
import json
import platform
import time
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.nn.functional as F

import tepui
from tepui.core.precision import precision_on
from tepui.data import CIFAR10, Arrays, Normalize, corrupted
from tepui.ensembles.outputs import dataset_logits
from tepui.models import ResNet18
from tepui.tasks import Scores
from tepui.training.prepare import to_device

COPIES, JPEG = "copies without JPEG", "copies by JPEG"
PREDICTIONS, METRICS = "predictions", "metrics"
PHASES = (COPIES, JPEG, PREDICTIONS, METRICS)


class Clock:
    """Seconds by phase, on a device that has caught up at the start and the end."""

    def __init__(self, device):
        gpu = device.type == "cuda"
        self._wait = torch.cuda.synchronize if gpu else lambda: None
        self.seconds = defaultdict(float)

    @contextmanager
    def phase(self, name):
        """Add the seconds of the block to a phase."""
        self._wait()
        start = time.perf_counter()
        yield
        self._wait()
        self.seconds[name] += time.perf_counter() - start


def smooth_noise(count):
    """Images of 32 pixels with ten classes."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(count, 3, 8, 8, generator=generator)
    images = F.interpolate(coarse, size=32, mode="bicubic").clamp_(0, 1)
    labels = torch.randint(10, (count,), generator=generator)
    scale = Normalize((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
    return Arrays(images.mul_(255).byte(), labels, scale)


def by_phase(ensemble, test, copies, clock, **how):
    """Do by hand what an exam does, so that each phase can be timed."""

    def answer(data):
        with clock.phase(PREDICTIONS):
            outputs = dataset_logits(ensemble, data, **how)
        with clock.phase(METRICS):
            Scores.of(*outputs)

    answer(test)
    for cell in copies:
        with clock.phase(JPEG if cell[0] == "jpeg_compression" else COPIES):
            copy = copies[cell]
        answer(copy)


def exams(ensemble, test, options, precision):
    """Return seconds of two whole exams, and of two exams by phase."""
    device = torch.device(options.device)
    how = {"batch_size": options.batch, "precision": precision}
    rows = {}
    # Before the clock runs, what a process does once: libraries and cuDNN's plans.
    few = corrupted(test.subset(range(min(len(test), 100))), severities=(1,))
    tepui.evaluate(ensemble, test, shifted=few, **how)
    kinds = {"severities": tuple(options.severities), "keep": True}
    whole, phases = (corrupted(test, **kinds).made_on(device) for _ in range(2))
    for name in ("first exam", "second exam, copies kept"):
        clock = Clock(device)
        with clock.phase("whole"):
            tepui.evaluate(ensemble, test, shifted=whole, **how)
        by_phase(ensemble, test, phases, clock, **how)
        rows[name] = dict(clock.seconds)
    return rows


def table(found):
    """A table in Markdown."""
    print(f"| precision | exam | whole, s | {', s | '.join(PHASES)}, s |")
    print("|---|---|---:" + "|---:" * len(PHASES) + "|")
    for precision, rows in found.items():
        for name, seconds in rows.items():
            cells = [f"{seconds[phase]:.2f}" for phase in ("whole", *PHASES)]
            print(f"| {precision} | {name} | {' | '.join(cells)} |")


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    gpu = torch.cuda.is_available()
    parser.add_argument("--data", type=Path, help="holds CIFAR-10")
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--severities", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--device", default="cuda" if gpu else "cpu")
    parser.add_argument("--precision", nargs="+", default=["tf32"])
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def main():
    options = parsed()
    device = torch.device(options.device)
    gpu = device.type == "cuda"
    if options.data is None:
        test = smooth_noise(options.images)
    else:
        test = CIFAR10(options.data, train=False).subset(range(options.images))
    ensemble = tepui.Ensemble.build(
        lambda: ResNet18(width=options.width), options.members
    )
    to_device(ensemble, device)
    where = torch.cuda.get_device_name() if gpu else platform.machine()
    found = {
        precision_on(device, precision): exams(
            ensemble, test.to(device), options, precision
        )
        for precision in options.precision
    }
    print(f"{options.members} members of width {options.width}, ", end="")
    print(f"{len(test)} images, batches of {options.batch}, on {where}, ", end="")
    print(f"torch {torch.__version__}\n")
    table(found)
    if gpu:
        peak = torch.cuda.max_memory_allocated() / 1e9
        print(f"\nmost memory in use: {peak:.1f} GB")
    if options.json:
        asked = {
            k: str(v) if isinstance(v, Path) else v for k, v in vars(options).items()
        }
        record = {"asked": asked, "device": where, "torch": torch.__version__}
        record |= {"seconds": found}
        options.json.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
