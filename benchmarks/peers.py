"""The same job done with other libraries: time, memory, lines, and what one holds.

Four members on the embedded digits, the same network, optimizer, epochs and batch size;
each library in a process of its own, by the code a user would write (``peer_jobs``), of
which the lines are counted. Seconds are of the processor, on one thread, so that other
work on the machine does not count; imports, beyond torch's own, are timed apart; memory
is the process's peak. Accuracy, negative log-likelihood and calibration error are
computed here from the probabilities that each returns: a check that all did the job.

Usage: PYTHONPATH=src python benchmarks/peers.py [--rounds 3] [--only NAME ...]
           [--json FILE]
"""

import argparse
import ast
import contextlib
import datetime
import importlib.util
import json
import os
import platform
import resource
import runpy
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HERE = Path(__file__).parent
JOBS = HERE / "peer_jobs"
STAND_IN = HERE.parent / "src" / "tepui" / "models" / "without_torchvision.py"
PEERS = {
    "by_hand": ("by hand", "torch"),
    "tepui_fit": ("tepui", "tepui"),
    "torchensemble_voting": ("torchensemble", "torchensemble"),
    "lightning_uq_box_ensemble": ("lightning-uq-box", "lightning-uq-box"),
    "torch_uncertainty_ensemble": ("torch-uncertainty", "torch-uncertainty"),
    "pytorch_optimizer_sam": ("pytorch_optimizer's SAM, by hand", "pytorch_optimizer"),
    "tepui_sam": ("tepui, SAM", "tepui"),
}
SIZES = {"members": 4, "epochs": 20, "batch": 64}
SETTINGS = {"lr": 0.05, "momentum": 0.9, "weight_decay": 5e-4}


def digits():
    """Return training and test samples, every fifth one a test sample."""
    import torch
    from sklearn.datasets import load_digits

    found = load_digits()
    x, y = torch.tensor(found.data / 16).float(), torch.tensor(found.target)
    test = torch.arange(len(x)) % 5 == 0
    return (x[~test], y[~test]), (x[test], y[test])


def lines_of(name):
    """Count the lines of a job that hold code: no docstring, blank or comment."""
    text = (JOBS / f"{name}.py").read_text()
    tree = ast.parse(text)
    held = text.splitlines()[tree.body[0].end_lineno :]
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in held)


def work(name):
    """Do one job in this process and print what was measured as JSON."""
    import torch

    warnings.simplefilter("ignore")
    sys.path.insert(0, str(JOBS))
    torch.set_num_threads(1)
    with without_torchvision():
        found = timed(name)
        taken = sys.modules.get("torchvision")
        found["without_torchvision"] = bool(taken) and not hasattr(taken, "__file__")
    print("\n" + json.dumps(found))


def without_torchvision():
    """Return what lets peers be imported where there is no torchvision.

    It is read from its file: importing the package would count against all others.
    """
    if importlib.util.find_spec("torchvision") is not None:
        return contextlib.nullcontext()
    return runpy.run_path(str(STAND_IN))["stand_in_for_torchvision"]()


def timed(name):
    """Do a job; return its times, memory, files and scores."""
    import torch

    train, test = digits()
    begun = time.process_time()
    job = importlib.import_module(name)
    network = importlib.import_module("network")
    imported = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        probabilities = job.run(
            network.Net, train, test, Path(folder), **SIZES, settings=SETTINGS
        )
        done = time.process_time()
        files = sorted(
            str(f.relative_to(folder)) for f in Path(folder).rglob("*") if f.is_file()
        )
    return {
        "import_s": imported - begun,
        "run_s": done - imported,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "files": files,
        **scores_of(torch.as_tensor(probabilities).double(), test[1]),
    }


def scores_of(probabilities, labels):
    """Return accuracy, negative log-likelihood and a 15-bin calibration error."""
    confidence, guess = probabilities.max(-1)
    right = (guess == labels).double()
    bins = (confidence * 15).long().clamp(max=14)
    gaps = [
        (confidence[bins == b] - right[bins == b]).sum().abs().item() for b in range(15)
    ]
    chosen = probabilities[range(len(labels)), labels]
    return {
        "accuracy": right.mean().item(),
        "nll": -chosen.log().mean().item(),
        "ece": sum(gaps) / len(labels),
    }


def measured(name, rounds):
    """Run a job in processes of its own; return medians, or why it could not run."""
    found = []
    for _ in range(rounds):
        ended = subprocess.run(
            [sys.executable, __file__, "--work", name],
            capture_output=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            check=False,
        )
        if ended.returncode:
            return {"error": ended.stderr.strip().splitlines()[-1]}
        found.append(json.loads(ended.stdout.strip().splitlines()[-1]))
    times = ("import_s", "run_s", "peak_mib")
    middle = {key: statistics.median(each[key] for each in found) for key in times}
    return {**found[-1], **middle, "lines": lines_of(name)}


def version_of(package):
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def table(record):
    """Return what was measured as a table for the documents."""
    lines = [
        "| | version | lines | seconds | imports | peak MiB | accuracy | NLL | ECE |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, each in record["jobs"].items():
        title, package = PEERS[name]
        head = f"| {title} | {record['versions'][package]} "
        if "error" in each:
            lines.append(f"{head}| could not run: {each['error']} | | | | | | |")
            continue
        lines.append(
            f"{head}| {each['lines']} | {each['run_s']:.1f} | {each['import_s']:.1f} "
            f"| {each['peak_mib']:.0f} | {each['accuracy']:.3f} | {each['nll']:.3f} "
            f"| {each['ece']:.3f} |"
        )
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=list(PEERS))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments.work)
        return
    jobs = {}
    for name in arguments.only:
        jobs[name] = measured(name, arguments.rounds)
        print(name, jobs[name], flush=True)
    record = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, one thread",
        "rounds": arguments.rounds,
        "versions": {package: version_of(package) for _, package in PEERS.values()},
        "jobs": jobs,
    }
    if arguments.json:
        arguments.json.write_text(json.dumps(record, indent=1) + "\n")
    print(table(record))


if __name__ == "__main__":
    main()
