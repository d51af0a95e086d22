"""The part of the page that shows where the time of training went."""

import re
from dataclasses import replace

import pytest

from report_cases import comparison, shown, text
from tepui.report.sections import cost
from tepui.report.timeline import (
    LOOKS,
    activity_figure,
    by_epoch,
    epoch_figure,
    exchanges,
    mean_timeline,
    switch_in_words,
    told_apart,
)
from tepui.training import Span
from tepui.training.timeline import ACTIVITIES, by_activity

RUN = (
    Span("preparing", None, 4.0),
    Span("capturing", 0, 8.0),
    Span("stepping", 0, 3.0),
    Span("stepping", 1, 3.0),
    Span("saving", 1, 0.001),
    Span("scoring", 2, 6.0),
    Span("exchanging", 2, 0.5),
    Span("capturing", 2, 2.0),
    Span("stepping", 2, 5.0),
    Span("finishing", None, 1.0),
)


def reports():
    """Return two methods, the first with the same run twice, the second without."""
    found = shown(comparison())
    first, second = found.groups[0].entries
    entries = (replace(first, timelines=(RUN, RUN)), second)
    return replace(found, groups=(replace(found.groups[0], entries=entries),))


def test_every_activity_looks_different():
    assert LOOKS.keys() == set(ACTIVITIES)
    assert len(set(LOOKS.values())) == len(ACTIVITIES)


def test_ensembles_without_a_timeline_do_not_count():
    entry = reports().groups[0].entries[0]
    assert mean_timeline(entry) == RUN
    assert mean_timeline(replace(entry, timelines=(RUN, ()))) == RUN
    twice = tuple(replace(span, seconds=3 * span.seconds) for span in RUN)
    mean = mean_timeline(replace(entry, timelines=(RUN, twice)))
    assert [span.seconds for span in mean] == [2 * span.seconds for span in RUN]


def test_epochs_are_parted_and_what_is_outside_them_is_left_out():
    assert by_epoch(RUN) == [
        {"capturing": 8.0, "stepping": 3.0},
        {"stepping": 3.0, "saving": 0.001},
        {"scoring": 6.0, "exchanging": 0.5, "capturing": 2.0, "stepping": 5.0},
    ]
    assert by_epoch([Span("preparing", None, 1.0)]) == [{}]


def test_small_parts_are_joined_and_nothing_is_lost():
    parts = told_apart(by_epoch(RUN), 13.5)
    assert "saving" not in parts
    assert parts["other"] == [0.0, 0.001, 0.0]
    inside = [span for span in RUN if span.epoch is not None]
    assert sum(map(sum, parts.values())) == sum(by_activity(inside).values())


def test_the_exchange_is_found_and_priced():
    assert exchanges(RUN) == [2]
    cost = "scoring 6.0 s, exchanging 0.5 s, capturing 2.0 s"
    assert switch_in_words(RUN) == f"exchange before epoch 2 ({cost})"
    assert exchanges([Span("scoring", 0, 1.0)]) == [0]
    again = (*RUN, Span("scoring", 3, 1.0), Span("scoring", 4, 1.0))
    assert "before epoch 2 and 2 more (scoring 8.0 s" in switch_in_words(again)
    assert switch_in_words(RUN[:4]) == "no exchange"


def test_bars_are_as_long_as_the_runs():
    drawn = activity_figure({"A": RUN, "B": RUN[:4]}, ["A", "B"])
    ends = []
    for plot in re.findall(r'<svg class="plot" height="36".*?</svg>', drawn):
        end = 0.0
        for x, width in re.findall(r'<rect x="([\d.]+)%" .*?width="([\d.]+)%"', plot):
            assert float(x) == pytest.approx(end, abs=0.02)
            end = float(x) + float(width)
        ends.append(end)
    assert ends == pytest.approx([100, 100 * 18 / 32.501], abs=0.05)


def test_strips_share_their_scales_and_mark_the_exchange():
    drawn = epoch_figure({"A": RUN, "B": RUN[:4]})
    one, two = re.findall(r'<svg class="plot".*?<text[^>]*>epoch;', drawn)
    ticks = [re.findall(r'<line x1="12%" y1="([\d.]+)"', each) for each in (one, two)]
    assert ticks[0] == ticks[1] != []
    # Epoch 2 of 3, where the first 12 % of the width hold the axis.
    switches = [re.findall(r'x1="([\d.]+)%"[^>]*"switch"', each) for each in (one, two)]
    assert switches == [[str(round(12 + 88 * 2 / 3, 2))], []]


def test_the_page_says_it_in_pictures_words_and_a_table():
    found = reports()
    said = re.findall('aria-label="([^"]*)"', "".join(cost(found.groups[0])))
    assert any("A: 32.5 s: stepping 34 %, capturing 31 %" in each for each in said)
    assert any("of A: exchange before epoch 2" in each for each in said)
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
