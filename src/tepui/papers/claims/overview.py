"""What came of the claims, in plain words: counts, what is decided, what is open.

A claim has a verdict for each size. It counts as supported if it is at some size and
refuted at none, and the other way round. Only if real data leave it open does it count
by what transfers to stand-ins. Twins of a claim (by
another rule, on other data) are set beside it where they come out otherwise.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tepui.papers.claims.base import (
    AGAINST,
    DECIDED,
    ON_REAL_DATA,
    ON_STAND_INS,
    Claim,
    Outcome,
)
from tepui.papers.claims.judging import CLAIMS, Verdict, tally
from tepui.papers.writing import as_markdown

OPEN: tuple[Outcome, ...] = ("no data", "undecided")
BOTH = "both, at different sizes"
# In the order of the columns; the last two only if there are such claims.
STANDINGS = (*DECIDED, "undecided", BOTH, "no data")
USUAL = STANDINGS[:5]


@dataclass(frozen=True)
class Group:
    """Claims that are counted together."""

    label: str
    paper: str
    twin: str = ""
    computed: bool = False
    versus: tuple[str, str] = ("", "")  # what a claim is judged with, and its twin

    def has(self, claim: Claim) -> bool:
        """Return whether a claim is one of them."""
        same = claim.paper == self.paper and claim.twin == self.twin
        return same and (claim.computed is not None) == self.computed


GROUPS = (
    Group("SharpBalance, by the paper's rule", "sharpbalance"),
    Group(
        "SharpBalance, by the released rule (tepui's sets), after SAM",
        "sharpbalance",
        twin="released",
        versus=("the paper's rule", "the released rule"),
    ),
    Group(
        "SharpBalance's theorems, as printed and as corrected here",
        "sharpbalance",
        computed=True,
    ),
    Group("SED", "sed"),
    Group("Rethinking sharpness, measured as the paper does", "rethinking"),
    Group(
        "Rethinking sharpness, all measured on clean data",
        "rethinking",
        twin="clean",
        versus=("the paper's measurements", "clean data for all"),
    ),
)


@dataclass(frozen=True)
class Standing:
    """What all sizes say of a claim."""

    claim: Claim
    verdicts: tuple[Verdict, ...]  # the size nearest to the paper's first

    @property
    def outcome(self) -> str:
        """For or against the claim if a size says so and none the contrary."""
        found = {verdict.outcome for verdict in self.verdicts}
        for kind in (ON_REAL_DATA, ON_STAND_INS):
            decided = [outcome for outcome in kind if outcome in found]
            if decided:
                return decided[0] if len(decided) == 1 else BOTH
        return max(found, key=OPEN.index)

    @property
    def shown(self) -> tuple[Verdict, ...]:
        """For each way that a claim was decided, what most units say of it.

        They are those of the size that is nearest to the paper's.
        """
        chosen = []
        for outcome in DECIDED:
            ways = [verdict for verdict in self.verdicts if verdict.outcome == outcome]
            near = [
                verdict for verdict in ways if _protocol(verdict) == _protocol(ways[0])
            ]
            chosen += [max(near, key=lambda verdict: verdict.n)] if near else []
        return tuple(chosen)

    @property
    def sentence(self) -> str:
        """What is claimed, without what it is judged with."""
        return self.claim.text.split(". ")[0].removesuffix(".")

    @property
    def link(self) -> str:
        """The sentence, which leads to the verdicts."""
        return f"[{self.sentence}](#{self.claim.anchor})"


def overview(judged: Iterable[Verdict]) -> str:
    """Return counts for all papers, then what is decided and what is open in each."""
    by_name: dict[str, list[Verdict]] = {}
    for verdict in judged:
        by_name.setdefault(verdict.claim, []).append(verdict)
    standings = {
        claim.name: Standing(claim, tuple(by_name[claim.name])) for claim in CLAIMS
    }
    groups = [(g, [s for s in standings.values() if g.has(s.claim)]) for g in GROUPS]
    blocks = [_counts(groups), _at_paper_size(standings.values())]
    for group, several in groups:
        told = _twins(group, several, standings) if group.twin else _listed(several)
        blocks.append(f"**{group.label}.**{told}")
    return "\n".join(blocks)


def _counts(groups: Sequence[tuple[Group, Sequence[Standing]]]) -> str:
    found = {standing.outcome for _, several in groups for standing in several}
    columns = [name for name in STANDINGS if name in USUAL or name in found]
    rows = []
    for group, several in groups:
        counts = Counter(standing.outcome for standing in several)
        sizes = Counter(_protocol(v) for standing in several for v in standing.shown)
        at = ", ".join(f"{count} at `{size}`" for size, count in sizes.items())
        numbers = [len(several), *(counts[name] for name in columns)]
        rows.append([group.label, *map(str, numbers), at])
    return as_markdown(["claims of", "all", *columns, "decided at size"], rows)


def _at_paper_size(standings: Iterable[Standing]) -> str:
    """Return how many claims the papers' own experiments decide."""
    shown = [verdict for standing in standings for verdict in standing.shown]
    decided = sum(_protocol(verdict) == "paper" for verdict in shown)
    return (
        f"Decided at size `paper`, by the papers' own experiments: {decided or 'none'}."
        "\n"
    )


