"""Rows of a part of many samples: even, in range, and those of recorded runs."""

import random
from itertools import pairwise

import pytest
import torch

from tepui.core.evenly_spaced import evenly_spaced

# float32 counts to this and no further.
COUNTED = 2**24


@pytest.mark.parametrize("size", [1, 2, 63, 64, 65, 1000, COUNTED, 10**12])
@pytest.mark.parametrize("count", [1, 2, 64, 1000])
def test_rows_are_even_in_order_and_in_range(size, count):
    rows = evenly_spaced(size, count).tolist()
    assert rows == sorted({*rows})
    assert rows[0] == 0
    assert len(rows) == min(size, count)
    if len(rows) > 1:
        assert rows[-1] == size - 1
        gaps = [later - row for row, later in pairwise(rows)]
        # float32 rounds by as much at its end.
        assert max(gaps) - min(gaps) <= 1 + 4 * (2**20 < size <= COUNTED)


@pytest.mark.parametrize("size", [COUNTED + 2, COUNTED + 4, 2**31 + 7, 10**12 + 1])
@pytest.mark.parametrize("count", [2, 64, 999])
def test_rows_of_the_largest_data_are_exact(size, count):
    expected = [number * (size - 1) // (count - 1) for number in range(count)]
    assert evenly_spaced(size, count).tolist() == expected


def test_rows_are_those_that_recorded_fingerprints_were_taken_of():
    draws = random.Random(0)
    sizes = [*range(1, 300), *(draws.randrange(300, COUNTED) for _ in range(2000))]
    for size in [*sizes, COUNTED - 1, COUNTED, COUNTED + 1]:
        before = torch.linspace(0, size - 1, min(64, size)).long().unique()
        assert torch.equal(evenly_spaced(size, 64), before)
    # 21 * 9999 / 63 is 3333: what float32 made of it is part of what was recorded.
    assert evenly_spaced(10_000, 64)[21] == 3332


def test_rows_do_not_depend_on_what_torch_computes_in():
    rows = evenly_spaced(10_000, 64)
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.equal(evenly_spaced(10_000, 64), rows)
    finally:
        torch.set_default_dtype(default)
