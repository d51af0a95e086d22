"""Several real processes that run one script and leave their results."""

import os
import socket
import subprocess
import sys

import torch


def launched(script, folder, processes, timeout=200, lost=()):
    """Run a script once per rank; return what each saved as ``<rank>.pt``.

    The script is given its rank, the folder and the number of processes. Ranks that are
    to be lost leave nothing.
    """
    loopback = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
    ranks = [
        subprocess.Popen(
            [
                sys.executable,
                "-W",
                "error::FutureWarning",
                "-c",
                script,
                str(rank),
                str(folder),
                str(processes),
            ],
            env={**os.environ, "GLOO_SOCKET_IFNAME": loopback},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(processes)
    ]
    try:
        errors = [rank.communicate(timeout=timeout)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    left = [rank for rank in range(processes) if rank not in lost]
    assert [ranks[rank].returncode for rank in left] == [0] * len(left), errors
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in left]
