"""The colored table of corruptions, what training cost, groups and studies."""

import re
from base64 import b64encode
from dataclasses import replace
from pathlib import Path

import pytest

from report_cases import comparison, shown, text
from tepui.report.cost import cost, peak_memory, scoring_share, seconds_per_epoch
from tepui.report.heat_map import differences, heat_maps, levels
from tepui.report.loading import LoadedReports, ReportSource, Study
from tepui.report.measures import ACCURACY
from tepui.report.page import opening_of, render, sections_of
from tepui.studies.results import Record, Results
from tepui.training.history import EpochRecord, Outcome


def record(epoch, seconds, exchange=None, memory=None):
    return EpochRecord(epoch, (1.0,), (0.1,), (), seconds, 9.0, exchange, memory)


def test_corruptions_show_means_and_differences_to_the_first_method():
    first, second = comparison().methods
    assert levels(first, ACCURACY) == {
        ("fog", 1): pytest.approx(80),
        ("fog", 5): pytest.approx(40),
        ("jpeg_compression", 1): pytest.approx(70),
    }
    found = differences(second, first, ACCURACY)
    assert {place: gap for place, (gap, _) in found.items()} == {
        ("fog", 1): pytest.approx(10),
        ("fog", 5): pytest.approx(-20),
    }
    maps = heat_maps(comparison(), ACCURACY)
    of_first, of_second = re.findall("<tbody>(.*?)</tbody>", maps, re.DOTALL)
    cells = [re.findall(">([^<>]+)</t[dh]>", rows) for rows in (of_first, of_second)]
    assert cells[0] == ["fog", "80", "40", "60", "jpeg compression", "70", "70"]
    minus = "−"  # noqa: RUF001 - a minus sign
    assert cells[1][:4] == ["fog", "+10.0", f"{minus}20.0", f"{minus}5.0"]
    # Violet for better, rose for worse; the strongest is the largest.
    assert '<td class="up" style="--v:71">+10.0' in of_second
    assert '<td class="down" style="--v:100">' in of_second


def test_corruptions_seen_in_training_are_said_beside_their_rows():
    first, second = comparison().methods

    def seen(trained, kind):
        cells = [
            cell | ({"seen_in_training": True} if cell["type"] == kind else {})
            for cell in trained.evaluation["cells"]
        ]
        return replace(trained, evaluation={**trained.evaluation, "cells": cells})

    last = replace(
        first, ensembles=(first.ensembles[0], seen(first.ensembles[1], "fog"))
    )
    maps = heat_maps(replace(comparison(), methods=(last, second)), ACCURACY)
    of_first, of_second = re.findall("<tbody>(.*?)</tbody>", maps, re.DOTALL)
    assert "fog (seen in training)<" in of_first
    assert of_first.count("seen in training") == 1
    assert "seen in training" not in of_second
    last = replace(second, ensembles=(seen(second.ensembles[0], "fog"),))
    maps = heat_maps(replace(comparison(), methods=(first, last)), ACCURACY)
    of_first, of_second = re.findall("<tbody>(.*?)</tbody>", maps, re.DOTALL)
    assert "seen in training" not in of_first
    assert "fog (seen in training)<" in of_second


def test_bold_in_the_map_is_what_an_interval_separates():
    first = comparison().methods[0]
    ensembles = tuple(
        replace(trained, seeds=(n,)) for n, trained in enumerate(first.ensembles)
    )
    base = replace(first, ensembles=ensembles)

    def less(trained, gap):
        cells = [
            {**cell, "accuracy": cell["accuracy"] - gap}
            for cell in trained.evaluation["cells"]
        ]
        return replace(trained, evaluation={**trained.evaluation, "cells": cells})

    # One prediction of 100 is a point: 12.7 / √12 = 3.7 points are not enough.
    for gap, apart in ((0.03, False), (0.05, True)):
        lower = tuple(less(trained, gap) for trained in ensembles)
        other = replace(base, label="C", ensembles=lower)
        found = differences(other, base, ACCURACY)
        assert {known.apart for _, known in found.values()} == {apart}


def test_equal_methods_have_no_color():
    one = comparison().methods[0]
    same = replace(comparison(), methods=(one, replace(one, label="C")))
    maps = heat_maps(same, ACCURACY)
    assert '<td class="down" style="--v:0">0.0</td>' in maps


