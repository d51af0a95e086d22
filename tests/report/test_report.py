"""The table, the plots and the page of a made-up comparison."""

import math
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from rich.console import Console

from report_cases import shown
from tepui.report import page as page_module
from tepui.report import printed_table, write_report
from tepui.report.drawing import as_png, as_svg
from tepui.report.figures import (
    accuracy_bars,
    accuracy_by_severity,
    reliability_diagram,
    sharpness_and_diversity,
)
from tepui.report.markup import Drawing
from tepui.report.page import render, sections_of
from tepui.report.tables import COLUMNS, cell, rows
from tepui.studies import Comparison, Estimate, MethodResult, Trained


def scores(accuracy, individual):
    return {
        "individual_accuracy": individual,
        "accuracy": accuracy,
        "improvement": accuracy - individual,
        "der": 0.5,
        "ece": 0.02,
        "nll": 0.4,
    }


def evaluation(accuracy, shift=True):
    bins = {"count": [0, 20, 80], "confidence": [None, 0.5, 0.9]}
    bins["accuracy"] = [None, 0.6, 0.8]
    clean, hard = scores(accuracy, accuracy - 0.05), scores(accuracy - 0.2, 0.5)
    cells = [{"type": "contrast", "severity": s, **hard} for s in (1, 2)]
    return {
        "rule": "probability",
        "members": 3,
        "samples": 100,
        "clean": clean,
        "shifted": hard if shift else None,
        "severities": {"1": hard, "2": hard} if shift else {},
        "cells": cells if shift else [],
        "reliability": {"clean": bins, "shifted": bins} if shift else {"clean": bins},
    }


def comparison(
    title="made up", labels=("Plain", "Flat"), ensembles=2, shift=True, sharp=True
):
    methods = tuple(
        MethodResult(
            label,
            {"class": label},
            tuple(
                Trained(
                    f"{label}/{n}",
                    (1, 2, 3),
                    1.0,
                    evaluation(0.9 + 0.02 * index + 0.01 * n, shift),
                    {},
                    {"mean": 0.5 - 0.2 * index + 0.1 * n} if sharp else None,
                )
                for n in range(ensembles)
            ),
        )
        for index, label in enumerate(labels)
    )
    settings = {
        "members": 3,
        "ensembles": ensembles,
        "model": "Net",
        "epochs": 4,
        "train": {"samples": 50},
    }
    environment = {"command": "tepui compare --out runs/x", "torch": "2"}
    return Comparison(title, settings, environment, methods)


def text(comparison):
    """Return the page of a comparison."""
    return render(comparison.title, sections_of(shown(comparison)))


def text_of(table):
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    console.print(table)
    console.file.close()
    return console.export_text()


def test_table_shows_means_and_errors_of_every_method():
    text = text_of(printed_table(comparison()))
    # Accuracies .90 and .91: mean 90.5 %, standard error half a point.
    assert re.search(r"clean\s+Plain\s+85.50 ± 0.50\s+90.50 ± 0.50", text)
    assert re.search(r"corrupted\s+Flat\s+50.00 ± 0.00\s+72.50 ± 0.50", text)


def test_one_ensemble_shows_no_error():
    assert "±" not in text_of(printed_table(comparison(ensembles=1)))


def test_only_the_better_method_is_marked():
    marked = {(row.data, row.method): row.best for row in rows(comparison())}
    assert marked["clean", "Flat"][1]
    assert not marked["clean", "Plain"][1]
    improvement = [column.title for column in COLUMNS].index("gain")
    assert not any(best[improvement] for best in marked.values())


def test_undefined_scores_are_a_dash():
    assert cell(Estimate(math.nan, math.nan, 0), COLUMNS[0]) == "–"  # noqa: RUF001


def test_without_shift_there_is_only_clean_data():
    assert {row.data for row in rows(comparison(shift=False))} == {"clean"}


def test_sharpness_stands_with_clean_data_where_it_was_measured():
    text = text_of(printed_table(comparison()))
    assert re.search(r"clean\s+Flat .* 0\.350 ± 0\.050\s*\n", text)
    assert re.search(r"corrupted\s+Flat .* –\s*\n", text)  # noqa: RUF001
    assert "sharpness" not in text_of(printed_table(comparison(sharp=False)))


def test_every_ensemble_is_a_point_of_sharpness_and_diversity():
    clean, shifted = sharpness_and_diversity(comparison()).axes
    for axis in (clean, shifted):
        places = [points.get_offsets().tolist() for points in axis.collections]
        assert [[round(x, 9) for x, _ in own] for own in places] == [
            [0.5, 0.6],
            [0.3, 0.4],
        ]