def _listed(several: Sequence[Standing]) -> str:
    """Return what is decided, by verdict and size, then what is open."""
    lists: dict[str, list[str]] = {}
    for outcome in DECIDED:
        for standing in several:
            for verdict in standing.shown:
                if verdict.outcome == outcome:
                    heading = f"**{outcome.capitalize()}** at `{_protocol(verdict)}`"
                    lists.setdefault(heading, []).append(_item(standing, verdict))
    heading = "**Undecided** at every size"
    for standing in several:
        if standing.outcome == "undecided":
            lists.setdefault(heading, []).append(_item(standing))
    if not lists:
        return " No data.\n"
    lines = []
    for name, items in lists.items():
        lines += [f"- {name}:", *(f"    - {item}" for item in items)]
    return "\n\n" + "\n".join(lines) + "\n"


def _item(standing: Standing, verdict: Verdict | None = None) -> str:
    """Return a claim with what a reader must know beside its verdict."""
    notes, printed = [], standing.verdicts[0].printed
    if verdict is not None and verdict.outcome in AGAINST:
        notes += [tally(verdict.findings)] if len(verdict.findings) > 1 else []
    elif verdict is not None and "the printed effect" in verdict.excludes:
        notes.append("the interval excludes the printed effect")
    if printed is not None and printed.outcome == "refuted":
        notes.append("fails on the paper's own printed numbers")
    return f"{standing.link} ({'; '.join(notes)})" if notes else standing.link


def _twins(
    group: Group, several: Sequence[Standing], standings: Mapping[str, Standing]
) -> str:
    """Return how many twins come out as their claims, and a table of the others."""
    pairs = [(standings[twin.claim.original], twin) for twin in several]
    counts = Counter(
        one.outcome for one, other in pairs if one.outcome == other.outcome
    )
    apart = [(one, other) for one, other in pairs if one.outcome != other.outcome]
    each = ", ".join(f"{name} {counts[name]}" for name in STANDINGS if counts[name])
    said = f" With {group.versus[0]} {counts.total()} of {len(pairs)} come out the same"
    said += f" ({each})." if each else "."
    if not apart:
        return f"{said}\n"
    rows = [
        [one.link, one.claim.effect, _cell(one, one), _cell(other, one)]
        for one, other in apart
    ]
    table = as_markdown(["claim", "effect", *group.versus], rows)
    return f"{said} The others, with the effect that decides:\n\n{table}"


def _cell(standing: Standing, claimed: Standing) -> str:
    """Return a verdict, and what is judged where that is not all that is claimed."""
    ways = [
        f"**{v.outcome}** at `{_protocol(v)}`: {_number(v)}" for v in standing.shown
    ]
    said = "; ".join(ways) or f"[{standing.outcome}](#{standing.claim.anchor})"
    if standing.sentence == claimed.sentence:
        return said
    return f"{said}; judged is only: {standing.link}"


def _number(verdict: Verdict) -> str:
    said = f"{verdict.effect:.3g}"
    if verdict.interval is None or verdict.interval[0] == verdict.interval[1]:
        return said
    low, high = verdict.interval
    return f"{said} ({low:.3g} to {high:.3g})"


def _protocol(verdict: Verdict) -> str:
    """Return a size, however often it was repeated; a shortened one is another.

    Single networks are repeated by more members, all others by more ensembles.
    """
    repeats = ["ensembles="] + ["members="] * (verdict.unit == "networks")
    words = verdict.size.split("+")
    return "+".join(word for word in words if not word.startswith(tuple(repeats)))
