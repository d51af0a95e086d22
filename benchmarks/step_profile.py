"""Where the time of a captured step goes: its kernels, by what they do.

ResNet-18 of width 64, batch 128, one member, so that kernels do not disturb each other;
microseconds per step. Needs a GPU:

    PYTHONPATH=src python3 benchmarks/step_profile.py --method sam
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile
from training_step import RHO, images

import tepui
from tepui.data import HorizontalFlip, RandomCrop
from tepui.methods import SAM, DeepEnsemble, SharpBalance
from tepui.models import ResNet18
from tepui.training.graphs import GraphRunner

STEPS = 30
METHODS = {
    "deep-ensemble": DeepEnsemble(),
    "sam": SAM(rho=RHO),
    "sharpbalance": SharpBalance(rho=RHO, switch_at=0, select="random", fraction=0.5),
}
# The first kind whose word is part of a kernel's name.
KINDS = {
    "convolution, backward to weights": ("wgrad",),
    "convolution, backward to inputs": ("dgrad",),
    "convolution, forward": ("fprop", "convolve", "ImplicitGemm"),
    "convolution, workspaces and layouts": (
        *("init_device_workspace", "nhwcToNchw", "nchwToNhwc", "AddPadding"),
        *("convertTensor", "ReduceSplitK"),
    ),
    "lists of tensors (casts, perturbation, optimizer)": ("multi_tensor_apply",),
    "BatchNorm, sums": ("_moments", "_gradient_sums", "_join_sums", "_join_moments"),
    "BatchNorm, results": ("_apply", "_apply_gradient", "batch_norm"),
    "gradients that meet at a sum": ("CUDAFunctor_add",),
}


def kind_of(kernel: str) -> str:
    for kind, words in KINDS.items():
        if any(word in kernel for word in words):
            return kind
    return "the rest"


class Profiled:
    """Profiles the last epoch of a run."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.kernels: list[tuple[str, float]] = []

    def __enter__(self) -> "Profiled":
        self._original = GraphRunner.run_epoch
        original = self._original

        def run_epoch(runner, members, epoch):
            if epoch < self.last:
                return original(runner, members, epoch)
            with profile(activities=[ProfilerActivity.CUDA]) as found:
                original(runner, members, epoch)
            on_gpu = torch.autograd.DeviceType.CUDA
            events = [e for e in found.events() if e.device_type == on_gpu]
            self.kernels = [(e.name, e.device_time) for e in events]
            return None

        GraphRunner.run_epoch = run_epoch
        return self

    def __exit__(self, *_) -> None:
        GraphRunner.run_epoch = self._original


def kernels_of(method, compile, batch) -> list[tuple[str, float]]:
    with Profiled(last=2) as profiled:
        tepui.fit(
            tepui.Ensemble.build(ResNet18, members=1),
            images(batch * STEPS),
            method=method,
            epochs=3,
            batch_size=batch,
            augment=(RandomCrop(), HorizontalFlip()),
            device="cuda",
            compile=compile,
            progress="none",
        )
    return profiled.kernels


def grouped(kernels, key) -> dict[str, dict[str, float]]:
    """Return microseconds and kernels per step by a key, the longest first."""
    groups: dict[str, list[float]] = defaultdict(list)
    for name, microseconds in kernels:
        groups[key(name)].append(microseconds)
    rows = {
        name: {"us": sum(times) / STEPS, "kernels": len(times) / STEPS}
        for name, times in groups.items()
    }
    return dict(sorted(rows.items(), key=lambda item: -item[1]["us"]))


def show(title, rows) -> None:
    print(title)
    for name, row in rows.items():
        print(f"{row['us']:9.1f} us {row['kernels']:6.0f} x  {name[:100]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", choices=METHODS, default="sam")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction)
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    arguments = parser.parse_args()
    kernels = kernels_of(METHODS[arguments.method], arguments.compile, arguments.batch)
    by_kind = grouped(kernels, kind_of)
    by_name = grouped(kernels, str)
    total = {"us": sum(row["us"] for row in by_kind.values())}
    total["kernels"] = sum(row["kernels"] for row in by_kind.values())
    show("longest kernels", dict(list(by_name.items())[:25]))
    show("by kind", {**by_kind, "all": total})
    if arguments.json:
        document = {"by kind": by_kind, "by name": by_name, "all": total}
        arguments.json.write_text(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
