"""Claims of the paper that rethinks sharpness by six controls.

The paper measures the sharpness of a control on the data it was trained on, so that of
the augmented controls on augmented data, where more loss is left and all measures are
larger for that reason alone. Each claim about sharpness is therefore judged twice: as
the paper measures, and with clean training data for all.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Literal

from tepui.papers.claims.base import Claim, Finding
from tepui.papers.claims.comparisons import best, combined
from tepui.papers.claims.evidence import Datum, Evidence, label

Protocol = Literal["paper", "clean"]
# Tables of CIFAR-10 and CIFAR-100, of which the claims speak.
TABLES = tuple(f"rethinking/table{number}" for number in (1, 2, 4, 5, 7, 8))
MEASURES = ("fisher_rao", "sam_sharpness", "relative_flatness")
# Metric: +1 where a larger number is better, -1 where a smaller one is.
SAFETY = {"ece": -1, "corruption_accuracy": 1, "disagreement": -1}
PERFORMANCE = {"accuracy": 1, **SAFETY}
BASELINE = "baseline"
WITH_SAM = {f"{name}_sam": name for name in (BASELINE, "augmentation", "weight_decay")}


def sharpness(
    evidence: Evidence, measure: str, protocol: Protocol
) -> Iterator[tuple[str, dict[str, Datum]]]:
    """Yield the sharpness of all controls, table by table.

    Args:
        evidence: The numbers.
        measure: Of sharpness.
        protocol: ``"paper"`` takes augmented controls on augmented data, ``"clean"``
            all on clean data.

    Yields:
        Where, and the numbers by control; tables in which a control was not measured
        on the data asked for are left out.
    """
    found: dict[str, dict[str, Datum]] = {}
    measured: dict[str, set[str]] = {}
    for datum in evidence.find(TABLES, metric=measure):
        record, place = datum.record, _place(datum)
        augmented = protocol == "paper" and record.method.startswith("augmentation")
        asked = "augmented" if augmented else "clean"
        measured.setdefault(place, set()).add(record.method)
        if record.at.get("sharpness_data") == asked:
            found.setdefault(place, {})[record.method] = datum
    for place, controls in found.items():
        if measured[place] == {*controls}:
            yield place, controls


def scores(evidence: Evidence, metric: str) -> Iterator[tuple[str, dict[str, Datum]]]:
    """Yield a metric of all controls, table by table."""
    for _, methods in evidence.groups(TABLES, ["method"], metric=metric):
        yield _place(next(iter(methods.values()))), methods


def flattest(evidence: Evidence, protocol: Protocol) -> Iterator[Finding]:
    """The baseline is flatter than every other control."""
    for measure in MEASURES:
        for place, controls in sharpness(evidence, measure, protocol):
            yield from _against_baseline(controls, f"{measure} at {place}", 1)


def worst(evidence: Evidence) -> Iterator[Finding]:
    """The baseline is worse than every other control in all respects."""
    for metric, sign in PERFORMANCE.items():
        for place, controls in scores(evidence, metric):
            yield from _against_baseline(controls, f"{metric} at {place}", sign)


def sam_sharpens(evidence: Evidence, protocol: Protocol) -> Iterator[Finding]:
    """SAM raises the sharpness of each control."""
    for measure in MEASURES:
        for place, controls in sharpness(evidence, measure, protocol):
            for with_sam, without in WITH_SAM.items():
                if {with_sam, without} <= {*controls}:
                    where = f"{with_sam} less {without}, {measure} at {place}"
                    pair = controls[with_sam], controls[without]
                    yield combined(pair, lambda v: v[0] - v[1], where)


def safety_is_sharp(evidence: Evidence, protocol: Protocol) -> Iterator[Finding]:
    """The safest control is sharper than the baseline, by every measure.

    The best of the controls that are sharper than the baseline is compared with the
    best of the others, the baseline among them. That the winner is sharper, or is not,
    must be as sure as that it wins: the less sure of the two is what is found.
    """
    for metric, sign in SAFETY.items():
        for measure in MEASURES:
            flat = dict(sharpness(evidence, measure, protocol))
            for place, safety in scores(evidence, metric):
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
        pair = best(flat, candidates, 1), flat[BASELINE]
        where = f"no control is sharper than the baseline; {where}"
        found = combined(pair, lambda v: v[0] - v[1], where)
        return replace(found, looks=len(candidates))
    rest = [BASELINE, *(name for name in others if name not in sharper)]
    pair = best(safety, sharper, sign), best(safety, rest, sign)
    first, second = (datum.record.method for datum in pair)
    place = f"{first} against {second}: {where}"
    wins = combined(pair, lambda v: sign * (v[0] - v[1]), place)
    wins = replace(wins, looks=len(sharper) * len(rest))
    winner = first if wins.effect > 0 else second
    if winner == BASELINE:
        return wins
    pair = flat[winner], flat[BASELINE]
    place = f"{winner} wins, its sharpness less the baseline's: {where}"
    is_sharper = combined(pair, lambda v: v[0] - v[1], place)
    if wins.effect > 0:
        return max(wins, is_sharper, key=lambda found: found.p_for)
    return max(wins, is_sharper, key=lambda found: found.p_against)


def _against_baseline(
    controls: Mapping[str, Datum], where: str, sign: int
) -> Iterator[Finding]:
    for name, datum in controls.items():
        if name != BASELINE and BASELINE in controls:
            pair = datum, controls[BASELINE]
            place = f"{name} against the baseline, {where}"
            yield combined(pair, lambda v: sign * (v[0] - v[1]), place)


def _place(datum: Datum) -> str:
    """Return where a number stands, the same for clean and corrupted data."""
    names = {**datum.names, "dataset": datum.record.dataset.removesuffix("_c")}
    names.pop("sharpness_data", None)
    return label(names)


def _twice(
    name: str,
    text: str,
    source: str,
    judge: Callable[..., Iterator[Finding]],
    effect: str,
) -> tuple[Claim, ...]:
    """Return a claim about sharpness as the paper measures it, and on clean data."""
    more = {"": "", "-clean": " All sharpness measured on clean data."}
    return tuple(
        Claim(
            name=f"rethinking/{name}{suffix}",
            text=text + addition,
            source=source,
            needs=TABLES,
            judge=partial(judge, protocol=protocol),
            effect=effect,
        )
        for (suffix, addition), protocol in zip(
            more.items(), ("paper", "clean"), strict=True
        )
    )


CLAIMS = (
    *_twice(
        "baseline-flattest",
        "The baseline is the flattest of the six controls, by every measure.",
        "Section 3; tables 1, 2, 4, 5, 7 and 8",
        flattest,
        "sharpness of a control less the baseline's",
    ),
    Claim(
        name="rethinking/baseline-worst",
        text="The baseline is the worst of the six controls, in accuracy and safety.",
        source="Section 3; tables 1, 2, 4, 5, 7 and 8",
        needs=TABLES,
        judge=worst,
        effect="what a control is better by",
    ),
    *_twice(
        "safety-is-sharp",
        "Lowest ECE, highest corruption accuracy and lowest disagreement always lie "
        "with a control sharper than the baseline.",
        "Section 3; tables 1, 2, 4, 5, 7 and 8",
        safety_is_sharp,
        "what the best sharper control is better by than the best other, or the "
        "winner's sharpness less the baseline's where that is less sure",
    ),
    *_twice(
        "sam-sharpens",
        "SAM raises the sharpness of each control, by every measure.",
        "Section 3; tables 1 and 2",
        sam_sharpens,
        "sharpness with SAM less without",
    ),
)
