"""The colored table of corruptions, what training cost, groups and studies."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from report_cases import comparison, shown, text
from tepui.report.cost import peak_memory, scoring_share, seconds_per_epoch
from tepui.report.heat_map import accuracies, differences, heat_map
from tepui.report.markup import inline_svg
from tepui.report.page import render, sections_of
from tepui.report.sections import cost
from tepui.studies.load_reports import LoadedReports, ReportSource, Study
from tepui.studies.results import Record, Results
from tepui.training.run_folder import EpochRecord


def record(epoch, seconds, exchange=None, memory=None):
    return EpochRecord(epoch, (1.0,), (0.1,), (), seconds, 9.0, exchange, memory)


def test_corruptions_show_means_and_differences_to_the_first_method():
    first, second = comparison().methods
    assert accuracies(first) == {
        ("fog", 1): pytest.approx(0.8),
        ("fog", 5): pytest.approx(0.4),
        ("jpeg_compression", 1): pytest.approx(0.7),
    }
    assert differences(second, first) == {
        ("fog", 1): pytest.approx(0.1),
        ("fog", 5): pytest.approx(-0.2),
    }
    fog, jpeg = re.findall("<tr>(.*?)</tr>", heat_map(comparison()))[1:]
    assert re.findall(">([^<>]*)</t[dh]>", fog) == ["fog", "80", "40", "+10.0", "−20.0"]  # noqa: RUF001
    assert re.findall(">([^<>]*)</t[dh]>", jpeg) == [
        "jpeg compression",
        "70",
        "",
        "",
        "",
    ]
    # Blue for better, orange for worse, and twice as strong for twice as much.
    assert "background: rgb(0 114 178 / 0.300)" in fog
    assert "background: rgb(213 94 0 / 0.600)" in fog


def test_equal_methods_have_no_color():
    one = comparison().methods[0]
    same = replace(comparison(), methods=(one, replace(one, label="C")))
    assert "+0.0" in heat_map(same)
    assert "/ 0.000)" in heat_map(same)


def test_cost_is_a_mean_over_epochs_and_ensembles():
    entry = shown(comparison()).groups[0].entries[0]
    assert seconds_per_epoch(entry).mean == 2.0  # eight seconds, four epochs
    assert scoring_share(entry).count == 0
    assert peak_memory(entry) is None
    known = (record(0, 1.0, 0.0, 5), record(1, 2.0, 1.0, 9))
    entry = replace(entry, histories=(known, known))
    assert seconds_per_epoch(entry).mean == 1.5
    assert scoring_share(entry).mean == pytest.approx(1 / 4)
    assert peak_memory(entry) == 9
    old = (record(0, 1.0), record(1, 2.0, 1.0))
    assert scoring_share(replace(entry, histories=(known, old))).count == 1


def test_cost_is_left_out_where_nothing_is_known():
    group = shown(replace(comparison(), settings={})).groups[0]
    assert cost(group) == []
    assert cost(shown(comparison()).groups[0]) != []


def test_groups_are_apart_and_the_page_says_why():
    found = shown(comparison())
    page = text(replace(found, groups=found.groups * 2))
    assert "tested in 2 different ways" in page
    assert re.findall("<h2[^>]*>(Group [12]):", page) == ["Group 1", "Group 2"]
    assert len(re.findall("<h3[^>]*>Overview</h3>", page)) == 2
    names = re.findall(r'\bid="([^"]*)"', page)
    assert len(names) == len(set(names))
    assert "different ways" not in text(found)


def test_methods_with_one_ensemble_are_told_from_others():
    assert "Those without an error rest on one ensemble" in text(shown(comparison()))


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
    settings = {"differs": "digits & small nets"}
    results = Results("x/figure1", "accuracy", "smoke", settings, {}, (row,))
    study = Study(Path("results"), results, "<svg/>")
    found = LoadedReports(
        "t", (), (study,), (ReportSource(Path("results"), "t", {}, {}),)
    )
    sections = sections_of(found, lambda record: ("96.5", "97.0"))
    page = render("t", sections)
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
    assert "What differs from the paper: digits &amp; small nets" in page
    assert 'src="data:image/svg+xml;base64,PHN2Zy8+"' in page
    assert ">paper<" not in text(found)


def test_figures_take_the_colors_and_keep_to_their_own_names():
    import matplotlib.figure

    figure = matplotlib.figure.Figure()
    figure.add_subplot().plot([1, 2], label="a")
    one, two = inline_svg(figure, "one"), inline_svg(figure, "two <")
    assert "#000000" not in one
    assert "currentColor" in one
    ids = [set(re.findall(r'\bid="([^"]*)"', svg)) for svg in (one, two)]
    assert ids[0]
    assert not ids[0] & ids[1]
    for own, svg in zip(ids, (one, two), strict=True):
        used = set(re.findall(r'(?:url\(#|href="#)([^")]*)', svg))
        assert used
        assert used <= own