@pytest.mark.parametrize(
    "draw", [accuracy_bars, reliability_diagram, sharpness_and_diversity]
)
@pytest.mark.parametrize(("shift", "panels"), [(True, 2), (False, 1)])
def test_figures_have_a_panel_per_kind_of_data(draw, shift, panels):
    assert len(draw(comparison(shift=shift)).axes) == panels


def test_bars_end_at_the_measured_accuracy():
    axis = accuracy_bars(comparison()).axes[0]
    heights = [bar.get_height() for bar in axis.patches]
    bottoms = [bar.get_y() for bar in axis.patches]
    assert heights[0] == pytest.approx(85.5)
    assert bottoms[1] + heights[1] == pytest.approx(90.5)


def test_severity_curve_starts_at_clean_accuracy():
    axis = accuracy_by_severity(comparison()).axes[0]
    first = axis.containers[0].lines[0].get_ydata()
    assert list(first) == pytest.approx([90.5, 70.5, 70.5])


def test_reliability_pools_ensembles_and_leaves_out_empty_bins():
    axis = reliability_diagram(comparison()).axes[0]
    diagonal, plain, _ = axis.lines
    assert list(diagonal.get_xdata()) == [0, 1]
    assert list(plain.get_xdata()) == pytest.approx([0.5, 0.9])
    assert list(plain.get_ydata()) == pytest.approx([0.6, 0.8])


def test_svg_is_well_formed_and_repeats_to_the_byte():
    first = as_svg(accuracy_bars(comparison()))
    assert first == as_svg(accuracy_bars(comparison()))
    assert ElementTree.fromstring(first).tag.endswith("svg")
    assert as_png(accuracy_bars(comparison())).startswith(b"\x89PNG")


def test_page_is_whole_and_refers_to_nothing_outside(tmp_path):
    page = write_report(shown(comparison()), tmp_path).read_text()
    assert page.count("<svg") == page.count("</svg>") == 4
    assert "width=device-width" in page
    assert "tepui compare --out runs/x" in page
    outside = re.findall(r'(?:src|href)\s*=\s*"(?!#|data:)([^"]*)', page)
    assert outside == []
    assert "<script" not in page
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    stems = ("accuracy", "severity", "sharpness", "reliability")
    assert names == {f"{s}.{kind}" for s in stems for kind in ("png", "svg")}


def test_figures_do_not_stay_in_memory(tmp_path, monkeypatch):
    drawn = []

    def noted(*arguments):
        found = sections_of(*arguments)
        drawn.extend(p.figure for s in found for p in s.parts if isinstance(p, Drawing))
        return found

    monkeypatch.setattr(page_module, "sections_of", noted)
    write_report(shown(comparison()), tmp_path)
    assert len(drawn) == 4
    assert not any(figure.axes for figure in drawn)


def test_page_shows_only_what_was_measured(tmp_path):
    little = comparison(shift=False, sharp=False)
    page = write_report(shown(little), tmp_path).read_text()
    assert page.count("<svg") == 2
    assert ">Corruptions</h2>" not in page
    left_out = "sharpness and diversity; corruptions; mistakes and unfamiliar samples; "
    assert f"differ: {left_out}members; gallery; sharpness-aware sets.</p>" in page


def test_every_string_is_escaped():
    evil = "<script>alert('x')</script>"
    page = text(comparison(title=evil, labels=(evil, "B")))
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 20


def test_one_ensemble_is_said_to_prove_little():
    assert "differences may be chance" in text(comparison(ensembles=1))
    assert "standard errors over 2 ensembles" in text(comparison())


def test_sets_are_shown_where_a_method_has_them():
    plain = comparison(ensembles=1)
    assert "Sharpness-aware sets" not in text(plain)
    sets = {"samples": 50, "sizes": [20, 30], "overlaps": [[1.0, 0.25], [0.25, 1.0]]}
    trained = replace(plain.methods[0].ensembles[0], summary=sets)
    method = replace(plain.methods[0], ensembles=(trained,))
    page = text(replace(plain, methods=(method, plain.methods[1])))
    assert "Sharpness-aware sets" in page
    assert "<td>20 (40%)</td><td>0.25</td>" in page
    assert "<td>30 (60%)</td>" in page


def test_paths_are_shown_whole_only_where_asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = f"tepui compare --out {tmp_path}/runs/x --data.path /srv/private/photos"
    made = replace(comparison(), environment={"command": command, "torch": "2"})
    short = write_report(shown(made), tmp_path).read_text()
    assert "tepui compare --out runs/x --data.path .../photos" in short
    assert str(tmp_path) not in short
    assert "private" not in short
    whole = write_report(shown(made), tmp_path, whole_paths=True).read_text()
    assert command in whole
