"""Grids of hyperparameters: every member a cell of its own."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import modest
from tepui import hyperparameter_grid

GRID = {"lr": (0.1, 0.2, 0.3), "weight_decay": (0.0, 1.0)}


def cells(dealt):
    return list(zip(*dealt.values(), strict=True))


@modest
@given(st.integers(1, 20), st.integers(0, 99))
def test_no_cell_comes_again_before_all_have_come(members, seed):
    found = cells(hyperparameter_grid(members, seed=seed, **GRID))
    every = set(product(*GRID.values()))
    assert len(found) == members
    for start in range(0, members, 6):
        turn = found[start : start + 6]
        assert len(set(turn)) == len(turn)
        assert set(turn) <= every


@modest
@given(st.integers(1, 12), st.integers(1, 12))
def test_adding_members_changes_no_other(members, more):
    few, many = (
        cells(hyperparameter_grid(n, **GRID)) for n in (members, members + more)
    )
    assert many[:members] == few


def test_few_members_already_differ_in_everything():
    seen = [hyperparameter_grid(2, seed=seed, **GRID) for seed in range(40)]
    for name in GRID:
        assert any(len(set(dealt[name])) == 2 for dealt in seen)
    assert len({tuple(cells(dealt)) for dealt in seen}) > 1


@pytest.mark.parametrize(
    ("members", "values", "message"),
    [
        (0, GRID, r"members must be positive, got 0"),
        (2, {}, r"values must name at least one hyperparameter, got 0"),
        (2, {"lr": ()}, r"lr must list at least one value, got \(\)"),
    ],
)
def test_bad_grids_are_refused(members, values, message):
    with pytest.raises(ValueError, match=message):
        hyperparameter_grid(members, **values)
