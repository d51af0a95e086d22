"""When can it be trusted: what errs if it is kept, and where members agree."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

from markupsafe import Markup

from tepui.evaluation.evaluations import CLEAN, CORRUPTED
from tepui.evaluation.gallery import EACH, SHARES, Answers, read_gallery
from tepui.evaluation.ood import SUREST
from tepui.report.comparison import (
    Comparison,
    MethodResult,
    Trained,
    natural_in,
    shared,
)
from tepui.report.markup import (
    Multiple,
    TableCell,
    figure,
    grouped_table,
    multiples,
    note,
    part,
    table,
)
from tepui.report.measures import SHARE, Reading, data_name, data_title, interval_of
from tepui.report.shapes import Axis, Line, Mark, Plot, Shape, Words, look, trend
from tepui.report.tables import interval_cell
from tepui.report.unfamiliar import auroc
from tepui.report.wording import ends, number
from tepui.studies import Interval, mean_interval

Known = Mapping[str, Sequence[Answers]]  # of all ensembles of a method, by data
# What stands in the table: headings, what is read, and how many times as large.
COLUMNS: dict[str, tuple[Callable[[Answers], float | None], float]] = {
    "members agree on %": (lambda found: found.agreed, 100),
    "right there %": (lambda found: found.right_agreed, 100),
    "right elsewhere %": (lambda found: found.right_differing, 100),
    "sure and wrong, of 1000": (lambda found: found.sure_wrong, 1000),
    "by one member": (lambda found: found.member_sure_wrong, 1000),
}
HEIGHT, ACROSS, UP, DOWN = 224, Axis(0, 1, 9, 97), 24, 180
PROMISED = "promised"
MARKED = (0.5, 0.8, 1.0)  # shares at which the error is written


def answers_of(method: MethodResult) -> Known:
    """Return what is known of the answers of all ensembles of a method, by data."""
    galleries = [read_gallery(Path(trained.folder)) for trained in method.ensembles]
    found = [{_kind(each.data): each for each in own.answers} for own in galleries]
    return {data: [own[data] for own in found] for data in shared(found)}


def hardest(known: Iterable[str]) -> str:
    """Return the data on which trust matters most: corrupted, shifted or clean.

    Example:
        >>> hardest(["clean", "sketch"]), hardest(["clean", "shifted", "sketch"])
        ('sketch', 'shifted')
    """
    names = [*known]
    return "shifted" if "shifted" in names else names[min(1, len(names) - 1)]


def _kind(data: str) -> str:
    return "shifted" if data == CORRUPTED else data


def trust_sentence(comparison: Comparison) -> str:
    """Return how right the first method is where its members agree, and elsewhere."""
    base = comparison.methods[0]
    if not (found := answers_of(base)):
        return ""
    data = hardest(found)
    agreed, there, elsewhere = (
        _mean(found[data], heading) for heading in [*COLUMNS][:3]
    )
    said = f"{base.label}'s members agree on {number(agreed.mean)} % of "
    said += f"{data_name(data)} data"
    if not there.count:
        return f"{said}."
    known = f" (95 % interval {ends(there.low, there.high)})" if there.count > 1 else ""
    said += f", and there {number(there.mean)} % of the answers are right{known}"
    rest = f"; elsewhere {number(elsewhere.mean)} % are" if elsewhere.count else ""
    return f"{said}{rest}."


def trust_parts(comparison: Comparison) -> list[Markup]:
    """Return the share kept against the error, the members' agreement, and samples."""
    found = {method.label: answers_of(method) for method in comparison.methods}
    parts = []
    if kinds := shared(found.values()):
        parts.append(_kept_figure(found, hardest(kinds)))
        groups: dict[str, list[list[str | TableCell]]] = {
            data_title(data): [
                [label, *(interval_cell(_mean(own[data], name), 1) for name in COLUMNS)]
                for label, own in found.items()
            ]
            for data in kinds
        }
        caption = (
            "Where all members agree, and answers that are sure (over 90 %) and wrong"
        )
        parts.append(grouped_table(caption, ["method", *COLUMNS], groups))
    return [*parts, *_promises(comparison), *_strips(comparison)]


def _mean(found: Sequence[Answers], heading: str) -> Interval:
    read, scale = COLUMNS[heading]
    values = (None if (v := read(each)) is None else scale * v for each in found)
    return mean_interval(values).within(0, scale)


def _kept_figure(found: Mapping[str, Known], data: str) -> Markup:
    """Return a picture per method: the share of answers kept, the error among them."""
    curves = {
        label: [
            [100 * fmean(column) for column in zip(*several, strict=True)]
            for several in (
                [each.errors for each in own[data]],
                [each.member_errors for each in own[data]],
            )
        ]
        for label, own in found.items()
    }
    most = max(value for pair in curves.values() for curve in pair for value in curve)
    axis = Axis(0, most or 1.0, DOWN, UP)
    items = [
        Multiple(label, _plot(place, label, pair, axis), look(place))
        for place, (label, pair) in enumerate(curves.items())
    ]
    caption = (
        f"Across: the share of {data_name(data)} samples that are answered, the surest "
        "ones. Up: the error among them, %. Filled: the ensemble. Hollow: one member."
    )
    return figure(
        "Error, if only the surest samples are answered", caption, multiples(items)
    )


