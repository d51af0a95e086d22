"""What calibration and conformal sets give, beside the plain numbers."""

import math
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from tepui.evaluation.applied import broken_promise
from tepui.evaluation.evaluations import FITTED_ON_TEST
from tepui.evaluation.results import of_fitted_samples
from tepui.report.coverage import Covered, coverage_figure, coverage_lead
from tepui.report.loading import Entry, Group
from tepui.report.markup import TableCell, lead, note, table
from tepui.report.measures import RMSE
from tepui.report.tables import mean_cell
from tepui.report.wording import listed, number, opening, word
from tepui.studies import estimate

# Names, headings, scales and digits.
SCORES = (
    ("accuracy", "accuracy %", 100, 2),
    ("nll", "NLL", 1, 3),
    ("ece", "ECE %", 100, 2),
    ("brier", "Brier", 1, 3),
)
LOWER_IS_BETTER = SCORES[1:]
LIKELIHOOD = "nll"  # which says whether probabilities got worse as a whole
# What holds the truth, what the truth is, and what a size is.
SETS_OF_CLASSES = ("conformal sets", "class", "how many classes a set holds")
INTERVALS = ("conformal intervals", "number", "how wide an interval is")
SETS = (("coverage", "coverage %", 100, 2), ("size", "size", 1, 3))


def applied_parts(group: Group) -> list[Markup]:
    """Return tables of calibrated scores and of coverage, where there are any."""
    parts = [*_calibrated(group), *_covered(group)]
    entries = filter(was_fitted_on_test, group.entries)
    fitted = [entry.result.label for entry in entries]
    said = [of_fitted_samples(listed(fitted))] if fitted else []
    return [*map(lead, said), *parts]


def was_fitted_on_test(entry: Entry) -> bool:
    """Return whether an ensemble was calibrated on the samples it was tested on."""
    evaluations = (trained.evaluation for trained in entry.result.ensembles)
    return any((own.get("applied") or {}).get(FITTED_ON_TEST) for own in evaluations)


def _calibrated(group: Group) -> list[Markup]:
    known = [entry for entry in group.entries if _values(entry, "clean", "nll")]
    if not known:
        return []
    rows: list[list[str | TableCell]] = []
    for entry in known:
        plain = [
            mean_cell(_trained(entry, name), scale, digits)
            for name, _, scale, digits in SCORES
        ]
        after = [
            mean_cell(_values(entry, "clean", name), scale, digits)
            for name, _, scale, digits in SCORES
        ]
        rows.append([entry.result.label, "as trained", *plain])
        rows.append([entry.result.label, "calibrated", *after])
    headings = ["method", "probabilities", *(title for _, title, _, _ in SCORES)]
    about = "Calibration is applied by predict."
    if not any(map(was_fitted_on_test, known)):
        about = "Calibration was fitted on held-out data and is applied by predict."
    shown = table("Before and after calibration", headings, rows, words=2)
    harm = " ".join(filter(None, map(_harm, known)))
    return [*([lead(harm)] if harm else []), shown, note(about)]


def _harm(entry: Entry) -> str:
    """Return whether a calibration made the likelihood worse, with both numbers."""
    found = {}
    for name, title, scale, digits in LOWER_IS_BETTER:
        means = (_trained(entry, name), _values(entry, "clean", name))
        both = [round(scale * estimate(values).mean, digits) for values in means]
        if both[1] > both[0]:
            before, after = (number(mean, digits) for mean in both)
            unit = " %" if scale == 100 else ""
            found[name] = f"{title.removesuffix(unit)} from {before} to {after}{unit}"
    if LIKELIHOOD not in found:
        return ""
    count = len(_values(entry, "clean", LIKELIHOOD))
    mean = f" (means over {word(count)} ensembles)" if count > 1 else ""
    return (
        f"On clean test data calibration makes {entry.result.label}'s probabilities "
        f"worse: it raises {listed(found.values())}{mean}. Fit it on more held-out "
        "samples, or drop it: tepui calibrate RUN --remove, or with sets or detectors "
        "--method none and their options."
    )


def _covered(group: Group) -> list[Markup]:
    known = {
        place: entry
        for place, entry in enumerate(group.entries)
        if _values(entry, "clean", "coverage")
    }
    if not known:
        return []
    first = next(iter(known.values())).result.ensembles[0].evaluation["applied"]
    levels = ["clean", *first["severities"]]
    found = [
        Covered(place, entry.result.label, _rows(entry, levels))
        for place, entry in known.items()
    ]
    promised = (
        100
        * estimate(
            value
            for entry in known.values()
            for value in _values(entry, "clean", "promised")
        ).mean
    )
    kind, truth, size = SETS_OF_CLASSES
    if RMSE.score in group.comparison.score_names:
        kind, truth, size = INTERVALS
    what, title = f"{kind} hold the true {truth}", f"Coverage of {kind}"
    broken = _broken([*known.values()], kind)
    return [
        lead(f"{opening(kind)}. {coverage_lead(levels, found, promised)}{broken}"),
        coverage_figure(title, what, levels, found, promised),
        _table(kind, [*known.values()], levels, [*first.get("natural", ())]),
        note(f"Size: {size}, on average."),
    ]


def _broken(entries: list[Entry], kind: str) -> str:
    """Return whose sets hold less than promised on other data, ensemble by ensemble."""
    said = []
    for entry in entries:
        label = f"{entry.result.label}: " if len(entries) > 1 else ""
        evaluations = (trained.evaluation for trained in entry.result.ensembles)
        documents = filter(None, (own.get("applied") for own in evaluations))
        found = filter(None, (broken_promise(own, kind) for own in documents))
        said += [f" {label}{one}" for one in found][:1]
    return "".join(said)


def _table(
    kind: str, entries: list[Entry], levels: list[str], natural: list[str]
) -> Markup:
    rows: list[list[str | TableCell]] = []
    for entry in entries:
        promised = mean_cell(_values(entry, "clean", "promised"), 100, 2)
        for name, title, scale, digits in SETS:
            cells = [
                mean_cell(_values(entry, level, name), scale, digits)
                for level in [*levels, *natural]
            ]
            told = promised if name == "coverage" else ""
            rows.append([entry.result.label, title, told, *cells])
    headings = ["method", "score", "promised %", "clean"]
    headings += [*(f"severity {level}" for level in levels[1:]), *natural]
    return table(f"Coverage and size of {kind}", headings, rows, words=2)


def _rows(entry: Entry, levels: list[str]) -> list[list[float]]:
    columns = [_values(entry, level, "coverage") for level in levels]
    most = max(map(len, columns))
    return [
        [100 * column[n] if n < len(column) else math.nan for column in columns]
        for n in range(most)
    ]


def _trained(entry: Entry, name: str) -> list[float]:
    """Return a score without calibration, of the ensembles that were calibrated."""
    evaluations = (trained.evaluation for trained in entry.result.ensembles)
    values = [
        found["clean"].get(name)
        for found in evaluations
        if ((found.get("applied") or {}).get("clean") or {}).get("nll") is not None
    ]
    return [value for value in values if value is not None]


def _values(entry: Entry, level: str, name: str) -> list[float]:
    """Return a score of all ensembles that have it."""
    values = []
    for trained in entry.result.ensembles:
        applied: Mapping[str, Any] = trained.evaluation.get("applied") or {}
        at_level = applied.get("severities", {}) | applied.get("natural", {})
        at_level |= {"clean": applied.get("clean", {})}
        value = at_level.get(level, {}).get(name)
        if value is not None:
            values.append(value)
    return values
