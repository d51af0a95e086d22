"""Processes, known by when they were started."""

import os
from pathlib import Path

import pytest

from tepui.core.processes import started

NAME = Path("/proc/self/comm")


@pytest.mark.skipif(not NAME.exists(), reason="needs /proc")
def test_a_program_may_be_named_by_any_bytes():
    before, name = started(os.getpid()), NAME.read_bytes()
    try:
        NAME.write_bytes(b"\xff) Z")
        assert started(os.getpid()) == before
    finally:
        NAME.write_bytes(name.strip())
