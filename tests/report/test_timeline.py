"""The part of the page that shows where the time of training went."""

import re
from dataclasses import replace

import pytest

from report_cases import comparison, shown, text
from tepui.report.sections import cost
from tepui.report.timeline import LOOKS, activity_figure, told_apart
from tepui.training.history import Outcome
from tepui.training.timeline import ACTIVITIES

RUN = {
    "preparing": 4.0,
    "scoring": 6.0,
    "exchanging": 0.5,
    "capturing": 10.0,
    "stepping": 11.0,
    "saving": 0.001,
    "finishing": 1.0,
}
SHORT = {"preparing": 4.0, "capturing": 8.0, "stepping": 6.0}


def reports():
    """Return two methods, the first with the same run twice, the second without."""
    found = shown(comparison())
    first, second = found.groups[0].entries
    run = Outcome(timeline=RUN)
    entries = (replace(first, outcomes=(run, run)), second)
    return replace(found, groups=(replace(found.groups[0], entries=entries),))


def test_every_activity_looks_different():
    assert LOOKS.keys() == set(ACTIVITIES)
    assert len(set(LOOKS.values())) == len(ACTIVITIES)


def test_small_parts_are_joined_and_nothing_is_lost():
    parts = told_apart([RUN, SHORT], 32.501)
    assert "saving" not in parts
    assert parts["other"] == [0.001, 0.0]
    sums = [sum(seconds) for seconds in zip(*parts.values(), strict=True)]
    assert sums == pytest.approx([sum(RUN.values()), sum(SHORT.values())])


def test_bars_are_as_long_as_the_runs():
    drawn = activity_figure({"A": RUN, "B": SHORT}, ["A", "B"])
    ends = []
    for plot in re.findall(r'<svg class="plot" height="36".*?</svg>', drawn):
        end = 0.0
        for x, width in re.findall(r'<rect x="([\d.]+)%" .*?width="([\d.]+)%"', plot):
            assert float(x) == pytest.approx(end, abs=0.02)
            end = float(x) + float(width)
        ends.append(end)
    assert ends == pytest.approx([100, 100 * 18 / 32.501], abs=0.05)


def test_the_page_says_it_in_pictures_words_and_a_table():
    found = reports()
    said = re.findall('aria-label="([^"]*)"', "".join(cost(found.groups[0])))
    assert any("A: 32.5 s: stepping 34 %, capturing 31 %" in each for each in said)
    assert not any(each.startswith("B: ") and "stepping" in each for each in said)
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
