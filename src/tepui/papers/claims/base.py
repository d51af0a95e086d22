"""What a claim is, what is found about it, and how a verdict follows.

A claim's judge compares numbers and returns findings. A finding has an effect with its
standard error, and the region in which the claim says that the effect lies: above zero
for "A is better than B", around zero for "is constant". Each finding speaks for the
claim with one p-value (that the effect is *not* in the region) and against it with
another (that it is *not* outside).

How findings join depends on what is claimed:

- ``always``: holds if every finding does (intersection-union test: the largest p); one
  clear counter-example refutes it (the smallest p, times the number of findings).
- ``generally``: every finding must hold, or every one must fail.

Findings whose error is not known say nothing either way and are left out. One that was
picked from several by its numbers counts as often as there were (Bonferroni).

A claim about a treatment counts only if the treatment did what it is for: each of its
``checks`` is a comparison of its own, whose findings join by ``always``. If they speak
against it, the claim is undecided, whatever its own findings are.

References:
    Berger (1982), Multiparameter hypothesis testing and acceptance sampling.
    Holm (1979), A simple sequentially rejective multiple test procedure.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

from tepui.studies.significance import tails

if TYPE_CHECKING:
    from tepui.papers.claims.evidence import Datum, Evidence

Outcome = Literal[
    "supported",
    "refuted",
    "transfers",
    "does not transfer",
    "undecided",
    "no data",
]
# For and against a claim, on the paper's own kind of data and on stand-ins for them.
ON_REAL_DATA: tuple[Outcome, Outcome] = ("supported", "refuted")
ON_STAND_INS: tuple[Outcome, Outcome] = ("transfers", "does not transfer")
DECIDED = (*ON_REAL_DATA, *ON_STAND_INS)
Scope = Literal["always", "generally"]
LEVEL = 0.05


Region = tuple[float, float]
ABOVE_ZERO: Region = (0.0, math.inf)


@dataclass(frozen=True)
class Finding:
    """One comparison, oriented as the claim is."""

    where: str  # which numbers were compared
    effect: float
    # its standard error; zero for exact numbers, None if it is not known
    error: float | None
    freedom: float  # degrees of freedom of the error
    n: int  # repetitions or points of a fit; zero for printed numbers
    region: Region = ABOVE_ZERO  # where the claim says that the effect lies
    looks: int = 1  # how many comparisons this one was picked from by its numbers

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % confidence interval of the effect; None if it is not known."""
        if self.error is None:
            return None
        reach = quantile(self.freedom) * self.error if self.error else 0.0
        return self.effect - reach, self.effect + reach

    @property
    def depth(self) -> float:
        """How far the effect lies inside the claimed region; negative outside."""
        low, high = self.region
        return min(self.effect - low, high - self.effect)

    @cached_property
    def p_for(self) -> float:
        """How surprising the finding is if the claim fails here."""
        return min(1.0, self.looks * max(self._tails(1, 0)))

    @cached_property
    def p_against(self) -> float:
        """How surprising the finding is if the claim holds here."""
        return min(1.0, self.looks * min(self._tails(0, 1)))

    def _tails(self, *sides: int) -> tuple[float, ...]:
        """Return one tail of the distribution at each end of the region."""
        if self.error is None:
            return 1.0, 1.0
        about = self.effect, self.error, self.freedom
        ends = zip(self.region, sides, strict=True)
        return tuple(tails(*about, end)[side] for end, side in ends)


@dataclass(frozen=True, kw_only=True, eq=False)
class Claim:
    """A sentence that a paper stands for, and how to judge it."""

    name: str
    text: str  # what is claimed, in our words
    source: str  # where the paper says so
    # figures and tables whose numbers it is judged by; none for a claim about theory
    needs: tuple[str, ...]
    judge: "Judge"
    effect: str  # what the effect is, with its unit
    scope: Scope = "always"
    twin: str = ""  # what differs from the paper's claim: "released" or "clean"
    checks: "tuple[Check, ...]" = ()  # what must hold before a verdict counts
    circular: str = ""  # why our numbers on stand-ins cannot decide it

    @property
    def paper(self) -> str:
        """The paper's short name."""
        return self.name.split("/")[0]

    @property
    def family(self) -> str:
        """Claims whose p-values are corrected together: a paper's, or their twins."""
        return f"{self.paper}, {self.twin}" if self.twin else self.paper


# What the numbers of some figures and tables say.
Judge = Callable[..., Iterable[Finding]]


@dataclass(frozen=True, eq=False)
class Check:
    """A comparison that must hold before a verdict on a treatment counts."""

    name: str  # what the treatment does, in words
    # compares numbers of one size; the second argument is those of the study itself
    judge: "Callable[[Evidence, Sequence[Datum]], Iterable[Finding]]"


@dataclass(frozen=True)
class Checked:
    """What numbers say of a check."""

    name: str
    size: str  # of the study in which it was measured
    holds: bool  # whether they speak for it rather than against it
    p: float
    finding: Finding  # the one that decides


class Decision(NamedTuple):
    """What findings say together, before a correction for the number of claims."""

    holds: bool  # whether they speak for the claim rather than against it
    p: float
    finding: Finding  # the one that decides


def decide(findings: Iterable[Finding], scope: Scope) -> Decision | None:
    """Join findings."""
    certain = [finding for finding in findings if finding.error is not None]
    if not certain:
        return None
    support = sorted(certain, key=lambda finding: (finding.p_for, -finding.depth))
    doubt = sorted(certain, key=lambda finding: (finding.p_against, finding.depth))
    holding, for_it = support[-1], support[-1].p_for
    if scope == "always":
        failing, against = doubt[0], len(certain) * doubt[0].p_against
    else:
        failing, against = doubt[-1], doubt[-1].p_against
    if against < for_it:
        return Decision(False, min(1.0, 2 * against), failing)
    return Decision(True, min(1.0, 2 * for_it), holding)


def quantile(freedom: float) -> float:
    """Return how many standard errors an interval reaches to each side."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 1 - LEVEL / 2))
