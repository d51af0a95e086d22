"""Runs in one process leave no open file and no thread behind."""

import sys

import pytest

from faults.soak import cycles


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_cycles_leave_nothing_open():
    first, *others = cycles(3)
    assert {each.open_files for each in others} == {first.open_files}
    assert {each.threads for each in others} == {first.threads}
    assert max(each.resident_mib for each in others) < first.resident_mib + 40
