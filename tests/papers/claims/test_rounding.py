"""Documents have the same digits wherever they were computed."""

import json
import math
from decimal import Context, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tepui.papers.claims.tables import DIGITS, rounded

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


@given(NUMBERS)
def test_floats_keep_their_first_digits(value):
    expected = Context(prec=DIGITS).create_decimal(Decimal(value))
    assert rounded(value) == float(expected)
    assert rounded(rounded(value)) == rounded(value)


@pytest.mark.parametrize("value", [0.29608086847321585, 1.1725045398166217e-73, -40.7])
def test_what_differs_in_the_last_digits_is_written_alike(value):
    near = value * (1 + 2e-12)
    assert near != value
    assert json.dumps(rounded(near)) == json.dumps(rounded(value))


def test_all_but_floats_is_left_as_it_is():
    document = {"n": 12345678901234, "took": True, "why": "0.12345678901234"}
    assert rounded(document) == document
    assert rounded([None, (1, 2.5), {}]) == [None, [1, 2.5], {}]
    assert rounded(math.inf) == math.inf
    assert math.isnan(rounded(math.nan))
