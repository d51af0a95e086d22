"""What an evaluation prints: groups, percentages, members and sentences."""

from math import nan

import pytest
from rich.console import Console

from tepui.cli.score_tables import (
    class_tables,
    part_tables,
    score_table,
    shift_sentence,
)
from tepui.core.task import CLASSIFICATION, MULTI_LABEL, Task
from tepui.evaluation.applied import AppliedScores
from tepui.evaluation.by_class import ByClass
from tepui.evaluation.results import Evaluation
from tepui.evaluation.scores import Scores
from tepui.evaluation.task_scores import LabelScores, NumberScores, OutputScores
from tepui.report.wording import DASH


def classes(accuracy, mean, **more):
    known = {
        "individual_accuracy": mean,
        "accuracy": accuracy,
        "improvement": accuracy - mean,
        "disagreement": 0.125,
        "der": 0.5,
        "eir": 0.25,
        "logit_variance": 2.0,
        "mean_kl": nan,
        "unique_predictions": 1.5,
        "nll": 0.375,
        "ece": 0.0625,
        "brier": 0.3,
        "member_accuracies": (mean - 0.01, mean + 0.01),
        "member_nlls": (0.5, 0.6),
    }
    return Scores(**known | more)


def numbers(rmse, mean):
    others = dict.fromkeys(
        ("nll", "crps", "nominal_coverage", "interval_coverage", "interval_width"), nan
    )
    others["quantile_loss"] = nan
    return NumberScores(
        individual_rmse=mean,
        rmse=rmse,
        improvement=mean - rmse,
        spread=0.5,
        quantile_calibration=nan,
        member_rmses=(mean, mean),
        **others,
    )


def evaluation(clean, task=CLASSIFICATION, members=2, **more):
    known = {"shifted": {}, "reliability": {}, **more}
    return Evaluation("probability", members, 100, 3, clean, task=task, **known)


def printed(*tables):
    console = Console(width=120, highlight=False)
    with console.capture() as captured:
        for each in tables:
            console.print(each)
    lines = captured.get().splitlines()
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


def test_groups_follow_each_other_and_shares_are_in_percent():
    shift = {("fog", 1): classes(0.8, 0.75), ("sketch", 0): classes(0.5, 0.5)}
    applied = AppliedScores(nll=0.25, ece=0.02, promised=0.9, coverage=0.92, size=1.5)
    found = evaluation(
        classes(0.9, 0.88, custom={"mine": 7.0}), shifted=shift, applied=applied
    )
    rows = printed(score_table(found, "title"))
    cells = {row[0]: row[1:] for row in rows}
    assert cells["accuracy"] == ["90.00 %", "80.00 %", "50.00 %"]
    assert cells["improvement by averaging, points"] == ["2.00", "5.00", "0.00"]
    assert cells["nll"] == ["0.3750"] * 3
    assert cells["ece"] == ["6.25 %"] * 3
    assert cells["accuracy of the worst member"] == ["87.00 %", "74.00 %", "49.00 %"]
    assert cells["ece, calibrated"] == ["2.00 %", "", ""]
    assert cells["coverage of sets or intervals"][0] == "92.00 %"
    assert cells["size of sets or intervals"][0] == "1.5000"
    assert cells["mine"][0] == "7.0000"
    assert "mean kl" not in cells  # defined on no data
    groups = ("quality", "accuracy", "calibration", "ece", "diversity", "mine")
    places = [[row[0] for row in rows].index(name) for name in groups]
    assert places == sorted(places)


def test_members_have_a_table_of_their_own_counted_from_one():
    found = evaluation(classes(0.9, 0.88))
    rows = printed(*part_tables(found))
    assert ["1", "87.00 %", "0.5000"] in rows
    assert ["2", "89.00 %", "0.6000"] in rows


def by_class(count, **more):
    rates = dict.fromkeys(("recall", "precision", "f1"), (0.5,) * count)
    names = tuple(f"c{n}" for n in range(count))
    return ByClass(**{"names": names, "samples": (4,) * count, **rates, **more})


