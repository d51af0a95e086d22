"""What a page says of members one by one."""

from collections.abc import Iterator

from tepui.report.markup import Drawing, paragraph, table
from tepui.studies.load_reports import Group

# What there is of each member, and how its column is headed.
TITLES = {
    "member_accuracies": "accuracy %",
    "member_nlls": "NLL",
    "member_rmses": "RMSE",
    "member_distances": "distance from the others",
}


def members(group: Group) -> list[str | Drawing]:
    """Return every member's scores on clean data, and what stands out."""
    first = group.entries[0].result.ensembles[0].evaluation["clean"]
    names = [name for name in TITLES if name in first]
    lines = [*_lines(group, names)]
    if not names or not lines:
        return []
    titles = ["method", "ensemble", "member", *(TITLES[name] for name in names)]
    about = (
        "A mean over members hides one that did not learn: here is each of them, on "
        "clean data."
    )
    return [paragraph(about), table("Members one by one", titles, lines, words=3)]


def _lines(group: Group, names: list[str]) -> Iterator[list[str]]:
    for entry in group.entries:
        for number, trained in enumerate(entry.result.ensembles):
            clean = trained.evaluation["clean"]
            columns = [clean[name] for name in names if name in clean]
            for member, values in enumerate(zip(*columns, strict=True)):
                cells = [_cell(*pair) for pair in zip(names, values, strict=False)]
                who = [f"ensemble {number + 1}", f"member {member + 1}"]
                yield [entry.result.label, *who, *cells]


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return "–"  # noqa: RUF001 - a dash in a table
    return f"{100 * value:.2f}" if name == "member_accuracies" else f"{value:.3f}"
