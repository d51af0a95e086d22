"""Ranks agree on a name of their own, whatever those before them left in the store."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributed import HashStore

from tepui.training.ranks import common_name

SECONDS = 20.0


def together(store, ranks, size, seconds=SECONDS):
    """Return what each of some ranks says, started in this order."""
    with ThreadPoolExecutor(size) as pool:
        names = [pool.submit(common_name, store, r, size, seconds) for r in ranks]
        return [name.exception() or name.result() for name in names]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.permutations(range(3)), min_size=1, max_size=3))
def test_every_attempt_has_a_name_of_its_own(attempts):
    store = HashStore()
    names = [together(store, order, 3) for order in attempts]
    assert all(len({*each}) == 1 for each in names)
    assert len({each[0] for each in names}) == len(attempts)


@pytest.mark.parametrize("late", [0, 1, 2])
def test_an_attempt_that_was_cut_short_does_not_mislead_the_next(late):
    store = HashStore()
    there = [rank for rank in range(3) if rank != late]
    cut_short = together(store, there, 3, seconds=0.2)
    assert all(isinstance(said, RuntimeError) for said in cut_short)
    names = together(store, [2, 1, 0], 3)
    assert len({*names}) == 1
