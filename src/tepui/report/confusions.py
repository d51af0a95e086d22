"""Which classes the missed samples were called, in a table for each method."""

from collections import Counter

from markupsafe import Markup

from tepui.evaluation.by_class import ByClass
from tepui.report.loading import Entry, Group
from tepui.report.markup import TableCell, folded, table
from tepui.report.wording import DASH

MOST = 12  # classes of a whole table, and confusions of a list


def confusion_tables(group: Group) -> list[Markup]:
    """Return what missed clean samples were called, folded; nothing where unknown."""
    made = [_table(entry) for entry in group.entries]
    return [each for each in made if each is not None]


def _table(entry: Entry) -> Markup | None:
    """Return the numbers of all ensembles of a method together."""
    evaluations = [trained.evaluation for trained in entry.result.ensembles]
    found = Counter[tuple[str, str]]()
    for evaluation in evaluations:
        for truth, called, count in evaluation.get("confusions", ()):
            found[truth, called] += count
    classes = ByClass.of(evaluations[0])
    if not found or classes is None:
        return None
    title = f"What missed samples were called: {entry.result.label}"
    if len(evaluations) > 1:
        title += f", {len(evaluations)} ensembles together"
    rows: list[list[str | TableCell]]
    if len(classes.names) > MOST:
        title += f", the {min(MOST, len(found))} most frequent"
        rows = [[*pair, str(count)] for pair, count in found.most_common(MOST)]
        return folded(
            title, table(title, ["class", "called", "samples"], rows, words=2)
        )
    rows = [
        [truth, *(_cell(found, truth, called) for called in classes.names)]
        for truth in classes.names
    ]
    headings = ["class", *(f"called {name}" for name in classes.names)]
    return folded(title, table(title, headings, rows))


def _cell(found: Counter[tuple[str, str]], truth: str, called: str) -> str:
    return DASH if truth == called else str(found[truth, called])
