"""Claims of the paper that rethinks sharpness by six controls.

The paper measures the sharpness of a control on the data it was trained on, so that of
the augmented controls on augmented data, where more loss is left and all measures are
larger for that reason alone. Each claim about sharpness is therefore judged twice: as
the paper measures, and with clean training data for all.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from tepui.papers.claims.base import Check, Claim, Finding, Judge
from tepui.papers.claims.comparisons import best, difference, duels
from tepui.papers.claims.evidence import Datum, Evidence, label

Protocol = Literal["paper", "clean"]
# Tables of CIFAR-10 and CIFAR-100, of every architecture; the first two in the text.
TABLES = tuple(f"rethinking/table{number}" for number in (1, 2, 4, 5, 7, 8))
IN_TEXT = TABLES[:2]
MEASURES = ("fisher_rao", "sam_sharpness", "relative_flatness")
# Metric: +1 where a larger number is better, -1 where a smaller one is.
SAFETY = {"ece": -1, "corruption_accuracy": 1, "disagreement": -1}
PERFORMANCE = {"accuracy": 1, **SAFETY}
BASELINE = "baseline"
WITH_SAM = {f"{name}_sam": name for name in (BASELINE, "augmentation", "weight_decay")}


def sharpness(
    evidence: Evidence, items: Sequence[str], measure: str, protocol: Protocol
) -> Iterator[tuple[str, dict[str, Datum]]]:
    """Yield the sharpness of all controls, table by table.

    Tables in which a control was not measured on the wanted data are left out.
    """
    tables: dict[str, dict[str, Datum]] = {}
    measured: dict[str, set[str]] = {}
    for datum in evidence.find(items, metric=measure):
        record, place = datum.record, _place(datum)
        augmented = protocol == "paper" and record.method.startswith("augmentation")
        measured.setdefault(place, set()).add(record.method)
        wanted = "augmented" if augmented else "clean"
        if record.at.get("sharpness_data") == wanted:
            tables.setdefault(place, {})[record.method] = datum
    for place, controls in tables.items():
        if measured[place] == {*controls}:
            yield place, controls


def scores(
    evidence: Evidence, items: Sequence[str], metric: str
) -> Iterator[tuple[str, dict[str, Datum]]]:
    """Yield a metric of all controls, table by table."""
    for _, methods in evidence.groups(items, ["method"], metric=metric):
        yield _place(next(iter(methods.values()))), methods


def flattest(
    evidence: Evidence, items: Sequence[str], protocol: Protocol
) -> Iterator[Finding]:
    """The baseline is flatter than every other control."""
    for measure in MEASURES:
        for place, controls in sharpness(evidence, items, measure, protocol):
            yield from _against_baseline(controls, f"{measure} at {place}", 1)


def worst(evidence: Evidence, items: Sequence[str]) -> Iterator[Finding]:
    """The baseline is worse than every other control in all respects."""
    for metric, sign in PERFORMANCE.items():
        for place, controls in scores(evidence, items, metric):
            yield from _against_baseline(controls, f"{metric} at {place}", sign)


def sam_sharpens(
    evidence: Evidence, items: Sequence[str], protocol: Protocol
) -> Iterator[Finding]:
    """SAM raises the sharpness of each control, but for the paper's exceptions."""
    for measure in MEASURES:
        for place, controls in sharpness(evidence, items, measure, protocol):
            for with_sam, without in WITH_SAM.items():
                excepted = measure == "sam_sharpness" and (
                    with_sam == "augmentation_sam" or ", cifar100," in place
                )
                if {with_sam, without} <= {*controls} and not excepted:
                    where = f"{with_sam} less {without}, {measure} at {place}"
                    yield difference(controls[with_sam], controls[without], where)


def safety_is_sharp(
    evidence: Evidence, items: Sequence[str], protocol: Protocol
) -> Iterator[Finding]:
    """The safest control is sharper than the baseline, by every measure.

    The best of the controls that are sharper than the baseline is compared with the
    best of the others, the baseline among them. That the winner is sharper, or is not,
    must be as sure as that it wins: the less sure of the two is what is found.
    """
    for metric, sign in SAFETY.items():
        for measure in MEASURES:
            flat = dict(sharpness(evidence, items, measure, protocol))
            for place, safety in scores(evidence, items, metric):
                if place in flat and BASELINE in flat[place] and BASELINE in safety:
                    where = f"{metric}, sharper by {measure}, at {place}"
                    yield _sharper_against_rest(flat[place], safety, sign, where)


