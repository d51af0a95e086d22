import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tepui.experiments import estimate

VALUES = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=12)


@given(VALUES)
def test_error_is_scipys_standard_error_of_the_mean(values):
    found = estimate(values)
    assert found.error == pytest.approx(stats.sem(values), rel=1e-9, abs=1e-9)
    assert found.mean == pytest.approx(sum(values) / len(values), abs=1e-9)
    assert found.count == len(values)


def test_one_value_has_no_error():
    found = estimate([3.0])
    assert found.mean == 3.0
    assert math.isnan(found.error)


@pytest.mark.parametrize("missing", [None, math.nan])
def test_undefined_values_are_left_out(missing):
    assert estimate([1.0, missing, 3.0]) == estimate([1.0, 3.0])


def test_no_value_at_all_is_not_a_number():
    assert math.isnan(estimate([None]).mean)
    assert estimate([]).count == 0