def test_cost_is_a_mean_over_epochs_and_ensembles():
    entry = shown(comparison()).groups[0].entries[0]
    assert seconds_per_epoch(entry).mean == 2.0  # eight seconds, four epochs
    assert scoring_share(entry).count == 0
    assert peak_memory(entry) is None
    known = (record(0, 1.0, 0.0, 5), record(1, 2.0, 1.0, 9))
    entry = replace(entry, outcomes=(Outcome(known), Outcome(known)))
    assert seconds_per_epoch(entry).mean == 1.5
    assert scoring_share(entry).mean == pytest.approx(25)
    assert peak_memory(entry) == 9


def test_cost_is_left_out_where_nothing_is_known():
    group = shown(replace(comparison(), settings={})).groups[0]
    assert cost(group) == []
    assert cost(shown(comparison()).groups[0]) != []


def test_groups_are_apart_and_the_page_says_why():
    found = shown(comparison())
    page = text(replace(found, groups=found.groups * 2))
    assert "tested in 2 different ways" in page
    assert re.findall("<h2[^>]*>(Group [12]):", page) == ["Group 1", "Group 2"]
    assert len(re.findall("<h3[^>]*>Scores</h3>", page)) == 2
    names = re.findall(r'\bid="([^"]*)"', page)
    assert len(names) == len(set(names))
    assert "different ways" not in text(found)


def test_the_contents_tell_groups_apart():
    found = shown(comparison())
    page = text(replace(found, groups=found.groups * 2))
    contents = page[page.index("<nav") : page.index("</nav>")]
    anchors = re.findall('<a href="#([^"]*)">', contents)
    assert len(set(anchors)) == len(anchors)
    assert all(f'id="{anchor}"' in page for anchor in anchors)
    places = [anchors.index(f"group-{n}") for n in (1, 2)]
    assert anchors[places[0] + 1 : places[1]] == [
        anchor for anchor in anchors if anchor.startswith("group-1-")
    ]


def test_methods_without_shared_seeds_are_named():
    assert "No two methods share the seeds of two" in text(shown(comparison()))


def test_a_study_shows_the_papers_number_beside_ours():
    row = Record(
        item="x/figure1",
        dataset="<digits>",
        architecture="mlp",
        method="sam",
        metric="accuracy",
        value=97.0,
        unit="percent",
        n=3,
        at={"severity": 5},
    )
    settings = {"differs": [{"what": "digits & small nets", "why": "two cores"}]}
    settings["trained on"] = "Digits"
    results = Results("x/figure1", "accuracy", "smoke", settings, {}, (row,))
    study = Study(Path("results"), results, "<svg><rect id='a'/></svg>")
    found = LoadedReports(
        "t", (), (study,), (ReportSource(Path("results"), "t", {}, {}),)
    )
    sections = sections_of(found, lambda record: ("96.5", "97.0"))
    page = render(opening_of(found), sections)
    cells = re.findall(">([^<>]*)</t[dh]>", page)
    assert cells[:7] == [
        "dataset",
        "method",
        "severity",
        "metric",
        "paper",
        "ours",
        "n",
    ]
    assert cells[7:] == ["&lt;digits&gt;", "sam", "5", "accuracy", "96.5", "97.0", "3"]
    assert "Not the paper&#39;s data: Digits for &lt;digits&gt;." in page
    assert "What differs from the paper" in page
    assert "<dt>digits &amp; small nets</dt>" in page
    assert "<dd>two cores</dd>" in page
    claims = "What this says of the paper&#39;s claims: tepui claims --from results<"
    assert claims not in page  # of size smoke
    small = replace(
        found, studies=(replace(study, results=replace(results, size="small")),)
    )
    with_paper = render(
        opening_of(small), sections_of(small, lambda record: ("96.5", "97.0"))
    )
    assert claims in with_paper
    assert claims not in render(opening_of(small), sections_of(small))
    panel = replace(results, records=(replace(row, item="x/figure1b"),))
    one = replace(found, studies=(replace(study, results=panel),))
    assert ">x/figure1b (smoke)<" in render(opening_of(one), sections_of(one))
    said = "x/figure1: accuracy. The numbers stand in the table below."
    drawn = b64encode(b"<svg><rect id='a'/></svg>").decode()
    assert f'<img src="data:image/svg+xml;base64,{drawn}" alt="{said}">' in page
    assert ">paper<" not in text(found)
