"""Several real processes that run one script, as ranks of torchrun do."""

import os
import socket
import subprocess
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple

import torch

# Below those that systems give to connections by themselves: between the choice of a
# port and the start of its server nobody else gets it.
PORTS = range(10000, 32768)
LAUNCHER = [sys.executable, "-m", "torch.distributed.run", "--standalone"]


class Ended(NamedTuple):
    """How a process ended, and what it said."""

    code: int
    out: str
    err: str


def search_path():
    """Return what lets another interpreter find all that this one does."""
    return os.pathsep.join(place for place in map(str, sys.path) if place)


def environment_here():
    """Return this environment for a process that finds tepui and the tests' modules."""
    loopback = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
    return {
        **os.environ,
        "GLOO_SOCKET_IFNAME": loopback,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": search_path(),
    }


def environment_of(rank, size, port):
    """Return the environment of a rank."""
    return {
        **environment_here(),
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


_asked = count()


def free_port():
    """Return a port for a server to come: another one for every process and call."""
    while True:
        port = PORTS[(61 * os.getpid() + next(_asked)) % len(PORTS)]
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return port


def launched(size, script, *arguments, timeout=600, **environment):
    """Run a script once per rank; return how each ended."""
    port = free_port()
    options = ["-W", "error::FutureWarning", "-c", script, *map(str, arguments)]
    ranks = [
        subprocess.Popen(
            [sys.executable, *options],
            env={**environment_of(rank, size, port), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    try:
        said = [rank.communicate(timeout=timeout) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    return [
        Ended(rank.returncode, *each) for rank, each in zip(ranks, said, strict=True)
    ]


def assert_all_well(ended):
    assert [each.code for each in ended] == [0] * len(ended), "\n".join(
        each.err for each in ended if each.code
    )


def saved_by(folder, ranks):
    """Return what each of the ranks saved as ``<rank>.pt``."""
    files = [Path(folder) / f"{rank}.pt" for rank in ranks]
    return [torch.load(file, weights_only=False) for file in files]


def saved(script, folder, size, *arguments):
    """Run a script once per rank, all of them well; return what each saved."""
    assert_all_well(launched(size, script, folder, *arguments))
    return saved_by(folder, range(size))