def _sharper_against_rest(
    flat: Mapping[str, Datum], safety: Mapping[str, Datum], sign: int, where: str
) -> Finding:
    bound = flat[BASELINE].record.value or 0.0
    others = [name for name in flat if name in safety and name != BASELINE]
    sharper = [name for name in others if (flat[name].record.value or 0.0) > bound]
    if not sharper:
        candidates = [name for name in flat if name != BASELINE]
        where = f"no control is sharper than the baseline; {where}"
        finding = difference(best(flat, candidates, 1), flat[BASELINE], where)
        return replace(finding, looks=len(candidates))
    rest = [BASELINE, *(name for name in others if name not in sharper)]
    pair = best(safety, sharper, sign), best(safety, rest, sign)
    first, second = (datum.record.method for datum in pair)
    wins = difference(*pair, f"{first} against {second}: {where}", sign=sign)
    wins = replace(wins, looks=len(sharper) * len(rest))
    winner = first if wins.effect > 0 else second
    if winner == BASELINE:
        return wins
    place = f"{winner} wins, its sharpness less the baseline's: {where}"
    is_sharper = difference(flat[winner], flat[BASELINE], place)
    if wins.effect > 0:
        return max(wins, is_sharper, key=lambda finding: finding.p_for)
    return max(wins, is_sharper, key=lambda finding: finding.p_against)


def _against_baseline(
    controls: Mapping[str, Datum], where: str, sign: int
) -> Iterator[Finding]:
    for name, datum in controls.items():
        if name != BASELINE and BASELINE in controls:
            place = f"{name} against the baseline, {where}"
            yield difference(datum, controls[BASELINE], place, sign=sign)


def _place(datum: Datum) -> str:
    """Return where a number stands, the same for clean and corrupted data."""
    names = {**datum.names, "dataset": datum.record.dataset.removesuffix("_c")}
    names.pop("sharpness_data", None)
    return label(names)


def _claim(
    name: str, text: str, judge: Judge, effect: str, needs: tuple[str, ...] = TABLES
) -> Claim:
    of_sam = "SAM", "baseline_sam"
    treatment, control = of_sam if name[:3] == "sam" else ["augmentation"] * 2
    rises = partial(duels, metric="accuracy", winner=control, rivals=[BASELINE])
    tables = "tables 1 and 2" if needs == IN_TEXT else "tables 1, 2, 4, 5, 7 and 8"
    return Claim(
        name=f"rethinking/{name}",
        text=text,
        source=f"Section 3; {tables}",
        needs=needs,
        judge=judge,
        effect=effect,
        checks=(Check(f"{treatment} raises accuracy", lambda e, _: rises(e, needs)),),
    )


def _twice(
    name: str, text: str, judge: Callable[..., Iterator[Finding]], *rest: Any
) -> tuple[Claim, Claim]:
    """Return a claim about sharpness as the paper measures it, and on clean data."""
    more = " All sharpness measured on clean data."
    clean = _claim(
        f"{name}-clean", text + more, partial(judge, protocol="clean"), *rest
    )
    return (
        _claim(name, text, partial(judge, protocol="paper"), *rest),
        replace(clean, twin="clean"),
    )


CLAIMS = (
    *_twice(
        "baseline-flattest",
        "The baseline is the flattest of the six controls, by every measure.",
        flattest,
        "sharpness of a control less the baseline's",
    ),
    _claim(
        "baseline-worst",
        "The baseline is the worst of the six controls, in accuracy and safety.",
        worst,
        "what a control is better by",
        IN_TEXT,
    ),
    *_twice(
        "safety-is-sharp",
        "Lowest ECE, highest corruption accuracy and lowest disagreement always lie "
        "with a control sharper than the baseline.",
        safety_is_sharp,
        "what the best sharper control is better by than the best other, or the "
        "winner's sharpness less the baseline's where that is less sure",
    ),
    *_twice(
        "sam-sharpens",
        "SAM raises the sharpness of each control, by every measure (but for SAM "
        "sharpness: augmentation on CIFAR-10, and all controls on CIFAR-100).",
        sam_sharpens,
        "sharpness with SAM less without",
        IN_TEXT,
    ),
)
