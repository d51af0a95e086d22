"""Streams of a GPU that are made once and used again.

Torch keeps a workspace for every stream on which it multiplied matrices; with new
streams for every run, a process would hold more memory after each.
"""

import os
from functools import cache

import torch

# Queues between host and GPU, read when CUDA begins: with torch's eight, more members
# than that wait for each other.
os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")


@cache
def lane(device: torch.device, number: int) -> torch.cuda.Stream:
    """Return the stream on which the member of a number runs."""
    return torch.cuda.Stream(device)


@cache
def beside(stream: torch.cuda.Stream) -> torch.cuda.Stream:
    """Return a stream for what may run beside a stream's own work."""
    return torch.cuda.Stream(stream.device)
