"""Seconds of steps per epoch with and without compiling, and what goes before them.

ResNet-18 of width 64, batch 128, three members, 50 000 images as in CIFAR-10, four
epochs each, all in one process. Needs a GPU:

    PYTHONPATH=src python3 benchmarks/compiling.py
"""

from training_step import METHODS, images

import tepui
from tepui.data import HorizontalFlip, RandomCrop
from tepui.models import ResNet18
from tepui.training.timeline import in_words


def main() -> None:
    data = images(50_000)
    for name, method in METHODS.items():
        for compiled in (False, True):
            run = tepui.fit(
                tepui.Ensemble.build(ResNet18, members=3),
                data,
                method=method,
                epochs=4,
                batch_size=128,
                augment=(RandomCrop(), HorizontalFlip()),
                compile=compiled,
                device="cuda",
                progress="none",
            )
            epochs = ", ".join(f"{record.seconds:.2f}" for record in run.history)
            how = "compiled" if compiled else "as it is"
            print(f"{name}, {how}: steps {epochs} s; {in_words(run.timeline)}")


if __name__ == "__main__":
    main()
