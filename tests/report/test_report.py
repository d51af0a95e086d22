"""The tables and the page of a made-up comparison."""

import math
import re
from dataclasses import replace
from html import unescape

import pytest
from rich.console import Console

import report_cases
from report_cases import shown
from tepui.report import printed_table, write_report
from tepui.report.comparison import Comparison, MethodResult, Trained
from tepui.report.levels import curves_of, levels_of
from tepui.report.measures import ACCURACY, measures_of
from tepui.report.reliability import pooled_bins
from tepui.report.scores import scores_figure
from tepui.report.tables import interval_cell, rows, score_cell
from tepui.studies import Interval


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
                    (1 + n, 2, 3),
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
    return report_cases.text(shown(comparison))


def text_of(table):
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    console.print(table)
    console.file.close()
    return console.export_text()


def test_table_shows_means_and_intervals_of_every_method():
    text = text_of(printed_table(comparison()))
    # Accuracies .90 and .91: mean 90.5 %, standard error half a point, and Student's
    # quantile with one degree of freedom, 12.706.
    below = r".*\n\s+79.15 to 91.85\s+84.15 to 96.85"
    assert re.search(rf"clean\s+Plain\s+85.50\s+90.50{below}", text)
    # Equal values are known to a step of one prediction: 100 / (100 * 2 * 3) / √24.
    below = r".*\n\s+49.57 to 50.43\s+66.15 to 78.85"
    assert re.search(rf"corrupted\s+Flat\s+50.00\s+72.50{below}", text)


def test_one_ensemble_shows_no_interval():
    assert " to " not in text_of(printed_table(comparison(ensembles=1)))


def bold(comparison):
    titles = [measure.title for measure in measures_of(comparison)]
    return {
        (row.data, row.method, title)
        for row in rows(comparison)
        for title, cell in zip(titles, row.cells, strict=True)
        if cell.bold
    }


def test_bold_is_what_an_interval_separates():
    # Two points more in each pair, and 100 samples: one prediction is a point.
    better = ("clean", "Flat", "ensemble")
    assert better not in bold(comparison(ensembles=2))  # 2 < 12.7 / √12 = 3.7
    assert better in bold(comparison(ensembles=3))  # 2 > 4.3 / √18 = 1.01
    equal = {"DER", "ECE", "NLL"}
    assert not equal & {title for _, _, title in bold(comparison(ensembles=3))}


def test_bold_is_the_better_one_alone():
    found = bold(comparison(ensembles=3))
    assert {method for _, method, _ in found} == {"Flat"}
    assert "sharpness" not in {title for _, _, title in found}  # flatter, not better


def test_one_of_a_kind_is_told_in_the_singular():
    made = comparison(labels=("Plain",), ensembles=1)
    ones = {**made.settings, "members": 1, "epochs": 1, "train": {"samples": 1}}
    (method,) = made.methods
    (single,) = method.ensembles
    single = replace(single, evaluation={**single.evaluation, "members": 1})
    method = replace(method, ensembles=(single,))
    page = text(replace(made, settings=ones, methods=(method,)))
    assert "1 member × 1 ensemble" in page  # noqa: RUF001 - a sign of multiplication
    assert "1 epoch<" in page


def test_undefined_scores_are_a_dash():
    nothing = interval_cell(Interval(math.nan, math.nan, math.nan, 0), 2)
    assert (nothing.text, nothing.small) == ("–", "")  # noqa: RUF001 - a dash


def test_the_first_of_several_methods_is_the_baseline():
    assert "<small>baseline</small>" in text(comparison())
    assert "<small>baseline</small>" not in text(comparison(labels=("Plain",)))


def test_an_axis_of_accuracies_does_not_magnify():
    alone = comparison(labels=("Plain",), ensembles=1, shift=False)
    (trained,) = alone.methods[0].ensembles
    trained.evaluation["clean"]["individual_accuracy"] = 0.899  # and all together 0.9
    drawn = str(scores_figure(alone))
    ticks = [float(t) for t in re.findall(r'class="tick">([\d.]+)</text>', drawn)]
    assert max(ticks) - min(ticks) >= 2


def test_intervals_end_where_a_score_does():
    # Accuracies .98 and .99: half of Student's interval is 6.35 points.
    best = comparison(labels=("A", "B", "C", "D", "E")).methods[-1]
    shown = score_cell(ACCURACY, best, [best], "clean")
    assert (shown.text, shown.small) == ("98.50", "92.15 to 100")


def test_without_shift_there_is_only_clean_data():
    assert {row.data for row in rows(comparison(shift=False))} == {"clean"}


def test_sharpness_stands_with_clean_data_where_it_was_measured():
    text = text_of(printed_table(comparison()))
    # Half the interval, 0.635, would reach below zero.
    assert re.search(r"clean\s+Flat .* 0\.350\s*\n.* 0 to 0\.985\s*\n", text)
    assert re.search(r"corrupted\s+Flat .* –\s*\n", text)  # noqa: RUF001
    assert "sharpness" not in text_of(printed_table(comparison(sharp=False)))


def test_severity_curve_starts_at_clean_accuracy():
    made = comparison()
    assert levels_of(made) == ["clean", "1", "2"]
    curve = curves_of(made, ACCURACY)[0]
    assert curve.means == pytest.approx([90.5, 70.5, 70.5])


