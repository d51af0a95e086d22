"""Tables of results: what stands in their cells."""

import math

from tepui.papers.reproduce import rows
from tepui.studies import Record, Results


def found(radii):
    names = {"item": "sharpbalance/figure7", "dataset": "digits", "method": "sam"}
    names |= {"architecture": "", "metric": "accuracy", "unit": "percent"}
    return Results(
        "sharpbalance/figure7",
        "title",
        "small",
        {},
        {},
        tuple(Record(value=1.0, n=1, at={"rho": rho}, **names) for rho in radii),
    )


def column(radii):
    headings, *lines = rows(found(radii))
    return [line[headings.index("rho")] for line in lines]


def test_coordinates_show_no_noise_of_floats():
    assert column([0.1 + 0.2, 1 / 3, 1e-7, 2.0]) == ["0.3", "0.333333", "1e-07", "2"]


def test_coordinates_that_are_close_stay_apart():
    close = 0.12345678, math.nextafter(0.12345678, 1), 0.12345679
    assert column(close) == ["0.12345678", "0.12345678", "0.12345679"]


def test_other_coordinates_stay_as_they_are():
    assert column([1234567, "PDS", True]) == ["1234567", "PDS", "True"]
