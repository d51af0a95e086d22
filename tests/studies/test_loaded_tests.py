"""Tests of a store share the memory that corrupted copies may take."""

from dataclasses import replace

import pytest

from study_cases import EXAM
from tepui.studies import store as stores
from tepui.studies.store import Store

SECOND = replace(EXAM, types=("brightness",))
SIZE = 30 * 64 * 2  # of the copies of one test


@pytest.mark.parametrize(("room", "kept"), [(2 * SIZE, True), (2 * SIZE - 1, False)])
def test_all_tests_share_the_room_for_copies(room, kept, tmp_path, monkeypatch):
    monkeypatch.setattr(stores, "KEPT_BYTES", room)
    store = Store(tmp_path, device="cpu")
    first, second, again = map(store.test, (EXAM, SECOND, EXAM))
    assert first.shifted["contrast", 5] is again.shifted["contrast", 5]
    copies = second.shifted
    assert (copies["brightness", 5] is copies["brightness", 5]) == kept
