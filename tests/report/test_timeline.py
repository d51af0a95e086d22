"""The part of the page that shows where the time of training went."""

import re
from dataclasses import replace

import pytest

from report_cases import comparison, shown, text
from tepui.report.markup import Drawing
from tepui.report.sections import cost
from tepui.report.timeline import (
    LOOKS,
    activity_bars,
    by_epoch,
    epoch_strips,
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
    (axis,) = activity_bars({"A": RUN, "B": RUN[:4]}).axes
    ends = [0.0, 0.0]
    for bar in axis.patches:
        place = round(bar.get_y() + bar.get_height() / 2)
        assert bar.get_x() == pytest.approx(ends[place])
        ends[place] += bar.get_width()
    assert ends == pytest.approx([32.501, 18.0])


def test_strips_share_their_scales_and_mark_the_exchange():
    one, two = epoch_strips({"A": RUN, "B": RUN[:4]}).axes
    assert one.get_xlim() == two.get_xlim() == (0, 3)
    assert one.get_ylim() == two.get_ylim() == pytest.approx((0, 1.05 * 13.5))
    assert [line.get_xdata()[0] for line in one.lines] == [2]
    assert not two.lines


def test_the_page_says_it_in_pictures_words_and_a_table():
    found = reports()
    pictures = [p for p in cost(found.groups[0]) if isinstance(p, Drawing)]
    assert [picture.name for picture in pictures] == ["timeline", "timeline-epochs"]
    assert "A: 32.5 s: stepping 34 %, capturing 31 %" in pictures[0].alt
    assert "B" not in re.findall(r"(\w+): \d", pictures[0].alt)
    assert "A: exchange before epoch 2" in pictures[1].alt
    page = text(found)
    (whole,) = re.findall("<caption>Seconds of training.*?</table>", page, re.DOTALL)
    cells = re.findall(">([^<>]*)</t[dh]>", whole)
    shown_activities = ["preparing", "scoring", "exchanging", "capturing", "stepping"]
    headings = ["method", *shown_activities, "saving", "finishing", "all"]
    assert cells[: len(headings)] == headings
    means = [re.match(r"[\d.]+", cell)[0] for cell in cells[len(headings) + 1 :][:8]]
    expected = [4, 6, 0.5, 10, 11, 0.001, 1, 32.501]
    assert list(map(float, means)) == pytest.approx(expected)
    assert cells[2 * len(headings) + 1 :] == ["–"] * 8  # noqa: RUF001 - a dash


def test_pages_of_runs_without_timelines_stay_as_they_are():
    assert "Seconds of training one ensemble" not in text(shown(comparison()))
