"""A table of the studies that can decide the claims, and what came of them."""

from collections.abc import Mapping, Sequence

from tepui.papers.claims.as_run import noise_ratios
from tepui.papers.claims.base import DECIDED, Claim
from tepui.papers.claims.designs import design_of
from tepui.papers.claims.judging import CLAIMS, Verdict
from tepui.papers.claims.power import Array, Power, expected
from tepui.papers.claims.runs import largest_run, stands, whole_runs
from tepui.papers.writing import as_markdown

ENOUGH = 0.8  # power that is asked for
PLANNED = "the planned effect"
BY_TEST = "decided by their test"
OF_PAPER = (
    "undecided with an interval that leaves out zero or an effect that the paper prints"
)
ASSUMED = (
    "undecided with an interval that leaves out nothing but an effect that is assumed "
    "here, since the paper prints none"
)
HEADINGS = (
    "claim",
    "size",
    "n",
    "power",
    "no effect, one missing",
    "means",
    "run with",
    "noise, found over planned",
    "power, noise found",
    "came out",
)


def designs(
    power: Mapping[str, Power],
    as_run: Mapping[str, float],
    judged: Sequence[Verdict],
    claims: Sequence[Claim] = CLAIMS,
) -> str:
    """Return a table of the studies that can decide the claims, and their sources.

    Beside each stands the study of that size that was run, and what it came to.

    Args:
        power: Of each design as it was planned, by claim.
        as_run: The power of those that were run whole, with the noise found.
        judged: All verdicts.
        claims: Those with designs have a row.
    """
    rows, notes = [], []
    runs = whole_runs(claims, judged)
    for claim in claims:
        design = design_of(claim)
        if claim.name not in power or design is None:
            continue
        usual, *wrong = (_percent(share) for share in power[claim.name])
        n = f"{design.n} {design.unit or claim.unit}"
        n += "".join(f", {few} in {word}" for word, few in design.fewer.items())
        means = expected(claim, design).means
        rows.append([f"`{claim.name}`", design.size, n, usual, ", ".join(wrong), means])
        ran, noise, share = claim.name in runs, "", ""
        if ran:
            noise = _from_to(noise_ratios(claim, design, runs[claim.name]))
            share = _percent(as_run[claim.name])
        verdict = largest_run(claim, design, judged)
        stood = ran and stands(runs[claim.name])
        rows[-1] += [_run_with(claim, verdict), noise, share]
        rows[-1].append(_came_out(verdict, stood=stood))
        note = f"{design.note}; " if design.note else ""
        notes.append(f"- `{claim.name}`: {note}noise: {design.source}.\n")
    standing = {name: found for name, found in runs.items() if stands(found)}
    kinds = _kinds(standing, claims)
    blocks = [
        _power_found(as_run, standing),
        as_markdown(HEADINGS, rows),
        f"{len(runs)} of these {len(rows)} studies were run whole. {kinds}",
        "".join(notes),
    ]
    return "\n".join(blocks)


def _power_found(as_run: Mapping[str, float], standing: Mapping[str, Verdict]) -> str:
    """Return what the power with the noise found is, and where it is too low."""
    few = [
        f"`{name}` ({found.outcome}, {_percent(as_run[name])})"
        for name, found in standing.items()
        if as_run[name] < ENOUGH
    ]
    return (
        "**Power, noise found** is that of the study that was run whole: each "
        "comparison that was made has the noise that was found of it and the units "
        "that it ran with, its effect is as planned. With it "
        f"{len(few) or 'none'} of the {len(standing)} verdicts that stand (bold) "
        f"{'has' if len(few) == 1 else 'have'} less than {100 * ENOUGH:.0f} %"
        f"{': ' if few else ''}{', '.join(few)}.\n"
    )


def _kinds(standing: Mapping[str, Verdict], claims: Sequence[Claim]) -> str:
    """Return how many verdicts stand, and by what."""
    kinds: dict[str, list[str]] = {BY_TEST: [], OF_PAPER: [], ASSUMED: []}
    for claim in claims:
        if claim.name in standing:
            kinds[_stands_by(claim, standing[claim.name])].append(f"`{claim.name}`")
    counts = [f"{len(names)} {kind}" for kind, names in kinds.items()]
    for n, kind in enumerate(kinds):
        if kind != BY_TEST and kinds[kind]:
            counts[n] += f" ({', '.join(kinds[kind])})"
    said = "; ".join(counts)
    return f"Of {len(standing)} of them the verdict stands (bold): {said}.\n"


def _stands_by(claim: Claim, verdict: Verdict) -> str:
    design = design_of(claim)
    if verdict.outcome in DECIDED:
        return BY_TEST
    of_printed = design is not None and design.of_printed
    return OF_PAPER if of_printed or {*verdict.excludes} - {PLANNED} else ASSUMED


def _run_with(claim: Claim, verdict: Verdict | None) -> str:
    if verdict is None:
        return ""
    n = f"{verdict.fewest.n} {verdict.fewest.unit or claim.unit}"
    if verdict.missing:
        n += f", without {', '.join(name.split('/')[1] for name in verdict.missing)}"
    return n


def _came_out(verdict: Verdict | None, *, stood: bool) -> str:
    if verdict is None:
        return ""
    said: str = verdict.outcome if verdict.p is not None else "not judged"
    if verdict.outcome == "undecided" and verdict.excludes:
        said += f", excludes {', '.join(verdict.excludes)}"
    return f"**{said}**" if stood else said


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _from_to(ratios: Array) -> str:
    """Return the least and the largest ratio, once where they are printed alike."""
    return " to ".join(dict.fromkeys([f"{ratios.min():.2g}", f"{ratios.max():.2g}"]))
