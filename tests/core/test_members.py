"""Hyperparameters that may differ between members."""

from dataclasses import dataclass
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import modest
from tepui import hyperparameter_grid
from tepui.core.members import for_member, per_member, values_of


@dataclass(frozen=True)
class Spec:
    rho: float | tuple[float, ...] = per_member(0.05)
    name: str | tuple[str, ...] = per_member("sgd")
    milestones: tuple[int, ...] = (3, 6)

    def __post_init__(self):
        if min(values_of(self.rho)) < 0:
            raise ValueError("rho must be non-negative")


@modest
@given(
    st.lists(st.floats(0, 9), min_size=1, max_size=6), st.sampled_from([list, tuple])
)
def test_each_member_gets_its_own_value_and_all_else_stays(values, kind):
    spec = Spec(rho=kind(values))
    for member, value in enumerate(values):
        assert for_member(spec, member, len(values)) == Spec(rho=value)
    assert spec.rho == kind(values)


def test_text_is_one_value_and_not_a_list_of_letters():
    assert for_member(Spec(name="abc"), 1, 3).name == "abc"
    assert for_member(Spec(name=("a", "b")), 1, 2).name == "b"
    assert values_of("abc") == ("abc",)


def test_lists_in_other_fields_are_left_alone():
    assert for_member(Spec(rho=(0.1, 0.2)), 0, 2).milestones == (3, 6)
    assert for_member(Spec(), 0, 5).milestones == (3, 6)


@pytest.mark.parametrize("values", [(), (0.1,), (0.1, 0.2, 0.3)])
def test_another_number_of_values_than_members_is_refused(values):
    @dataclass(frozen=True)
    class Step:
        size: object = per_member(1.0)

    message = rf"^size must have one value per member \(2\), got {len(values)}"
    with pytest.raises(ValueError, match=message):
        for_member(Step(values), 0, 2)


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
