"""Claims about the theorems of the SharpBalance paper, as printed and as corrected.

Theorem 2's constant is divided by its mean over 100 simulated matrices of 1200 x 60.
Theorem 1's lower bound is computed for all lengths doubled and divided by four:
sharpness, a rise of a quadratic, must come out as it was.
"""

import math
from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import Literal

from tepui.papers.claims.base import Claim, Finding, Region
from tepui.papers.claims.evidence import Evidence
from tepui.theory import Setting, simulate_subset_constant, subset_constant, theorem1

# Further from a simulation than this is another number.
AGREEMENT: Region = (0.99, 1.01)
MATRICES = 100
Version = Literal["printed", "corrected"]


@cache
def _simulated() -> tuple[float, float]:
    """Return the simulated constant with its standard error."""
    mean, error = simulate_subset_constant(
        4, eta=0.02, rho=0.1, n=1200, d=60, subsets=3, matrices=MATRICES
    )
    return float(mean), float(error)


def constant(
    evidence: Evidence, items: Sequence[str], version: Version
) -> Iterator[Finding]:
    """Theorem 2's constant is that of simulations."""
    said = subset_constant(
        4, eta=0.02, rho=0.1, ratio=20.0, subsets=3, constant=version
    )
    mean, error = _simulated()
    ratio = float(said) / mean
    where = f"constant ratio, {version}"
    freedom, spread = MATRICES - 1, ratio * error / mean
    yield Finding(where, ratio, spread, freedom, MATRICES, AGREEMENT)


def scaling(
    evidence: Evidence, items: Sequence[str], version: Version
) -> Iterator[Finding]:
    """Theorem 1's lower bound grows with the square of all lengths."""
    ratio = _lower_bound(version, 2) / _lower_bound(version, 1) / 4
    yield Finding(f"bound scaling, {version}", ratio, 0.0, 1, 1, AGREEMENT)


def _lower_bound(version: Version, length: int) -> float:
    setting = Setting(
        rho0=0.01 * length,
        n=3000,
        d=150,
        sigma2=0.1 * length**2,
        theta_norm=length * math.sqrt(15),
    )
    said = theorem1(
        setting, 3, eta=0.01, rho=0.1, gap="paper" if version == "printed" else "haar"
    )
    return float(said.sharpness_lower)


SAID: dict[Version, tuple[str, str]] = {
    "printed": ("as printed", "{}"),
    "corrected": ("as corrected here", "our correction of {}, theory page"),
}
CLAIMS = tuple(
    Claim(
        name=f"sharpbalance/theorem{number}-{version}",
        text=text.format(how),
        source=source.format(f"Theorem {number}"),
        needs=(),
        judge=partial(judge, version=version),
        effect="ratio to what it must be",
    )
    for number, judge, text in (
        (1, scaling, "The lower bound of Theorem 1, {}, scales as sharpness does."),
        (
            2,
            constant,
            "The constant C of Theorem 2, {}, is what simulations give (to 1 %).",
        ),
    )
    for version, (how, source) in SAID.items()
)
