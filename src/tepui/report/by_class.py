"""How well each class is found, which one accuracy for all of them hides."""

from collections.abc import Container, Sequence
from typing import NamedTuple

from markupsafe import Markup

from tepui.evaluation.by_class import ByClass, by_recall
from tepui.report.applied import was_fitted_on_test
from tepui.report.markup import TableCell, folded, grouped_table, lead, note, table
from tepui.report.tables import mean_cell
from tepui.report.wording import number, opening, word
from tepui.studies import estimate
from tepui.studies.load_reports import Group

MOST = 12  # classes of a table
# Names, headings, scales and digits.
RATES = (
    ("recall", "recall %", 100, 1),
    ("precision", "precision %", 100, 1),
    ("f1", "F1 %", 100, 1),
)
SETS = (("coverage", "coverage %", 100, 1), ("size", "set size", 1, 2))
OF_SAMPLES = ("recall", "coverage")  # shares of the samples of a class


class Nouns(NamedTuple):
    """What the rows are, and what they count."""

    one: str
    several: str
    samples: str
    mean: str  # of their recalls


class Method(NamedTuple):
    """What the ensembles of a method say of each class."""

    label: str
    ensembles: Sequence[ByClass]

    def values(self, name: str, place: int) -> list[float]:
        """Return a score of a class, of all ensembles that have it."""
        columns = (getattr(own, name) for own in self.ensembles)
        return [column[place] for column in columns if column]

    @property
    def recalls(self) -> list[float]:
        """The mean recall of each class over ensembles."""
        places = range(len(self.ensembles[0].names))
        return [estimate(self.values("recall", place)).mean for place in places]


def by_class_parts(group: Group) -> list[Markup]:
    """Return a table of classes, of those of lowest recall where there are many."""
    methods = _methods(group)
    if not methods:
        return []
    first = methods[0].ensembles[0]
    evaluation = group.entries[0].result.ensembles[0].evaluation
    nouns = nouns_of(evaluation.get("task", {}).get("name", ""), evaluation["clean"])
    columns = zip(*(method.recalls for method in methods), strict=True)
    shown = shown_places([estimate(column).mean for column in columns])
    has_sets = any(own.coverage for method in methods for own in method.ensembles)
    scores = RATES + (SETS if has_sets else ())
    headings = [nouns.one, nouns.samples, *(title for _, title, _, _ in scores)]
    single = len(group.entries) == 1
    groups = {
        "" if single else method.label: _rows(method, shown, scores)
        for method in methods
    }
    caption = f"By {nouns.one}{'' if _alone(methods) else ', mean and 95 % interval'}"
    made = grouped_table(caption, headings, groups)
    fitted = any(map(was_fitted_on_test, group.entries))
    explained = note(_meaning(nouns, has_sets, fitted))
    every = len(shown) == len(first.names)
    said = [] if every else [lead(_many(len(first.names), len(shown), nouns))]
    if single:
        return [lead(_lowest(methods[0], nouns)), *said, made, explained]
    title = f"Every {nouns.one} in numbers"
    if not every:
        title = f"The {len(shown)} {nouns.several} of lowest recall in numbers"
    overview = [lead(_why(nouns)), _overview(methods, nouns)]
    return [*overview, *said, folded(title, made), explained]


def shown_places(recalls: Sequence[float]) -> list[int]:
    """Return which classes a table shows: all, or of many those of lowest recall.

    Example:
        >>> shown_places([0.5, 0.25])
        [0, 1]
        >>> shown_places([1.0] * 20 + [0.5, float("nan"), 0.25])[:3]
        [22, 20, 0]
    """
    few = len(recalls) <= MOST
    return [*range(len(recalls))] if few else by_recall(recalls)[:MOST]


def nouns_of(task: str, scores: Container[str]) -> Nouns:
    """Return what a task calls classes and samples; pixels are known by their scores.

    Example:
        >>> nouns_of("classification", {"accuracy", "mean_iou"})[:3]
        ('class', 'classes', 'pixels')
    """
    if task == "multi_label":
        return Nouns("label", "labels", "samples", "mean recall")
    samples = "pixels" if "mean_iou" in scores else "samples"
    return Nouns("class", "classes", samples, "balanced accuracy")


def _methods(group: Group) -> list[Method]:
    """Return the methods whose ensembles all say something of the same classes."""
    found = []
    for entry in group.entries:
        own = [ByClass.of(trained.evaluation) for trained in entry.result.ensembles]
        known = [each for each in own if each is not None]
        if len(known) == len(own) and any(known[0].samples):
            found.append(Method(entry.result.label, known))
    return [m for m in found if m.ensembles[0].names == found[0].ensembles[0].names]


def _alone(methods: Sequence[Method]) -> bool:
    return all(len(method.ensembles) == 1 for method in methods)


def _rows(
    method: Method, places: Sequence[int], scores: Sequence[tuple[str, str, int, int]]
) -> list[list[str | TableCell]]:
    first = method.ensembles[0]
    rows: list[list[str | TableCell]] = []
    for place in places:
        cells = [
            mean_cell(
                method.values(name, place),
                scale,
                digits,
                step=_step(first, place) if name in OF_SAMPLES else 0.0,
            )
            for name, _, scale, digits in scores
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
    name, count = first.names[place], first.samples[place]
    lowest = number(100 * method.recalls[place])
    mean = number(100 * estimate(own.mean_recall for own in method.ensembles).mean)
    if method.recalls[place] == 1:
        return f"All {nouns.samples} of every {nouns.one} are found."
    samples = nouns.samples if count != 1 else nouns.samples.removesuffix("s")
    return (
        f"{opening(nouns.one)} {name} is found least often: {lowest} % of its "
        f"{word(count)} {samples}. {opening(nouns.mean)}, in which every {nouns.one} "
        f"counts the same, is {mean} %."
    )


def _why(nouns: Nouns) -> str:
    return (
        f"One accuracy hides a rare {nouns.one}; in {nouns.mean}, every {nouns.one} "
        "counts the same."
    )


def _many(count: int, shown: int, nouns: Nouns) -> str:
    return (
        f"There are {count} {nouns.several}: shown are the {shown} of lowest recall, "
        "the lowest first; all are in evaluation.json."
    )


def _meaning(nouns: Nouns, has_sets: bool, fitted: bool) -> str:
    """Return how to read the columns."""
    one = nouns.one
    said = (
        f"Recall: how many of a {one}'s {nouns.samples} are found. Precision: how many "
        f"of those that are given the {one} have it. F1: their harmonic mean. A dash "
        "marks a share of nothing. Clean test data; shares of few "
        f"{nouns.samples} are known badly."
    )
    if not has_sets:
        return said
    said += (
        f" Coverage: how often conformal sets of a {one}'s {nouns.samples} hold it; "
        f"the promise is for all {nouns.several} together. Set size: how many "
        f"{nouns.several} these sets hold, on average."
    )
    seen = f" Sets were fitted on these very {nouns.samples}."
    return f"{said}{seen if fitted else ''}"