def test_each_class_has_a_row_and_a_dash_for_shares_of_nothing():
    recall, sets = (0.25, nan), {"coverage": (0.75, 0.5), "size": (1.5, 2.0)}
    found = evaluation(classes(0.9, 0.88), by_class=by_class(2, recall=recall))
    rows = printed(next(class_tables(found)))
    assert ["each class"] in rows
    assert ["c0", "4", "25.00 %", "50.00 %", "50.00 %"] in rows
    assert ["c1", "4", DASH, "50.00 %", "50.00 %"] in rows
    found = evaluation(classes(0.9, 0.88), by_class=by_class(2, **sets))
    assert ["c0", "4", *["50.00 %"] * 3, "75.00 %", "1.5000"] in printed(
        next(class_tables(found))
    )


def test_of_many_classes_those_of_lowest_recall_are_printed():
    recall = tuple(n / 100 for n in range(30, 10, -1))
    found = evaluation(classes(0.9, 0.88), by_class=by_class(20, recall=recall))
    rows = printed(next(class_tables(found)))
    assert ["20 classes: the 12 with the lowest recall"] in rows
    names = [row[0] for row in rows if row[0].startswith("c")]
    assert names == [f"c{n}" for n in range(19, 7, -1)]


@pytest.mark.parametrize(
    ("occurring", "title"),
    [
        (5, "20 classes, of which 5 occur"),
        (15, "20 classes, of which 15 occur: the 12 with the lowest recall"),
    ],
)
def test_of_many_classes_it_is_said_how_many_occur(occurring, title):
    recall = (*[0.5] * occurring, *[nan] * (20 - occurring))
    found = evaluation(classes(0.9, 0.88), by_class=by_class(20, recall=recall))
    assert next(class_tables(found)).title == title


def test_calibrated_rates_are_called_that():
    rates = by_class(2, uncalibrated=by_class(2))
    found = evaluation(classes(0.9, 0.88), by_class=rates)
    assert ["each class, calibrated"] in printed(next(class_tables(found)))


def test_a_metric_of_ones_own_keeps_its_unit():
    own = {"precision": 3.5, "recall": 0.5, "f1": 2.0}
    rows = printed(score_table(evaluation(classes(0.9, 0.88, custom=own)), "title"))
    cells = {row[0]: row[1:] for row in rows}
    assert [cells[name] for name in own] == [["3.5000"], ["0.5000"], ["2.0000"]]


def test_what_has_no_classes_has_no_such_table():
    assert [*class_tables(evaluation(numbers(0.5, 0.75), Task("regression")))] == []


def test_labels_have_their_names_or_the_numbers_of_their_columns():
    scores = LabelScores(
        individual_accuracy=0.5,
        accuracy=0.5,
        improvement=0.0,
        mean_average_precision=0.75,
        nll=0.5,
        ece=0.25,
        brier=0.5,
        member_accuracies=(0.5, 0.5),
        member_nlls=(0.5, 0.5),
        label_eces=(0.125, 0.375),
    )
    found = evaluation(scores, MULTI_LABEL)
    rows = printed(*part_tables(found))
    assert ["0", "12.50 %"] in rows
    assert ["1", "37.50 %"] in rows
    named = evaluation(scores, MULTI_LABEL, by_class=by_class(2))
    assert ["c1", "37.50 %"] in printed(*part_tables(named))
    shown = {row[0]: row[1:] for row in printed(score_table(found, "title"))}
    assert shown["mean average precision"] == ["75.00 %"]


def test_a_sentence_says_what_the_shift_did():
    assert shift_sentence(evaluation(classes(0.9, 0.88))) == ""
    found = evaluation(classes(0.9, 0.88), shifted={("fog", 1): classes(0.8, 0.7)})
    assert shift_sentence(found) == (
        "accuracy is 10.0 points lower on corrupted data than on clean data"
    )
    worse = {("late", 0): numbers(0.75, 0.75)}
    found = evaluation(numbers(0.5, 0.5), Task("regression"), shifted=worse)
    assert shift_sentence(found) == (
        "the error is 0.250 higher on late data than on clean data"
    )


def test_outputs_without_a_meaning_have_their_spread():
    scores = OutputScores(spread=0.5, member_distances=(1.0, 2.0))
    found = evaluation(scores, Task("unknown"))
    shown = {row[0]: row[1:] for row in printed(score_table(found, "title"))}
    assert shown["spread"] == ["0.5000"]
    assert shift_sentence(found) == ""
