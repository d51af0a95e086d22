"""SharpBalance's mixed step and scoring against the published procedure.

ResNet-18 for 32-pixel images, batch 128, three members. The published procedure is that
of ``published_procedure.py``, beside this file. All is measured in this one process, as
ratios.

    PYTHONPATH=src python3 benchmarks/sharpbalance.py
"""

import argparse
import json
import time
from pathlib import Path

import torch
from published_procedure import published_mixed_step, published_scoring
from rich.console import Console
from rich.table import Table
from training_step import RHO, fitted, images, synchronize

import tepui
from tepui.data import HorizontalFlip, RandomCrop
from tepui.methods import SAM, DeepEnsemble, SharpBalance
from tepui.models import ResNet18
from tepui.sharpness import sample_fisher_trace


def timed(work, device, repeats: int = 1) -> float:
    """Return the shortest of several runs, in seconds."""
    times = []
    for _ in range(repeats):
        synchronize(device)
        started = time.perf_counter()
        work()
        synchronize(device)
        times.append(time.perf_counter() - started)
    return min(times)


def steps(sizes, device) -> dict[str, float]:
    """Return milliseconds per member-step."""
    width, members, batch, count = sizes
    data = images(batch).to(device)
    model = ResNet18(width=width).to(device)
    x = data.prepare(data.inputs)
    step = published_mixed_step(model, x, data.targets)
    for _ in range(3):
        step()

    def published_steps():
        for _ in range(count):
            step()

    found = {"published mixed step": timed(published_steps, device) / count}
    on_cuda = device.type == "cuda"
    methods = {
        "deep ensemble": DeepEnsemble(),
        "SAM": SAM(rho=RHO),
        "SharpBalance": SharpBalance(
            rho=RHO, switch_at=0, select="random", fraction=0.5
        ),
    }
    for name, method in methods.items():
        seconds = fitted(
            *sizes,
            device,
            method,
            runner="graph" if on_cuda else "eager",
        )
        found[f"tepui, {name}"] = seconds / (members * count)
    return {name: 1e3 * seconds for name, seconds in found.items()}


def scoring(width, samples, batch, device) -> dict[str, float]:
    """Return microseconds per sample."""
    data = images(samples).to(device)
    model = briefly_trained(width, data, device)
    x = data.prepare(data.inputs[: min(samples, 2048)])
    y = data.targets[: len(x)]
    score = published_scoring(model)
    score(x[:32], y[:32])
    found = {"published": timed(lambda: score(x, y), device) / len(x)}
    kinds = {"strict float32": (None, False)}
    if device.type == "cuda":
        kinds |= {"tf32": (None, True), "bfloat16": (torch.bfloat16, True)}
        model = model.to(memory_format=torch.channels_last)
    for name, (autocast, tf32) in kinds.items():
        torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.backends.cudnn.allow_tf32 = tf32

        def pass_over(autocast=autocast):
            return sample_fisher_trace(model, data, batch_size=batch, autocast=autocast)

        pass_over()
        found[f"tepui, {name}"] = timed(pass_over, device, 2) / samples
        plain = plain_pass(model, data, batch, autocast)
        plain()
        found[f"plain pass, {name}"] = timed(plain, device, 2) / samples
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    few = data.subset(torch.arange(min(samples, 4096), device=device))
    exact = selected(sample_fisher_trace(model.double(), doubled(few), batch_size=256))
    model.float()
    for name, (autocast, tf32) in kinds.items():
        torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.backends.cudnn.allow_tf32 = tf32
        mask = selected(
            sample_fisher_trace(model, few, batch_size=batch, autocast=autocast)
        )
        found[f"overlap, {name}"] = float((mask & exact).sum() / exact.sum()) * 1e-6
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        sample_fisher_trace(model, few, batch_size=512, autocast=torch.bfloat16)
        peak = torch.cuda.max_memory_allocated() - before
        found["peak memory at batch 512, bfloat16 (GB)"] = peak / 1e9 * 1e-6
        torch.cuda.reset_peak_memory_stats()
        sample_fisher_trace(model, few, batch_size=512)
        peak = torch.cuda.max_memory_allocated() - before
        found["peak memory at batch 512, tf32 (GB)"] = peak / 1e9 * 1e-6
    return {name: 1e6 * value for name, value in found.items()}


def doubled(data):
    return tepui.data.Arrays(data.prepare(data.inputs).double(), data.targets)


def selected(scores) -> torch.Tensor:
    count = int(0.4 * len(scores))
    mask = torch.zeros_like(scores, dtype=torch.bool)
    mask[scores.argsort(descending=True)[:count]] = True
    return mask


def plain_pass(model, data, batch, autocast):
    """Return a forward and backward pass over all data, with weight gradients."""
    inputs = data.prepare(data.inputs)
    parameters = list(model.parameters())

    def work():
        for x, y in zip(inputs.split(batch), data.targets.split(batch), strict=True):
            with torch.autocast(x.device.type, autocast, enabled=autocast is not None):
                outputs = model(x)
            loss = tepui.losses.cross_entropy(outputs.float(), y).sum()
            torch.autograd.grad(loss, parameters)

    return work


def briefly_trained(width, data, device):
    """Return a network with a spread of scores, in eval mode."""
    ensemble = tepui.Ensemble.build(lambda: ResNet18(width=width), members=1, seed=0)
    tepui.fit(
        ensemble,
        data.subset(torch.arange(min(len(data), 5120), device=device)),
        method=DeepEnsemble(),
        epochs=4,
        batch_size=128,
        schedule=tepui.MultiStep(),
        augment=(RandomCrop(), HorizontalFlip()),
        device=device,
        precision="float32",
        progress="none",
    )
    return ensemble.members[0].eval()


def show(title: str, results: dict[str, float], base: str) -> None:
    table = Table(title=title)
    table.add_column("what")
    table.add_column("value", justify="right")
    table.add_column(f"ratio to {base}", justify="right")
    for name, value in results.items():
        ratio = "" if "overlap" in name or "memory" in name else results[base] / value
        shown = f"{ratio:.2f}" if ratio else ""
        table.add_row(name, f"{value:.3f}", shown)
    Console(width=110).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    on_cuda = torch.cuda.is_available()
    parser.add_argument("--width", type=int, default=64 if on_cuda else 16)
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=100 if on_cuda else 2)
    parser.add_argument("--samples", type=int, default=50_000 if on_cuda else 1024)
    parser.add_argument("--scoring-batch", type=int, default=512 if on_cuda else 128)
    parser.add_argument("--json", help="also write the numbers to this file")
    arguments = parser.parse_args()
    device = torch.device("cuda" if on_cuda else "cpu")
    hardware = torch.cuda.get_device_name() if on_cuda else "CPU"
    about = f"ResNet-18 width {arguments.width}, torch {torch.__version__}, {hardware}"
    scores = scoring(
        arguments.width, arguments.samples, arguments.scoring_batch, device
    )
    sizes = (arguments.width, arguments.members, arguments.batch, arguments.steps)
    mixed = steps(sizes, device)
    show(f"microseconds per scored sample: {about}", scores, "published")
    show(f"milliseconds per member-step: {about}", mixed, "published mixed step")
    if arguments.json:
        Path(arguments.json).write_text(
            json.dumps({"scoring": scores, "steps": mixed}, indent=2)
        )


if __name__ == "__main__":
    main()
