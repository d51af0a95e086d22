"""Seconds from an archive of CIFAR-10 to tensors in memory.

    python benchmarks/data_loading.py FOLDER

FOLDER holds CIFAR-10's binary version (``cifar-10-batches-bin``). The script packs it
as ``.tar.gz`` and measures what ``CIFAR10(download=True)`` does with an archive that
lies in the data folder: its hash, unpacking, the record of hashes; then reading both
parts.
"""

import hashlib
import os
import sys
import tarfile
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch

from tepui.data import CIFAR10
from tepui.data.files.installing import install
from tepui.data.files.origins import Download

FOLDER = "cifar-10-batches-bin"


def timed(name, function):
    began = time.perf_counter()
    value = function()
    print(f"| {name} | {time.perf_counter() - began:.2f} |")
    return value


def main(given):
    print(f"torch {torch.__version__}, {os.cpu_count()} processors\n")
    print("| step | seconds |\n|---|---:|")
    with tempfile.TemporaryDirectory(dir=given) as folder:
        archive = Path(folder) / "cifar-10-binary.tar.gz"
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(given / FOLDER, FOLDER)
        md5 = hashlib.md5(archive.read_bytes()).hexdigest()
        download = Download(archive.name, f"md5:{md5}", "this script", 0)
        source = replace(CIFAR10.origin, folders=(FOLDER,), downloads=(download,))
        timed("archive to folder", lambda: install(source, folder))
        timed("folder to memory, training part", lambda: CIFAR10(folder))
        timed("folder to memory, test part", lambda: CIFAR10(folder, train=False))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
