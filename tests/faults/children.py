"""Work in forked processes, which may be killed, hang or run out of memory.

Forked, since importing torch takes longer than most of the work.
"""

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch

DEADLY = (signal.SIGINT, signal.SIGTERM)
BLOCKED = 128 + signal.SIGALRM  # what a child that hangs ends with


def forked(work: Callable[[], object], log: Path) -> int:
    """Begin some work in a process of its own; return its number.

    It ends with 0, with 130 or 143 after a signal, or with 1 after an error, the last
    line of its log. It leads a group of processes, which ends with it. A signal that
    comes before the work has begun waits until it has; one after its end is too late.
    """
    sys.stdout.flush()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, DEADLY)
    child = os.fork()
    if child:
        with suppress(OSError):  # it was faster, or is no more
            os.setpgid(child, child)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return child
    code = 1
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        torch.set_num_threads(1)
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        sys.stdout = sys.stderr = os.fdopen(descriptor, "w")
        code = _code_of(work)
    finally:
        sys.stderr.flush()
        os._exit(code)


def _code_of(work: Callable[[], object]) -> int:
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, DEADLY)
        work()
        signal.pthread_sigmask(signal.SIG_BLOCK, DEADLY)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.stderr.write(traceback.format_exc())
        return 1
    return 0


def ended(child: int, seconds: float = 240) -> int:
    """Wait for a process; return its code, negative for a signal."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return BLOCKED


def last_words(log: Path, lines: int = 1) -> str:
    """Return the end of what a process wrote."""
    text = log.read_text(errors="replace") if log.exists() else ""
    return " | ".join(text.strip().splitlines()[-lines:])
