"""Memory and disk of SED's tables, scaled down, against what a dry run prices.

Heads on features of a small transformer, float16 logits, tables 1 to 3 from the store,
on a CPU; in a process of its own, whose peak of resident memory counts from where all
libraries are loaded. Run as ``PYTHONPATH=src python3 benchmarks/head_memory.py``.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import final

import torch

from tepui.core.seeding import generator
from tepui.data import Arrays, Digits
from tepui.methods import DeepEnsemble
from tepui.models import ViTTiny, split_last_layers
from tepui.models.split import Model
from tepui.papers.recipe import Order
from tepui.papers.sed import protocol, table1, table2, table3
from tepui.papers.sed.scales import STUDIES, HeadStudy
from tepui.studies import DataSource, EvaluationSpec, Samples, Store, Trial
from tepui.studies.blank_data import Form
from tepui.studies.jobs import carry_out, merged
from tepui.studies.price import Pricing
from tepui.training import TrainingSpec

ORDER = Order("smoke")
SIDE = 8


@final
@dataclass(frozen=True)
class Drawn(DataSource):
    """Images of noise."""

    count: int
    classes: int
    seed: int

    @property
    def published(self) -> Form:
        """As many as there will be."""
        return Form((1, SIDE, SIDE), 0, self.count)

    def load(self, store: Store) -> Arrays:
        """Return the images."""
        stream = generator(self.seed, "drawn images")
        shape = (self.count, 1, SIDE, SIDE)
        images = torch.randint(0, 256, shape, generator=stream, dtype=torch.uint8)
        return Arrays(images, torch.arange(self.count) % self.classes)


def model(classes: int) -> Model:
    """Return a transformer that is nobody's."""
    return ViTTiny(classes, in_channels=1, image_size=SIDE, patch_size=4, depth=1)


def head(start: int, classes: int) -> Model:
    """Return a copy of its last layers."""
    return split_last_layers(model(classes), 3).tail()


def study(members: int, samples: int, classes: int) -> HeadStudy:
    """Return a study with so many heads, and samples in each corrupted set."""

    def images(repetition: int) -> Mapping[str, DataSource]:
        names = STUDIES["smoke"].images(repetition)
        many = {"imagenet_c1": samples, "imagenet_c5": samples}
        return {
            name: Drawn(many.get(name, max(classes, 256)), classes, number)
            for number, name in enumerate(names)
        }

    return STUDIES["paper"]._replace(
        members=2,
        large=members,
        epochs=1,
        batch_size=64,
        images=images,
        extractor=lambda repetition: partial(model, classes),
        head=partial(head, classes=classes),
    )


def peak() -> int:
    """Return the most bytes that this process held."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def disk(folder: Path) -> int:
    """Return what the files in a folder take."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def measure(small: HeadStudy, folder: Path) -> list[int]:
    """Return bytes of memory and disk, priced and taken."""
    protocol.study_of = lambda order: small
    warm_up(folder / "warm")
    store = Store(folder / "store", device="cpu")
    tables = [table.RECIPE for table in (table1, table2, table3)]
    jobs = merged(job for table in tables for job in table.plan(ORDER))
    price, before = Pricing(store).price(jobs), peak()
    carry_out(jobs, store)
    for table in tables:
        for _ in table.records(store, ORDER):
            pass
    memory = price.device_bytes + price.host_bytes
    return [memory, peak() - before, price.disk_bytes, disk(store.path)]


def warm_up(folder: Path) -> None:
    """Train and test a little, for whatever the first call loads."""
    few = Samples(Digits, count=64)
    spec = TrainingSpec(method=DeepEnsemble(), epochs=1)
    trial = Trial(few, partial(model, 10), spec, (0, 1))
    Store(folder, device="cpu").evaluation(trial, EvaluationSpec(few))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=50)
    parser.add_argument("--samples", type=int, default=5000)
    parser.add_argument("--classes", type=int, default=200)
    parser.add_argument("--here", action="store_true")
    options = parser.parse_args()
    if options.here:
        torch.set_num_threads(1)
        sizes = options.members, options.samples, options.classes
        with tempfile.TemporaryDirectory() as folder:
            print(*measure(study(*sizes), Path(folder)))
        return
    command = [sys.executable, __file__, "--here"]
    for name in ("members", "samples", "classes"):
        command += [f"--{name}", str(getattr(options, name))]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    numbers = [int(word) / 1e6 for word in done.stdout.split()]
    print("| MB | priced | taken |\n|---|---:|---:|")
    print(f"| memory | {numbers[0]:.0f} | {numbers[1]:.0f} |")
    print(f"| disk | {numbers[2]:.0f} | {numbers[3]:.0f} |")


if __name__ == "__main__":
    main()
