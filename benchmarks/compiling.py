"""Seconds of steps per epoch with and without compiling, and what goes before them.

Batch 128, three members, 50 000 images as in CIFAR-10, four epochs each, all in one
process; ResNet-18 of width 64 if no other model is named. Needs a GPU:

    PYTHONPATH=src python3 benchmarks/compiling.py --models ResNet18 VGG19BN
"""

import argparse

from training_step import METHODS, images

import tepui
from tepui.data import HorizontalFlip, RandomCrop
from tepui.models import VGG19, VGG19BN, ConvNet, ResNet18, WideResNet40x2


def wide_convnet() -> ConvNet:
    return ConvNet(in_channels=3, width=32)


MODELS = {
    "ResNet18": ResNet18,
    "WideResNet40x2": WideResNet40x2,
    "VGG19BN": VGG19BN,
    "VGG19": VGG19,
    "ConvNet": wide_convnet,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["ResNet18"])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--samples", type=int, default=50_000)
    arguments = parser.parse_args()
    data = images(arguments.samples)
    for model in arguments.models:
        for method in arguments.methods:
            for compiled in (False, True):
                show(model, method, data, compiled)


def show(model: str, method: str, data: tepui.data.Arrays, compiled: bool) -> None:
    run = tepui.fit(
        tepui.Ensemble.build(MODELS[model], members=3),
        data,
        method=METHODS[method],
        epochs=4,
        batch_size=128,
        augment=(RandomCrop(), HorizontalFlip()),
        compile=compiled,
        device="cuda",
        progress="none",
    )
    seconds = ", ".join(f"{record.seconds:.2f}" for record in run.history)
    how = "compiled" if compiled else "as it is"
    print(f"{model}, {method}, {how}: {seconds}; {run.timeline}", flush=True)


if __name__ == "__main__":
    main()
