"""What augmentation costs: an augmented epoch against one without, and torchvision.

The first table trains a ResNet-18 on images of CIFAR's size, on a GPU (width 64, 50,000
images) if there is one, else on two CPU threads (width 8, 512 images). Policies take
their turns, round after round; a ratio is the median over the rounds of the ratios
within a round, so that other work on the machine cancels. The goal on a GPU is 1.15 at
most, and 1.3 for AugMix.

The second table, where torchvision is installed, has milliseconds for one batch of 128
on two CPU threads: tepui, which draws for every sample, torchvision's v2 transforms one
sample after the other, as a DataLoader calls them, and on the whole batch, which then
shares its draws.

    PYTHONPATH=src python3 benchmarks/augmentation.py
"""

import argparse
import time
from collections.abc import Callable
from statistics import fmean, median

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

import tepui
from tepui.data import (
    Arrays,
    Augmentation,
    AugMix,
    AutoAugment,
    ColorJitter,
    GaussianBlur,
    HorizontalFlip,
    RandAugment,
    RandomCrop,
    RandomErasing,
    TrivialAugment,
)
from tepui.models import ResNet18

try:
    from torchvision.transforms import v2
except Exception:  # not installed, or made for another torch
    v2 = None

THREADS, BATCH = 2, 128
NONE = "none"
POLICIES: dict[str, tuple[Augmentation, ...]] = {
    NONE: (),
    "RandomCrop, HorizontalFlip": (RandomCrop(), HorizontalFlip()),
    **{
        type(policy).__name__: (policy,)
        for policy in (
            *(TrivialAugment(), RandAugment(), AutoAugment(), AugMix()),
            *(ColorJitter(), GaussianBlur(), RandomErasing()),
        )
    },
}


def pictures(samples: int) -> Arrays:
    stream = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (samples, 3, 32, 32), generator=stream)
    labels = torch.randint(10, (samples,), generator=stream)
    return Arrays(pixels.byte(), labels)


def epoch(augment: tuple[Augmentation, ...], data: Arrays, width: int) -> float:
    """Return the seconds of the faster of two epochs after a first one."""
    run = tepui.fit(
        tepui.Ensemble.build(lambda: ResNet18(width=width), members=1, seed=13),
        data,
        method=tepui.methods.DeepEnsemble(),
        epochs=3,
        batch_size=BATCH,
        augment=augment,
        compile=False,
        progress="none",
    )
    return min(record.seconds for record in run.history[1:])


def epochs(rounds: int) -> Table:
    gpu = torch.cuda.is_available()
    data, width = pictures(50_000 if gpu else 512), 64 if gpu else 8
    found: dict[str, list[float]] = {name: [] for name in POLICIES}
    for _ in range(rounds):
        for name, augment in POLICIES.items():
            found[name].append(epoch(augment, data, width))
    place = torch.cuda.get_device_name() if gpu else f"CPU, {THREADS} threads"
    shown = Table("augmentation", "seconds per epoch", "ratio", title=place)
    for name, seconds in found.items():
        pairs = zip(seconds, found[NONE], strict=True)
        ratio = median(own / plain for own, plain in pairs)
        shown.add_row(name, f"{median(seconds):.3f}", f"{ratio:.2f}")
    return shown


def milliseconds(function: Callable[[], object], seconds: float = 0.5) -> float:
    function()
    times: list[float] = []
    while sum(times) < seconds or len(times) < 3:
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return 1000 * fmean(times)  # a batch may be left as it is


def one_by_one(transform: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    return torch.stack([transform(image) for image in images])


def batches() -> Table:
    theirs = {
        "RandomCrop, HorizontalFlip": v2.Compose(
            [v2.RandomCrop(32, padding=4), v2.RandomHorizontalFlip()]
        ),
        "TrivialAugment": v2.TrivialAugmentWide(),
        "RandAugment": v2.RandAugment(),
        "AutoAugment": v2.AutoAugment(v2.AutoAugmentPolicy.CIFAR10),
        "AugMix": v2.AugMix(all_ops=False),
        "ColorJitter": v2.ColorJitter(0.4, 0.4, 0.4),
        "GaussianBlur": v2.RandomApply([v2.GaussianBlur(13, (0.1, 2.0))], p=0.5),
        "RandomErasing": v2.RandomErasing(),
    }
    images = pictures(BATCH).raw(torch.arange(BATCH))
    headings = ("augmentation", "tepui, ms", "torchvision, each", "the whole batch")
    shown = Table(*headings, title=f"a batch of {BATCH}, CPU, {THREADS} threads")
    for name, transform in theirs.items():
        steps = POLICIES[name]
        uniform = torch.rand(BATCH, sum(step.draws for step in steps))
        times = (
            milliseconds(
                lambda s=steps, u=uniform: tepui.data.augment.augment(images, s, u)
            ),
            milliseconds(lambda t=transform: one_by_one(t, images)),
            milliseconds(lambda t=transform: t(images)),
        )
        shown.add_row(name, *(f"{each:.1f}" for each in times))
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(THREADS)
    console = Console()
    console.print(epochs(arguments.rounds))
    if v2 is not None:
        console.print(batches())


if __name__ == "__main__":
    main()
