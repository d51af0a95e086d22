"""What a page says of members one by one: scores, sets, and samples they differ on."""

from collections.abc import Iterator

from markupsafe import Markup

from tepui.report.comparison import Comparison
from tepui.report.markup import note, table
from tepui.report.wording import DASH

# What there is of each member, and how its column is headed.
TITLES = {
    "member_accuracies": "accuracy %",
    "member_nlls": "NLL",
    "member_rmses": "RMSE",
}


def members_parts(comparison: Comparison) -> list[Markup]:
    """Return a table of every member's scores on clean data."""
    first = next(comparison.ensembles()).evaluation["clean"]
    names = [name for name in TITLES if name in first]
    lines = [*_lines(comparison, names)]
    titles = ["method", "ensemble", "member", *(TITLES[name] for name in names)]
    about = "Members one by one, on clean data"
    return [table(about, titles, lines, words=3)] if lines else []


def _lines(comparison: Comparison, names: list[str]) -> Iterator[list[str]]:
    for method in comparison.methods:
        for place, trained in enumerate(method.ensembles, 1):
            clean = trained.evaluation["clean"]
            columns = [clean[name] for name in names if name in clean]
            for member, values in enumerate(zip(*columns, strict=True)):
                cells = [_cell(*pair) for pair in zip(names, values, strict=False)]
                who = [f"ensemble {place}", f"member {member}"]
                yield [method.label, *who, *cells]


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return DASH
    return f"{100 * value:.2f}" if name == "member_accuracies" else f"{value:.3f}"


def sets_parts(comparison: Comparison) -> list[Markup]:
    """Return sizes and overlaps of the sets that members meet sharpness-aware."""
    lines = []
    for method in comparison.methods:
        for place, trained in enumerate(method.ensembles, 1):
            summary = trained.outcome.summary
            total, sizes = summary.get("samples", 1), summary.get("sizes", [])
            shares = [size / total for size in sizes]
            for member, size in enumerate(sizes):
                others = [n for n in range(len(sizes)) if n != member]
                overlaps = (summary["overlaps"][member][n] for n in others)
                chances = (_chance(shares[member], shares[n]) for n in others)
                lines.append(
                    [
                        *(method.label, f"ensemble {place}", f"member {member}"),
                        f"{size} ({100 * shares[member]:.0f} %)",
                        *(
                            ", ".join(f"{v:.2f}" for v in o)
                            for o in (overlaps, chances)
                        ),
                    ]
                )
    titles = ["method", "ensemble", "member", "samples", "overlap with the others"]
    about = "Overlap: common samples over samples in either set, from 0 to 1."
    shown = table("Sharpness-aware sets", [*titles, "of random sets"], lines, words=3)
    return [shown, note(about)] if lines else []


def _chance(first: float, second: float) -> float:
    """Return the overlap of two random sets that hold these shares of all samples."""
    either = first + second - first * second
    return first * second / either if either else 0.0
