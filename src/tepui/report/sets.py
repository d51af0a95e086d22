"""Sizes and overlaps of the sets that members meet sharpness-aware."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from markupsafe import Markup

from tepui.report.loading import Group
from tepui.report.markup import figure, lead, row_panels, table
from tepui.report.shapes import Box, Panel, Plot, Row, look
from tepui.report.wording import span


class MemberSet(NamedTuple):
    """The set of one member."""

    place: int  # of the method
    label: str
    ensemble: int  # from 1
    member: int
    size: int
    samples: int  # of all training data
    overlaps: tuple[float, ...]  # with the sets of the other members
    by_chance: tuple[float, ...]  # of random sets of these sizes


def member_sets(group: Group) -> list[MemberSet]:
    """Return the sets of all members, where a method has any."""
    return [
        found
        for place, entry in enumerate(group.entries)
        for number, trained in enumerate(entry.result.ensembles, 1)
        for found in _of(place, entry.result.label, number, trained.summary)
    ]


def sets_parts(group: Group) -> list[Markup]:
    """Return sizes as bars, and overlaps in a table."""
    found = member_sets(group)
    if not found:
        return []
    shares = [100 * each.size / each.samples for each in found]
    overlaps = [value for each in found for value in each.overlaps]
    chances = [value for each in found for value in each.by_chance]
    text = (
        f"After the switch each member meets {span(shares, 0)} % of the training "
        "samples sharpness-aware."
    )
    if overlaps:
        side = "about"
        side = "less than" if max(overlaps) < min(chances) else side
        side = "more than" if min(overlaps) > max(chances) else side
        text += (
            f" Two members' sets overlap by {span(overlaps, 2)}, {side} the "
            f"{span(chances, 2)} of random sets of these sizes."
        )
    panels: dict[tuple[str, int], list[Row]] = {}
    for each in found:
        panels.setdefault((each.label, each.ensemble), []).append(_row(each))
    caption = (
        "Bars: samples in a member's set, out of all training samples. Overlap: common "
        "samples over samples in either set, from 0 to 1."
    )
    titles = ["method", "ensemble", "member", "samples", "overlap with the others"]
    lines = [
        [
            each.label,
            f"ensemble {each.ensemble}",
            f"member {each.member}",
            f"{each.size} ({100 * each.size / each.samples:.0f} %)",
            ", ".join(f"{value:.2f}" for value in each.overlaps),
        ]
        for each in found
    ]
    shown = [
        Panel(f"{label}, ensemble {n}", rows) for (label, n), rows in panels.items()
    ]
    return [
        lead(text),
        figure("Sharpness-aware sets", caption, row_panels(shown)),
        table("Sharpness-aware sets of all members", titles, lines, words=3),
    ]


def _row(each: MemberSet) -> Row:
    share = 100 * each.size / each.samples
    own = look(each.place)
    shapes = [Box(0, 6, 100, 12, "rail"), Box(0, 6, share, 12, f"bar {own.kind}")]
    said = f"Member {each.member}: {each.size} of {each.samples} samples."
    value, notes = str(each.size), [f"{share:.0f} %"]
    return Row(own, f"member {each.member}", Plot(24, shapes, said), value, notes)


def _of(
    place: int, label: str, number: int, summary: Mapping[str, Any]
) -> Iterator[MemberSet]:
    sizes, total = summary.get("sizes", []), summary.get("samples", 1)
    for member, size in enumerate(sizes):
        others = [other for other in range(len(sizes)) if other != member]
        row = summary["overlaps"][member]
        chances = (_chance(size / total, sizes[other] / total) for other in others)
        overlaps = tuple(row[other] for other in others)
        yield MemberSet(
            place, label, number, member, size, total, overlaps, tuple(chances)
        )


def _chance(first: float, second: float) -> float:
    """Return the overlap of two random sets that hold these shares of all samples."""
    either = first + second - first * second
    return first * second / either if either else 0.0
