"""A name that ranks have in common and that none had before them.

torchrun keeps one store for all its attempts (``--max-restarts``): ranks that it starts
again would find there what those before them left, and look for dead processes.
"""

import time
from uuid import uuid4

from torch._C._distributed_c10d import Store

PAUSE = 0.01  # seconds between two looks


def common_name(store: Store, rank: int, size: int, timeout: float) -> str:
    """Return a new name, the same on all ranks.

    Rank 0 calls a name, under which the others answer with words that nobody used
    before; it says them again, by which each knows that the call was meant for it.

    Raises:
        RuntimeError: If not all ranks have answered in time.
    """
    return _called(store, size, timeout) if rank == 0 else _heard(store, rank, timeout)


def _called(store: Store, size: int, timeout: float) -> str:
    name, last = uuid4().hex, time.monotonic() + timeout
    store.set("tepui/call", name)
    answers = [_answer(name, rank) for rank in range(1, size)]
    while not store.check(answers):
        _pause_until(last)
    words = (store.get(answer).decode() for answer in answers)
    store.set(_echo(name), " ".join(words))
    return name


def _heard(store: Store, rank: int, timeout: float) -> str:
    word, last = uuid4().hex, time.monotonic() + timeout
    while True:
        if store.check(["tepui/call"]):
            name = store.get("tepui/call").decode()
            store.set(_answer(name, rank), word)
            if store.check([_echo(name)]) and word in store.get(_echo(name)).decode():
                return name
        _pause_until(last)


def _answer(name: str, rank: int) -> str:
    return f"tepui/{name}/answer/{rank}"


def _echo(name: str) -> str:
    return f"tepui/{name}/echo"


def _pause_until(last: float) -> None:
    if time.monotonic() > last:
        raise RuntimeError("some did not answer")
    time.sleep(PAUSE)
