"""What a page says first: which differences the numbers carry, and which they do not.

Every sentence is made from paired differences over shared seeds. A difference counts
if its 95 % interval leaves out zero. It is called a hint unless it stays apart after
Holm's correction for all comparisons and rests on more than three pairs of ensembles.
Measures other than the leading one are in a headline only if they stay apart.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tepui.report.chance import FEW, by_chance, firm, still_apart
from tepui.report.failures import failures
from tepui.report.measures import (
    ACCURACY,
    DER,
    OWN_ACCURACY,
    OWN_RMSE,
    SHARPNESS,
    Measure,
    data_name,
    kinds,
    leading_measure,
    measures_of,
)
from tepui.report.prices import prices
from tepui.report.wording import (
    duration,
    ends,
    listed,
    number,
    opening,
    some,
    word,
)
from tepui.studies import Comparison, Difference, MethodResult, estimate
from tepui.studies.contrasts import ensembles_for, reach_with, seed_pairs
from tepui.studies.load_reports import Group

MOST = 3  # clauses of a sentence; more stand below it
# Of members on their own, and not of what an ensemble answers.
OF_MEMBERS = (OWN_ACCURACY.score, OWN_RMSE.score, "improvement")


@dataclass(frozen=True)
class Contrast:
    """One method less the first, by one measure on some data."""

    method: MethodResult
    base: MethodResult
    measure: Measure
    data: str
    found: Difference
    hint: bool = False  # too few ensembles, or not apart once all are counted

    @property
    def size(self) -> str:
        """How far apart the means are, without a sign."""
        digits = 1 if self.measure.percent else self.measure.digits
        unit = f" {self.measure.unit}" if self.measure.unit else ""
        return number(abs(self.found.mean), digits) + unit

    @property
    def interval(self) -> str:
        """Both ends of the interval."""
        digits = 1 if self.measure.percent else self.measure.digits
        return ends(self.found.low, self.found.high, digits, sign=True)

    @property
    def means(self) -> str:
        """The means of both methods."""
        found = (self.measure.of(m, self.data) for m in (self.method, self.base))
        both = " against ".join(number(f.mean, self.measure.digits) for f in found)
        return f"{both} %" if self.measure.percent else both

    @property
    def gain(self) -> float:
        """The difference, below zero where it is for the worse."""
        signs = {"higher": 1, "lower": -1, "": 0}
        return signs[self.measure.better] * self.found.mean


class Told(NamedTuple):
    """The beginning of a page."""

    claim: str  # in a sentence or two
    story: str  # what carries it
    next: str  # what to do; empty where nothing is open


def contrasts_of(
    comparison: Comparison, measures: Iterable[Measure], data: Iterable[str]
) -> list[Contrast]:
    """Return all differences to the first method that are known."""
    base, *others = comparison.methods
    wanted = [(kind, m, method) for kind in data for m in measures for method in others]
    found = [(*each, each[1].less(each[2], base, each[0])) for each in wanted]
    return [
        Contrast(method, base, measure, kind, difference)
        for kind, measure, method, difference in found
        if difference is not None
    ]


def told(group: Group) -> Told:
    """Return claim, story and advice of a group."""
    comparison = group.comparison
    main = leading_measure(comparison)
    found = contrasts_of(comparison, measures_of(comparison), kinds(comparison))
    sure = firm([each.found for each in found])
    every = [replace(c, hint=not s) for c, s in zip(found, sure, strict=True)]
    leading = [each for each in every if each.measure.score == main.score]
    failed = failures(comparison)
    if not leading:
        alone = _joined(failed, _alone(comparison, main))
        return Told(alone, _why_open(comparison), _more(group))
    claim = _joined(failed, _claim(comparison, leading, every))
    story = _joined(_pairwise(leading), _elsewhere(every, main), prices(group))
    return Told(claim, story, _advice(group, leading))


def _joined(*sentences: str) -> str:
    return " ".join(filter(None, sentences))


def _claim(
    comparison: Comparison, leading: list[Contrast], every: list[Contrast]
) -> str:
    ensembles = min(len(method.ensembles) for method in comparison.methods)
    beginning = f"With {word(ensembles)} ensembles per method"
    if not any(each.found.apart for each in every):
        return f"{beginning}, nothing here is distinguishable."
    apart = [each for each in leading if each.found.apart]
    main = leading[0].measure
    beside = _clear_beside(every, main)
    by_method: dict[str, list[Contrast]] = {}
    for each in sorted(apart, key=lambda c: -abs(c.found.mean)):
        by_method.setdefault(each.method.label, []).append(each)
    if not apart:
        where = " or ".join(dict.fromkeys(f"on {_on(c.data)}" for c in leading))
        worse = [_contrary(m.label, [], beside) for m in comparison.methods]
        said = f"{beginning}, {main.name} cannot be told apart, {where}{_but(worse)}."
        return said + _about_hints(said, every)
    if len(by_method) > MOST:
        said = f"{_count(comparison, by_method, beside)}."
        return said + _about_hints(said, every)
    against = [_contrary(label, found, beside) for label, found in by_method.items()]
    facts = [_fact(label, found) for label, found in by_method.items()]
    both = [f + _but([c]) for f, c in zip(facts, against, strict=True)]
    said = "; ".join(both) if any(against) else listed(facts)
    labels = [m.label for m in comparison.methods if m.label not in by_method]
    others = [*filter(None, (_contrary(label, [], beside) for label in labels))]
    also = f" {some(others, MOST)}." if others else ""
    said = f"{said}.{_not_clear(leading)}{also}"
    return said + _about_hints(said, every)


def _about_hints(claim: str, every: list[Contrast]) -> str:
    """Return the meaning of a hint, for a claim that has one."""
    if "a hint" not in claim:
        return ""
    return (
        f" A hint rests on {word(FEW)} pairs of ensembles or fewer, or does not stay "
        f"apart after Holm's correction for all {len(every)} comparisons."
    )


def _clear_beside(every: list[Contrast], main: Measure) -> list[Contrast]:
    """Return the differences of other measures that are to be seen and clear.

    Of all that a page shows chance makes some stand apart: what stands in a headline is
    so by a test that is corrected for the number of all of them.
    """
    left_out = (main.score, *OF_MEMBERS)
    found = [each.found for each in every]
    return [
        each
        for each, sure in zip(every, still_apart(found), strict=True)
        if sure
        and each.measure.score not in left_out
        and round(each.found.mean, each.measure.digits) != 0
    ]


def _contrary(label: str, found: list[Contrast], beside: list[Contrast]) -> str:
    """Return in what else a method clearly differs, contrary to what is found.

    That is what is worse; of a method that is behind, what is better.
    """
    behind = bool(found) and all(each.gain < 0 for each in found)
    contrary = [
        each
        for each in beside
        if each.method.label == label and (each.gain > 0 if behind else each.gain < 0)
    ]
    said = [
        f"{each.measure.name} on {_on(each.data)} "
        f"({each.means}{'; a hint' if each.hint else ''})"
        for each in contrary
    ]
    clearly = "" if any(each.hint for each in contrary) else "clearly "
    how = "better" if behind else "worse"
    return f"{label} is {clearly}{how} in {some(said, MOST)}" if said else ""


def _but(said: Sequence[str]) -> str:
    known = [*filter(None, said)]
    return f", but {some(known, MOST)}" if known else ""


def _not_clear(leading: list[Contrast]) -> str:
    """Return which differences of the leading measure their intervals leave open."""
    data: dict[str, list[str]] = {}
    for each in leading:
        if not each.found.apart:
            data.setdefault(each.method.label, []).append(data_name(each.data))
    if not data:
        return ""
    which = [f"{label} on {listed(names)} data" for label, names in data.items()]
    measure, base = leading[0].measure, leading[0].base
    return (
        f" For {some(which, MOST)}, {measure.name} is not clearly different from "
        f"{base.label}'s (95 % intervals over shared seeds)."
    )


def _count(
    comparison: Comparison,
    by_method: Mapping[str, list[Contrast]],
    beside: list[Contrast],
) -> str:
    """Return how many methods differ, and the one that differs most."""
    others = len(comparison.methods) - 1
    label, found = next(iter(by_method.items()))
    most = found[0]
    labels = dict.fromkeys([*by_method, *(m.label for m in comparison.methods)])
    against = [_contrary(name, by_method.get(name, []), beside) for name in labels]
    sure = any(not each.hint for several in by_method.values() for each in several)
    return (
        f"{opening(word(len(by_method)))} of {word(others)} methods "
        f"{'differ' if sure else 'seem to differ'} from "
        f"{most.base.label} in {most.measure.name}, most of all "
        f"{_who(label, most.measure)}, which is {_how([most])}{_but(against)}"
    )


def _fact(label: str, found: list[Contrast]) -> str:
    return f"{_who(label, found[0].measure)} is {_how(found)}"


def _who(label: str, measure: Measure) -> str:
    return label if measure.score == ACCURACY.score else f"{label}'s {measure.name}"


def _how(found: list[Contrast]) -> str:
    """Return by how much a method is ahead or behind, on each kind of data."""
    first = found[0]
    if first.measure.score == ACCURACY.score:
        words, than = ("less", "more"), f" accurate than {first.base.label}"
    else:
        words, than = ("lower", "higher"), f" than {first.base.label}'s"
    parts = [
        f"{each.size} {words[each.found.mean > 0]}{than if each is first else ''} on "
        f"{_on(each.data)}{' (a hint)' if each.hint else ''}"
        for each in found
    ]
    return listed(parts)


def _pairwise(leading: list[Contrast]) -> str:
    """Return the differences on the last data, which are the hardest."""
    data = leading[-1].data
    found = [each for each in leading if each.data == data]
    found.sort(key=lambda each: -abs(each.found.mean))
    parts: list[str] = []
    for each in found:
        side = "below" if each.found.mean < 0 else "above"
        base = f" {each.base.label} (95 % interval " if not parts else " ("
        lies = "lies " if not parts else ""
        parts.append(
            f"{each.method.label} {lies}{each.size} {side}{base}{each.interval})"
        )
    return (
        f"Compared pair by pair over shared seeds, in {leading[0].measure.name} on "
        f"{_on(data)} {some(parts, MOST)}."
    )


def _elsewhere(every: list[Contrast], main: Measure) -> str:
    apart = [c for c in every if c.found.apart]
    rest = [c for c in apart if c.measure.score != main.score]
    rest.sort(key=lambda each: -abs(each.found.mean) / (each.found.reach or math.inf))
    if not rest:
        return ""
    said = some([_hint(each) for each in rest], MOST)
    return (
        f"Elsewhere {said}; chance alone would set {by_chance(len(every))} of "
        f"{len(every)} comparisons apart, {_weight(every, len(apart))}."
    )


def _weight(every: list[Contrast], apart: int) -> str:
    """Return how far those that are apart can be relied on."""
    sure = sum(still_apart([each.found for each in every]))
    which = f"{word(sure)} of them also" if sure < apart else "also"
    if not sure:
        which = "but not" if apart == 1 else "none of them"
    known = sum(not each.hint for each in every)
    they = {0: ("it", "these")}.get(known, ("the other", "the others"))
    hints = f"{they[0]} as a hint" if apart - known == 1 else f"{they[1]} as hints"
    return (
        f"and {word(apart)} {'is' if apart == 1 else 'are'}, {which} after Holm's "
        f"correction for all {len(every)}{f': take {hints}' if known < apart else ''}"
    )


def _hint(each: Contrast) -> str:
    lower = each.found.mean < 0
    measure = each.measure
    what = {
        SHARPNESS.score: f"members are {'flatter' if lower else 'sharper'}",
        DER.score: f"members err more {'alike' if lower else 'differently'}",
    }.get(measure.score, f"{measure.name} is {'lower' if lower else 'higher'}")
    where = "" if measure is SHARPNESS else f" on {_on(each.data)}"
    both = f"{each.means}; difference {each.interval}"
    return f"{each.method.label}'s {what}{where} ({both})"


def _advice(group: Group, leading: list[Contrast]) -> str:
    """Return how many more ensembles would say more, on the hardest data."""
    data, measure = leading[-1].data, leading[-1].measure
    found = [each for each in leading if each.data == data]
    if all(each.found.apart for each in leading):
        return ""
    now = max(each.found.reach for each in found)
    count = min(each.found.count for each in found)
    spread = now / reach_with(1.0, count)
    soon = max(5, 2 * count)
    said = (
        f"Train {word(soon)} ensembles per method{_took(group, soon)}: if seeds go on "
        f"to vary as these did, the widest interval of {measure.name} on {_on(data)} "
        f"shrinks from ±{_rough(now)} to about ±{_rough(reach_with(spread, soon))}"
    )
    if not measure.percent:
        return f"{said}."
    enough = ensembles_for(1.0, spread) or 0
    more = enough > soon
    wish = f", and ±1 point would take about {enough} ensembles" if more else ""
    return f"{said} points{wish}."


def _more(group: Group) -> str:
    if len(group.entries) < 2:
        return ""
    return (
        f"Train five ensembles per method, from the same seeds{_took(group, 5)}, to "
        "give every difference an interval."
    )


def _took(group: Group, ensembles: int) -> str:
    seconds = sum(
        estimate(t.seconds for t in entry.result.ensembles).mean
        for entry in group.entries
    )
    return f", about {duration(ensembles * seconds)} of training" if seconds else ""


def _alone(comparison: Comparison, main: Measure) -> str:
    """Return the first method's scores where nothing can be compared."""
    first, *others = comparison.methods
    shown = [
        f"{number(main.of(first, data).mean, main.digits)}"
        f"{' %' if main.percent else ''} on {_on(data)}"
        for data in kinds(comparison)
    ]
    if not others:
        return f"{first.label}'s {main.name} is {some(shown, MOST)}."
    if all(len(method.ensembles) == 1 for method in comparison.methods):
        return "One ensemble per method was trained: differences may be chance."
    return "No two methods share the seeds of two ensembles: differences may be chance."


def _why_open(comparison: Comparison) -> str:
    base, *others = comparison.methods
    if not others:
        return "One method stands alone here, so that nothing is compared."
    without = [m.label for m in others if len(seed_pairs(m, base)) < 2]
    return (
        f"Differences are told with an interval where a method shares the seeds of at "
        f"least two ensembles with {base.label}; {some(without, MOST)} "
        f"{'does' if len(without) == 1 else 'do'} not."
        if without
        else ""
    )


def _on(data: str) -> str:
    return f"{data_name(data)} data"


def _rough(value: float) -> str:
    return f"{value:.2g}" if value < 10 else f"{value:.0f}"
