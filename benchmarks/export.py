"""An exported ensemble against the eager one: one sample at a time, on a CPU.

Three ConvNets on an 8-pixel image in bytes. Both answer in turn, in blocks of calls, in
one process and on as many threads; the median over blocks:

    PYTHONPATH=src OMP_NUM_THREADS=1 python3 benchmarks/export.py
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import onnxruntime
import torch

import tepui
from tepui.data.preparation import preparation_of
from tepui.export import export_ensemble
from tepui.models import ConvNet

MEMBERS, BLOCKS, CALLS = 3, 40, 25


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    return (time.perf_counter() - start) / CALLS


def session_of(file: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    return onnxruntime.InferenceSession(file, options, ["CPUExecutionProvider"])


def main() -> None:
    digits = tepui.data.Digits(train=False)
    ensemble = tepui.Ensemble.build(ConvNet, members=MEMBERS).eval()
    ensemble.preparation = preparation_of(digits)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ensemble.onnx"
        print(export_ensemble(ensemble, digits, file))
        session = session_of(file)
    image = digits.raw(torch.tensor([0]))
    seen = digits.prepare(image)
    feed = {"inputs": image.numpy()}

    def forward() -> None:
        with torch.no_grad():
            ensemble(seen)

    calls = {
        "exported": lambda: session.run(None, feed),
        "eager, members' outputs alone": forward,
        "eager, predict": lambda: ensemble.predict(image, raw=True),
        "eager, predict and the same answers": lambda: ensemble.predict(
            image, raw=True
        ).exported(0.9),
    }
    for call in calls.values():
        seconds(call)
    blocks = [
        {name: seconds(call) for name, call in calls.items()} for _ in range(BLOCKS)
    ]
    times = {name: median(block[name] for block in blocks) for name in calls}
    print(f"{MEMBERS} ConvNets, batch 1, threads: {torch.get_num_threads()}")
    for name, taken in times.items():
        ratio = taken / times["exported"]
        print(f"{name:<36} {1e6 * taken:7.0f} µs  {ratio:5.1f} times the exported")


if __name__ == "__main__":
    main()
