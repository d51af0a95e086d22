"""How well each class is found, which one accuracy for all of them hides."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from markupsafe import Markup

from tepui.evaluation.by_class import RATES, SETS, ByClass, by_recall
from tepui.report.applied import was_fitted_on_test
from tepui.report.confusions import confusion_tables
from tepui.report.loading import Group
from tepui.report.markup import TableCell, folded, grouped_table, lead, note, table
from tepui.report.tables import mean_cell
from tepui.report.wording import listed, number, opening, word
from tepui.tasks.base import Nouns
from tepui.tasks.named import read_task

MOST = 12  # classes of a table
# Headings, scales and digits.
COLUMNS = {
    "recall": ("recall %", 100, 1),
    "precision": ("precision %", 100, 1),
    "f1": ("F1 %", 100, 1),
    "coverage": ("coverage %", 100, 1),
    "size": ("set size", 1, 2),
}
OF_SAMPLES = ("recall", "coverage")  # shares of the samples of a class


@dataclass(frozen=True)
class Method:
    """What the ensembles of a method say of each class."""

    label: str
    ensembles: Sequence[ByClass]

    def values(self, name: str, place: int) -> list[float]:
        """Return a score of a class, of all ensembles; none where one lacks it."""
        columns = [getattr(own, name) for own in self.ensembles]
        values = [column[place] if column else math.nan for column in columns]
        return [] if any(map(math.isnan, values)) else values

    @cached_property
    def recalls(self) -> list[float]:
        """The mean recall of each class over ensembles."""
        columns = zip(*(own.recall for own in self.ensembles), strict=True)
        return [fmean(values) for values in columns]


def by_class_parts(group: Group) -> list[Markup]:
    """Return the section on classes; labels have one of their own."""
    return [] if _nouns(group).one == "label" else _all_parts(group)


def by_label_parts(group: Group) -> list[Markup]:
    """Return the section on labels that do not exclude each other."""
    return _all_parts(group) if _nouns(group).one == "label" else []


def _all_parts(group: Group) -> list[Markup]:
    """Return classes on clean data, and in a table on each natural shift."""
    shifts = [_shift_table(group, name) for name in group.comparison.natural_shifts]
    clean = [*class_parts(group), *confusion_tables(group)]
    return [*clean, *(made for made in shifts if made is not None)]


def _shift_table(group: Group, shift: str) -> Markup | None:
    """Return a table of classes on a natural shift; None where none was measured."""
    nouns = _nouns(group)
    methods, _ = _methods(group, nouns, shift)
    if not methods:
        return None
    shown = shown_places(_mean_recalls(methods))
    return _table(methods, nouns, shown, len(group.entries) == 1, f", {shift} data")


def _table(
    methods: Sequence[Method],
    nouns: Nouns,
    shown: Sequence[int],
    single: bool,
    of: str = "",
) -> Markup:
    """Return the scores of the classes shown."""
    scores = (*RATES, *(SETS if _have_sets(methods) else ()))
    headings = [nouns.one, nouns.samples, *(COLUMNS[name][0] for name in scores)]
    groups = {
        "" if single else method.label: _rows(method, shown, scores)
        for method in methods
    }
    more = "" if _alone(methods) else ", mean and 95 % interval"
    return grouped_table(f"By {nouns.one}{of}{more}", headings, groups)


def _have_sets(methods: Sequence[Method]) -> bool:
    return any(own.coverage for method in methods for own in method.ensembles)


def _mean_recalls(methods: Sequence[Method]) -> list[float]:
    columns = zip(*(method.recalls for method in methods), strict=True)
    return [fmean(column) for column in columns]


def class_parts(group: Group, kept_in: str = "its evaluations") -> list[Markup]:
    """Return a table of classes, of those of lowest recall where many occur.

    Args:
        group: The methods.
        kept_in: Where all classes are, for those who look for them.
    """
    nouns = _nouns(group)
    methods, missing = _methods(group, nouns)
    without = [lead(f"Left out: {listed(missing)}.")] if missing else []
    if not methods:
        return without
    recalls, single = _mean_recalls(methods), len(group.entries) == 1
    shown = shown_places(recalls)
    made = _table(methods, nouns, shown, single)
    fitted = any(map(was_fitted_on_test, group.entries))
    explained = [note(_meaning(methods, nouns, fitted)), *without]
    if len(recalls) == 1:
        return [made, *explained]
    said = []
    if len(shown) < len(recalls):
        said = [lead(_many(recalls, len(shown), nouns, kept_in))]
    if single:
        return [lead(_lowest(methods[0], nouns)), *said, made, *explained]
    title = f"{_those(recalls, len(shown), nouns)} in numbers"
    overview = [lead(_why(nouns)), _overview(methods, nouns)]
    return [*overview, *said, folded(title, made), *explained]


def shown_places(recalls: Sequence[float]) -> list[int]:
    """Return which classes a table shows: all, of many those that occur.

    Where these are many, too, those of lowest recall.

    Example:
        >>> shown_places([0.5, 0.25])
        [0, 1]
        >>> shown_places([float("nan")] * 20 + [0.5, 0.25])
        [20, 21]
        >>> shown_places([1.0] * 20 + [0.5, float("nan"), 0.25])[:3]
        [22, 20, 0]
    """
    if len(recalls) <= MOST:
        return [*range(len(recalls))]
    known = by_recall(recalls)
    return sorted(known) if len(known) <= MOST else known[:MOST]


def class_count(recalls: Sequence[float], nouns: Nouns) -> str:
    """Return how many classes there are, and how many occur.

    Example:
        >>> class_count([0.5, float("nan"), 1.0], Nouns())
        '3 classes, of which 2 occur'
    """
    occurring, every = len(by_recall(recalls)), f"{len(recalls)} {nouns.several}"
    if occurring == len(recalls):
        return every
    return f"{every}, of which {occurring} occur{'s' if occurring == 1 else ''}"


def _nouns(group: Group) -> Nouns:
    evaluation = group.entries[0].result.ensembles[0].evaluation
    return read_task(evaluation.get("task")).nouns(evaluation["clean"])


def _methods(
    group: Group, nouns: Nouns, shift: str | None = None
) -> tuple[list[Method], list[str]]:
    """Return the methods with scores of the same classes, and who else has none.

    Where no ensemble has any, as of numbers, nobody is missing.
    """
    found = [
        (own.label, [ByClass.of(each.evaluation, shift) for each in own.ensembles])
        for own in (entry.result for entry in group.entries)
    ]
    if all(own is None for _, several in found for own in several):
        return [], []
    names, methods, missing = None, [], []
    for label, several in found:
        known = [own for own in several if own is not None]
        if len(known) < len(several):
            missing.append(f"{label} (evaluated by an older version)")
        elif not all(any(own.samples) for own in known):
            missing.append(f"{label} (no {nouns.samples} of any {nouns.one})")
        elif {own.names for own in known} != {names or known[0].names}:
            missing.append(f"{label} (other names of {nouns.several})")
        else:
            names = known[0].names
            methods.append(Method(label, known))
    return methods, missing


def _alone(methods: Sequence[Method]) -> bool:
    return all(len(method.ensembles) == 1 for method in methods)


def _rows(
    method: Method, places: Sequence[int], scores: Sequence[str]
) -> list[list[str | TableCell]]:
    first = method.ensembles[0]
    rows: list[list[str | TableCell]] = []
    for place in places:
        cells = [
            mean_cell(
                method.values(name, place),
                *COLUMNS[name][1:],
                step=_step(first, place) if name in OF_SAMPLES else 0.0,
            )
            for name in scores
        ]
        rows.append([first.names[place], str(first.samples[place]), *cells])
    return rows


def _step(found: ByClass, place: int) -> float:
    """Return by how much one sample more or less changes a share, in percent."""
    return 100 / max(1, found.samples[place])


def _overview(methods: Sequence[Method], nouns: Nouns) -> Markup:
    """Return the mean recall of every method, and the lowest."""
    rows: list[list[str | TableCell]] = []
    for method in methods:
        first, place = method.ensembles[0], by_recall(method.recalls)[0]
        occurring = sum(count > 0 for count in first.samples)
        step = 100 / max(1, occurring * max(first.samples))
        means = [own.mean_recall for own in method.ensembles]
        values = method.values("recall", place)
        lowest = mean_cell(values, 100, 1, step=_step(first, place))
        mean = mean_cell(means, 100, 2, step=step)
        rows.append([method.label, mean, lowest, first.names[place]])
    headings = ["method", f"{nouns.mean} %", "lowest recall %", f"of {nouns.one}"]
    more = "" if _alone(methods) else ", mean and 95 % interval"
    return table(f"Recall of {nouns.several}{more}", headings, rows)


def _lowest(method: Method, nouns: Nouns) -> str:
    """Return how well a method finds the class that it finds worst."""
    first, place = method.ensembles[0], by_recall(method.recalls)[0]
    count, lowest = first.samples[place], method.recalls[place]
    if lowest == 1:
        return f"All {nouns.samples} of every {nouns.one} are found."
    ties = method.recalls.count(lowest) > 1
    how = "among the least often found" if ties else "found least often"
    mean = fmean(own.mean_recall for own in method.ensembles)
    return (
        f"{opening(nouns.one)} {first.names[place]} is {how}: {_percent(lowest)} % of "
        f"its {word(count)} {nouns.counted(count)}. {opening(nouns.mean)}, in which "
        f"every {nouns.one} counts the same, is {_percent(mean)} %."
    )


def _percent(share: float) -> str:
    """Return a share below 1 with as many digits as tell it from 1.

    Example:
        >>> _percent(0.5), _percent(0.9999)
        ('50.0', '99.99')
    """
    digits = 1
    while digits < 6 and float(number(100 * share, digits)) == 100:
        digits += 1
    return number(100 * share, digits)


def _why(nouns: Nouns) -> str:
    return (
        f"One accuracy hides a rare {nouns.one}; in {nouns.mean}, every {nouns.one} "
        "counts the same."
    )


def _many(recalls: Sequence[float], shown: int, nouns: Nouns, kept_in: str) -> str:
    there = f"There are {class_count(recalls, nouns)}"
    if shown == len(by_recall(recalls)):
        return f"{there}; the table leaves out the others."
    return (
        f"{there}: shown are the {shown} of lowest recall, the lowest first; all are "
        f"in {kept_in}."
    )


def _those(recalls: Sequence[float], shown: int, nouns: Nouns) -> str:
    """Return which classes are shown."""
    if shown == len(recalls):
        return f"Every {nouns.one}"
    if shown == len(by_recall(recalls)):
        return f"Every {nouns.one} that occurs"
    return f"The {shown} {nouns.several} of lowest recall"


def _meaning(methods: Sequence[Method], nouns: Nouns, fitted: bool) -> str:
    """Return how to read the columns."""
    one, has_sets = nouns.one, _have_sets(methods)
    where = "" if _alone(methods) else ", in some ensemble at least"
    said = (
        f"Recall: how many of a {one}'s {nouns.samples} are found. Precision: of what "
        f"is predicted to be the {one}, how much is. F1: their harmonic mean. A dash "
        f"marks a share of nothing{where}. Clean test data; shares of few "
        f"{nouns.samples} are known badly."
    )
    changed = [method.label for method in methods if _is_calibrated(method)]
    if changed:
        whose = "" if len(changed) == len(methods) else f" of {listed(changed)}"
        said += f" The calibration{whose} is applied, as in predictions."
    if has_sets:
        said += (
            f" Coverage: how often conformal sets of a {one}'s {nouns.samples} hold "
            f"it; the promise is for all {nouns.several} together. Set size: how many "
            f"{nouns.several} these sets hold, on average."
        )
    learned = [*(["calibration"] if changed else []), *(["sets"] if has_sets else [])]
    if fitted and learned:
        verb = "was" if learned == ["calibration"] else "were"
        on = f"fitted on these very {nouns.samples}"
        said += f" {opening(listed(learned))} {verb} {on}."
    return said


def _is_calibrated(method: Method) -> bool:
    return any(own.uncalibrated is not None for own in method.ensembles)