def test_reliability_pools_ensembles():
    empty, half, sure = pooled_bins(comparison().methods[0], "clean")
    assert empty.count == 0
    assert (half.count, half.confidence / half.count) == (40, 0.5)
    assert sure.accuracy / sure.count == pytest.approx(0.8)


def natural(made):
    """Return a comparison that was tested on sketches too."""
    cell = {"type": "sketch", "severity": 0, **scores(0.3, 0.25)}

    def moved(trained):
        cells = [*trained.evaluation["cells"], cell]
        return replace(trained, evaluation={**trained.evaluation, "cells": cells})

    methods = (
        replace(method, ensembles=tuple(map(moved, method.ensembles)))
        for method in made.methods
    )
    return replace(made, methods=tuple(methods))


def test_natural_shifts_stand_beside_corruptions_not_among_them():
    made = natural(comparison(ensembles=3))
    assert [row.data for row in rows(made)] == ["clean"] * 2 + ["corrupted"] * 2 + [
        "sketch"
    ] * 2
    page = text(made)
    assert "Sketch test data" in page
    heat = page[page.index("Every corruption") :]
    assert "sketch" not in heat[: heat.index("</figure>")]


def test_page_is_whole_and_refers_to_nothing_outside(tmp_path):
    page = write_report(shown(comparison()), tmp_path).read_text()
    assert page.count("<svg") == page.count("</svg>")
    assert "width=device-width" in page
    assert "tepui compare --out runs/x" in page
    outside = re.findall(r'(?:src|href)\s*=\s*"(?!#|data:)([^"]*)', page)
    assert outside == []
    assert "<script" not in page
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_the_same_runs_give_the_same_bytes(tmp_path):
    first = write_report(shown(comparison()), tmp_path / "a").read_bytes()
    assert write_report(shown(comparison()), tmp_path / "b").read_bytes() == first


@pytest.mark.parametrize("count", [1, 2, 9])
def test_any_number_of_methods_is_shown(count):
    labels = [f"method {n}" for n in range(count)]
    page = text(comparison(labels=labels, ensembles=3))
    assert all(page.count(f">{label}") >= 5 for label in labels)
    assert not re.search(r'="nan|nan%|>nan', page)


def test_a_name_is_no_mathematics():
    page = text(comparison(labels=("$\\frac{1}$ & <b>", "cost $5")))
    assert "$\\frac{1}$ &amp; &lt;b&gt;" in page
    assert "cost $5" in page


def test_page_shows_only_what_was_measured(tmp_path):
    little = comparison(shift=False, sharp=False)
    page = write_report(shown(little), tmp_path).read_text()
    assert ">Corruptions</h2>" not in page
    left_out = "mistakes and unfamiliar samples; gallery; corruptions; members; "
    assert f"differ: {left_out}sharpness-aware sets.</p>" in page


def test_a_method_alone_has_no_differences():
    page = text(comparison(labels=("Plain",), ensembles=1))
    assert ">All scores</h2>" in page
    assert ">Differences</h2>" not in page
    assert "per method" not in page
    assert "× 1.00" not in page  # noqa: RUF001 - a sign of multiplication


def test_methods_without_shared_seeds_are_said_to_have_no_differences():
    page = text(comparison(ensembles=1))
    assert ">Differences</h2>" not in page
    left_out = "mistakes and unfamiliar samples; gallery; differences; "
    assert f"Left out, since the data are missing or differ: {left_out}" in page
    assert "<dt>paired difference</dt>" in page


def test_data_are_named_as_the_command_named_them():
    found = shown(comparison())
    said = "flats.csv, to predict sold"
    entries = tuple(
        replace(entry, training={**entry.training, "data": said})
        for entry in found.groups[0].entries
    )
    named = replace(found, groups=(replace(found.groups[0], entries=entries),))
    page = report_cases.text(named)
    assert page.count(said) == 3  # above all, and beside each of two methods


def test_every_string_is_escaped():
    evil = "<script>alert('x')</script>"
    page = text(comparison(title=evil, labels=(evil, "B")))
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 20


def test_one_ensemble_is_said_to_prove_little():
    assert "No two methods share the seeds" in text(comparison(ensembles=1))
    assert "No two methods share the seeds" not in text(comparison())


def test_sets_are_shown_where_a_method_has_them():
    plain = comparison(ensembles=1)
    assert "Sharpness-aware sets" not in text(plain)
    sets = {"samples": 50, "sizes": [20, 30], "overlaps": [[1.0, 0.25], [0.25, 1.0]]}
    trained = replace(plain.methods[0].ensembles[0], summary=sets)
    method = replace(plain.methods[0], ensembles=(trained,))
    page = text(replace(plain, methods=(method, plain.methods[1])))
    assert "Sharpness-aware sets" in page
    # Random sets of 40 and 60 %: .24 / .76.
    assert "<td>20 (40 %)</td><td>0.25</td><td>0.32</td>" in page
    assert "<td>30 (60 %)</td>" in page


def test_paths_are_shown_whole_only_where_asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = "--data 'ImageFolder(path=/srv/private/photos)'"
    command = f"tepui compare --out {tmp_path}/runs/x {data}"
    made = replace(comparison(), environment={"command": command, "torch": "2"})
    short = write_report(shown(made), tmp_path).read_text()
    assert "--out runs/x --data 'ImageFolder(path=.../photos)'" in unescape(short)
    assert str(tmp_path) not in short
    assert "private" not in short
    whole = write_report(shown(made), tmp_path, whole_paths=True).read_text()
    assert command in unescape(whole)
