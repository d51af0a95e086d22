"""The part of the page that shows where the time of training went."""

import re
from dataclasses import replace

import pytest

from report_cases import comparison, shown, text
from tepui.training.history import Outcome

RUN = {
    "preparing": 4.0,
    "scoring": 6.0,
    "exchanging": 0.5,
    "capturing": 10.0,
    "stepping": 11.0,
    "saving": 0.001,
    "finishing": 1.0,
}


def reports():
    """Return two methods, the first with the same run twice, the second without."""
    found = shown(comparison())
    first, second = found.groups[0].entries
    run = Outcome(timeline=RUN)
    entries = (replace(first, outcomes=(run, run)), second)
    return replace(found, groups=(replace(found.groups[0], entries=entries),))


def test_the_page_has_the_mean_seconds_of_every_activity():
    found = reports()
    page = text(found)
    (whole,) = re.findall(
        "<caption><span>Seconds of training.*?</table>", page, re.DOTALL
    )
    rows = re.findall("<tr>(.*?)</tr>", whole, re.DOTALL)
    headings, first, second = (re.findall(">([^<>]+?) ?<", row) for row in rows)
    shown_activities = ["preparing", "scoring", "exchanging", "capturing", "stepping"]
    assert headings == ["method", *shown_activities, "saving", "finishing", "all"]
    means = [float(cell) for cell in first[1:] if " to " not in cell]
    expected = [4, 6, 0.5, 10, 11, 0.001, 1, 32.501]
    assert means == pytest.approx(expected)
    assert second[1:] == ["–"] * 8  # noqa: RUF001 - a dash


def test_pages_of_runs_without_timelines_stay_as_they_are():
    assert "Seconds of training one ensemble" not in text(shown(comparison()))
