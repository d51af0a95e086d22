"""Damaged files are refused by name, whatever the damage."""

import pytest

from damage_cases import CASES, plain
from mutations import ACCEPTED, REFUSED, SAME, counted, damaged

SEEDS = range(40)


@pytest.mark.parametrize("name", CASES)
def test_damage_is_refused_by_name(name, tmp_path):
    case = CASES[name]
    file = case.make(tmp_path)
    whole = plain(case.read(file))
    counts = counted(file, case.read, lambda found: plain(found) == whole, SEEDS)
    allowed = {SAME, REFUSED} if case.sealed else {SAME, REFUSED, ACCEPTED}
    assert counts.keys() <= allowed, dict(counts)
    assert plain(case.read(file)) == whole


def test_damages_are_seeded_and_differ():
    content = bytes(range(200))
    first = [damaged(content, seed) for seed in range(100)]
    assert first == [damaged(content, seed) for seed in range(100)]
    assert content not in first
    assert len({*first}) > 90