def _plot(place: int, label: str, pair: Sequence[Sequence[float]], axis: Axis) -> Plot:
    (whole, alone), own = pair, look(place)
    shapes: list[Shape] = []
    for tick, said in axis.ticks(4).items():
        shapes.append(Line(ACROSS(0), axis(tick), ACROSS(1), axis(tick), "grid"))
        shapes.append(Words(0, axis(tick) + 4, said, anchor="start"))
    for share in (0, 0.25, 0.5, 0.75, 1):
        shapes.append(Words(ACROSS(share), 200, f"{100 * share:.0f}"))
    shapes.append(Words(ACROSS(0.5), 219, "share answered, %"))
    told = []
    for curve, kind, fill in ((alone, "dashed", "hollow"), (whole, "strong", "")):
        points = [(ACROSS(s), axis(v)) for s, v in zip(SHARES, curve, strict=True)]
        shapes += trend(points, f"{kind} {own.kind}")
        for share in MARKED:
            at = SHARES.index(share)
            shapes.append(Mark(own, *points[at], "mid", fill))
            x, y = points[at]
            y += -10 if fill or y > DOWN - 20 else 20
            shapes.append(Words(x, y, number(curve[at]), "label halo"))
        shown = (f"{100 * s:.0f} % {number(curve[SHARES.index(s)])}" for s in MARKED)
        told.append(", ".join(shown))
    said = f"{label}, error by share answered: {told[1]}; one member: {told[0]}."
    return Plot(HEIGHT, shapes, said)


def _promises(comparison: Comparison) -> list[Markup]:
    """Return how well unfamiliar data are found, and how often sets hold the truth."""
    every = [*comparison.ensembles()]
    by = SUREST if SUREST in comparison.detecting_scores else ""
    score = by or next(iter(comparison.detecting_scores), "")
    columns: dict[str, Reading] = {}
    if score:
        for data in comparison.ood_sets:
            columns[f"{data}, AUROC %"] = auroc(data, score)
    for data in shared(_covered(trained) for trained in every)[1:]:
        promised = 100 * _covered(every[0])[PROMISED]
        heading = f"sets hold %, {data_name(data)} data (promised {promised:g})"
        columns[heading] = partial(_share_covered, data)
    missing = {
        "unfamiliar inputs (evaluate with --ood)": comparison.ood_sets,
        "sets of answers (tepui calibrate)": any(map(_covered, every)),
    }
    said = [name for name, known in missing.items() if not known]
    parts = [note(f"Not measured: {'; '.join(said)}.")] if said else []
    if not columns:
        return parts
    rows: list[list[str | TableCell]] = [
        [
            method.label,
            *(
                interval_cell(interval_of(method, read).within(*SHARE), 1)
                for read in columns.values()
            ),
        ]
        for method in comparison.methods
    ]
    caption = "Unfamiliar inputs found, 50 % by guesses" if comparison.ood_sets else ""
    if any(map(_covered, every)):
        caption += f"{'; s' if caption else 'S'}ets that hold the truth"
    return [table(caption, ["method", *columns], rows), *parts]


def _covered(trained: Trained) -> dict[str, float]:
    """Return how often sets or intervals hold the truth, by data; and what they say."""
    own, applied = trained.evaluation, trained.evaluation.get("applied") or {}
    if applied.get("clean", {}).get("coverage") is not None:
        clean, severe = applied["clean"], applied.get("severities", {})
        natural, name, promised = applied.get("natural", {}), "coverage", "promised"
    else:
        clean, severe = own["clean"], own.get("severities", {})
        name, promised = "interval_coverage", "nominal_coverage"
        natural = natural_in(own)
    if clean.get(name) is None or clean.get(promised) is None:
        return {}
    found = {PROMISED: clean[promised], CLEAN: clean[name]}
    if severe:
        found["shifted"] = fmean(each[name] for each in severe.values())
    return found | {kind: each[name] for kind, each in natural.items()}


def _share_covered(data: str, trained: Trained) -> float:
    return 100 * _covered(trained)[data]


def _strips(comparison: Comparison) -> list[Markup]:
    """Return samples with what the members of the first ensemble say of them."""
    base = comparison.methods[0]
    pictures = read_gallery(Path(base.ensembles[0].folder)).pictures
    alike = [len({*each.predictions}) == 1 for each in pictures]
    strips = []
    sides = (True, f"All of {base.label}'s members agree"), (False, "They differ")
    for agree, title in sides:
        own = [p for p, same in zip(pictures, alike, strict=True) if same == agree]
        if own:
            strips.append(part("strip", title, own[:EACH]))
    if not strips:
        return []
    caption = (
        "The true class, then every member's answer; below, whether the ensemble is "
        "right, and what was done to the image, how badly (1 to 5)."
    )
    return [figure("Samples, and what members say of them", caption, *strips)]
