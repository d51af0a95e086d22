"""What an evaluation prints: scores by what they are of, members, and a sentence."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from math import isnan
from typing import Any

from rich.table import Table
from rich.text import Text

from tepui.cli.console import table
from tepui.core.task import CLASSIFICATION
from tepui.evaluation.by_class import RATES, SETS, ByClass, by_recall
from tepui.evaluation.class_words import nouns_of
from tepui.evaluation.ood import MISTAKES, SUREST
from tepui.evaluation.results import (
    Evaluation,
    guessing_in_words,
    promise_in_words,
    seen_in_words,
    shifts_worse_than_guessing,
)
from tepui.evaluation.task_scores import TaskScores
from tepui.report.by_class import class_count, shown_places
from tepui.report.measures import ACCURACY, MEASURES, RMSE, shown_name
from tepui.report.wording import DASH, listed, number

# Scores in the order in which they matter; a metric of one's own comes last.
GROUPS = {
    "quality": (
        *("accuracy", "individual_accuracy", "rmse", "individual_rmse"),
        *("improvement", "mean_iou", "mean_average_precision", "mean_auroc"),
        *("nll", "crps", "quantile_loss", "brier"),
    ),
    "calibration": (
        *("ece", "interval_coverage", "nominal_coverage", "interval_width"),
        "quantile_calibration",
    ),
    "diversity": (
        *("disagreement", "der", "eir", "unique_predictions", "mean_kl"),
        *("logit_variance", "spread"),
    ),
}
PERCENT = {
    *(measure.score for measure in MEASURES if measure.percent),
    *("nominal_coverage", "promised", "coverage", "adaptive_ece"),
    *("member_accuracies", "label_eces"),
}
GAIN = "improvement"
# What is no calibrated score, but one of conformal sets or intervals.
APPLIED = {
    "promised": " coverage",
    "coverage": " of sets or intervals",
    "size": " of sets or intervals",
}
# What one member or label has.
SINGULAR = {
    "member_accuracies": "accuracy",
    "member_nlls": "nll",
    "member_rmses": "rmse",
    "member_distances": "distance",
    "label_eces": "ece",
}
Row = list[str | Text]


def shown(evaluation: Evaluation, of: str) -> Iterator[Table | str]:
    """Yield the tables and sentences on an evaluation of something."""
    what = "classes" if evaluation.task == CLASSIFICATION else "outputs"
    yield score_table(evaluation, f"{evaluation.classes} {what}, {of}")
    yield from (*part_tables(evaluation), *class_tables(evaluation))
    if evaluation.ood or evaluation.mistakes:
        yield detection_table(evaluation)
    sentences = (shift_sentence, selective_sentence, promise_in_words, seen_in_words)
    for sentence in sentences:
        if said := sentence(evaluation):
            yield said
    if evaluation.only_guesses:
        yield guessing_in_words(evaluation)
    yield from shifts_worse_than_guessing(evaluation)


def score_table(evaluation: Evaluation, title: str) -> Table:
    """Return the scores of the ensemble, in groups, on all data."""
    columns = _columns(evaluation)
    shown = table(title, ("score", *columns), numbers=columns)
    grouped = {name for names in GROUPS.values() for name in names}
    own = [name for name in evaluation.clean.values() if name not in grouped]
    for group, names in {**GROUPS, "your own metrics": own}.items():
        rows = [*_rows(evaluation, columns, names)]
        if group == "quality" and "member_accuracies" in evaluation.clean.lists():
            worst = [min(scores.member_accuracies) for scores in columns.values()]
            cells = [_cell("member_accuracies", value) for value in worst]
            rows.append(["accuracy of the worst member", *cells])
        if group == "calibration":
            rows += _applied_rows(evaluation, [*columns])
        if rows:
            shown.add_row(Text(group, "bold"), *[""] * len(columns))
        for row in rows:
            shown.add_row(*row)
        shown.add_section()
    return shown


def part_tables(evaluation: Evaluation) -> Iterator[Table]:
    """Yield the scores of each member, and of each label, on all data."""
    columns = _columns(evaluation)
    lists = evaluation.clean.lists()
    for part in ("member", "label"):
        names = [name for name in lists if name.startswith(part)]
        if not names:
            continue
        called = _part_names(evaluation, part, len(lists[names[0]]))
        headings = [f"{SINGULAR[name]}, {data}" for data in columns for name in names]
        rows = [
            [
                title,
                *(
                    _cell(name, scores.lists()[name][place])
                    for scores in columns.values()
                    for name in names
                ),
            ]
            for place, title in enumerate(called)
        ]
        yield table(f"each {part}", (part, *headings), rows, numbers=headings)


def _part_names(evaluation: Evaluation, part: str, count: int) -> Sequence[str]:
    """Return what members or labels are called.

    Without names, labels are columns of an array, from 0.
    """
    if part == "label" and evaluation.by_class is not None:
        return evaluation.by_class.names
    first = 1 if part == "member" else 0
    return [str(first + place) for place in range(count)]


def class_tables(evaluation: Evaluation) -> Iterator[Table]:
    """Yield the scores of each class on clean data and on each natural shift.

    Of many that occur those of lowest recall; nothing where there are no classes.
    """
    if evaluation.by_class is not None:
        yield _class_table(evaluation, evaluation.by_class, "")
    for name, found in evaluation.by_class_shifted.items():
        yield _class_table(evaluation, found, f", {name} data")


def _class_table(evaluation: Evaluation, found: ByClass, of: str) -> Table:
    nouns = nouns_of(evaluation.task.name, evaluation.clean.values())
    places = shown_places(found.recall)
    names = [name for name in (*RATES, *SETS) if getattr(found, name)]
    headings = [{"f1": "F1", "size": "set size"}.get(name, name) for name in names]
    rows = [
        [
            found.names[place],
            str(found.samples[place]),
            *(_of_class(name, getattr(found, name)[place]) for name in names),
        ]
        for place in places
    ]
    title = f"each {nouns.one}"
    if len(places) < len(found.names):
        title = class_count(found.recall, nouns)
    if len(places) < len(by_recall(found.recall)):
        title += f": the {len(places)} with the lowest recall"
    title += of if found.uncalibrated is None else f", calibrated{of}"
    numbers = (nouns.samples, *headings)
    return table(title, (nouns.one, *numbers), rows, numbers=numbers)


def detection_table(evaluation: Evaluation) -> Table:
    """Return the table of what each score finds: mistakes, and unfamiliar sets."""
    numbers = ("AUROC", "AUPR", "FPR95")
    title, headings = "what each score finds", ("data", "score")
    shown = table(title, (*headings, *numbers), numbers=numbers)
    found = {MISTAKES: evaluation.mistakes, **evaluation.ood}
    for data, scores in found.items():
        for score, detection in scores.items():
            values = (detection.auroc, detection.aupr, detection.fpr95)
            cells = [f"{value:.4f}" for value in values]
            shown.add_row(data, shown_name(score), *cells)
        shown.add_section()
    return shown


def selective_sentence(evaluation: Evaluation) -> str:
    """Return what error is left where the least sure samples are not answered."""
    if (left := evaluation.selective.get(SUREST)) is None:
        return ""
    whole = 1 - evaluation.clean.accuracy
    shares = f"{_percent(left.error_at_90)} of the surest 90 %"
    shares += f" and {_percent(left.error_at_80)} of the surest 80 %"
    # Confidence is that of the members' mean, which a calibration may put in new order.
    before = "" if evaluation.applied is None else ", by confidence before calibration"
    return f"wrong are {_percent(whole)} of all clean samples, {shares}{before}"


def shift_sentence(evaluation: Evaluation) -> str:
    """Return how much worse the ensemble is on shifted data, in a sentence."""
    clean, *shifted = _columns(evaluation).items()
    measures = [m for m in (ACCURACY, RMSE) if m.score in evaluation.clean.values()]
    if not shifted or not measures:
        return ""
    measure, said = measures[0], []
    digits = 1 if measure.percent else measure.digits
    name, unit = ("accuracy", " points") if measure.percent else ("the error", "")
    before = clean[1].values()[measure.score]
    for data, scores in shifted:
        change = measure.scale * (scores.values()[measure.score] - before)
        word = "higher" if change > 0 else "lower"
        size = f"{number(abs(change), digits)}{unit} {word}"
        said.append(f"{size} on {data} data")
    return f"{name} is {listed(said)} than on clean data"


def _columns(evaluation: Evaluation) -> dict[str, Any]:
    """Return the scores by the data they are of."""
    parts = {"clean": evaluation.clean, "corrupted": evaluation.corrupted_mean}
    parts |= evaluation.natural
    return {name: scores for name, scores in parts.items() if scores is not None}


def _rows(
    evaluation: Evaluation, columns: Mapping[str, TaskScores], names: Sequence[str]
) -> Iterator[Row]:
    """Yield a row for each score that is defined on some data."""
    for name in names:
        values = [
            scores.values().get(name, float("nan")) for scores in columns.values()
        ]
        if all(map(isnan, values)):
            continue
        if name == GAIN:
            numbers = RMSE.score in evaluation.clean.values()
            scale, unit = (1, "") if numbers else (100, ", points")
            cells = [_number(scale * value, 4 if numbers else 2) for value in values]
            yield [f"{shown_name(name)} by averaging{unit}", *cells]
        else:
            yield [shown_name(name), *(_cell(name, value) for value in values)]


def _applied_rows(evaluation: Evaluation, columns: Sequence[str]) -> list[Row]:
    """Return what calibration and conformal sets give, where there are any."""
    if evaluation.applied is None:
        return []
    parts = {
        "clean": evaluation.applied,
        "corrupted": evaluation.applied_corrupted_mean,
    }
    parts |= evaluation.applied_natural
    rows: list[Row] = []
    for name, value in asdict(evaluation.applied).items():
        if name != "samples" and not isnan(value):
            values = [getattr(parts.get(column), name, None) for column in columns]
            cells = ["" if each is None else _cell(name, each) for each in values]
            title = f"{shown_name(name)}{APPLIED.get(name, ', calibrated')}"
            rows.append([title, *cells])
    return rows


def _cell(name: str, value: float) -> str:
    """Return a number as the report shows it: shares in percent."""
    if name in PERCENT and not isnan(value):
        return _percent(value)
    return _number(value, 4)


def _of_class(name: str, value: float) -> str:
    """Return a score of a class: all are shares, but the size of sets."""
    return _number(value, 4) if name == "size" or isnan(value) else _percent(value)


def _percent(share: float) -> str:
    return f"{_number(100 * share, 2)} %"


def _number(value: float, digits: int) -> str:
    return DASH if isnan(value) else f"{value:.{digits}f}"
