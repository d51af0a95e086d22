"""Claims about the theorems of the SharpBalance paper, as printed and as corrected."""

import math
from functools import cache, partial
from typing import Any, Literal

from tepui.papers.claims.base import Claim
from tepui.papers.claims.comparisons import Region, levels
from tepui.studies import Record
from tepui.theory import Setting, simulate_subset_constant, subset_constant, theorem1
from tepui.theory.theorems import Gap

# Further from a simulation than this is another number.
AGREEMENT: Region = (0.99, 1.01)


@cache
def theorem_numbers() -> tuple[Record, ...]:
    """Return constants of both theorems, as printed and as corrected.

    Theorem 2's constant is divided by its mean over 100 simulated matrices of
    1200 x 60. Theorem 1's lower bound is computed for all lengths doubled and divided
    by four: sharpness, a rise of a quadratic, must come out as it was.
    """
    simulated, error = simulate_subset_constant(
        4, eta=0.02, rho=0.1, n=1200, d=60, subsets=3, matrices=100
    )
    numbers = []
    for name in ("printed", "corrected"):
        ratio = _constant(name) / float(simulated)
        scaling = _lower_bound(name, 2) / _lower_bound(name, 1) / 4
        sem = ratio * float(error) / float(simulated)
        numbers += [
            _number("theorem2", name, "constant_ratio", ratio, n=100, sem=sem),
            _number("theorem1", name, "bound_scaling", scaling, n=1, sem=0.0),
        ]
    return tuple(numbers)


def _constant(name: Literal["printed", "corrected"]) -> float:
    chosen = subset_constant(4, eta=0.02, rho=0.1, ratio=20.0, subsets=3, constant=name)
    return float(chosen)


def _lower_bound(name: Literal["printed", "corrected"], length: int) -> float:
    setting = Setting(
        rho0=0.01 * length,
        n=3000,
        d=150,
        sigma2=0.1 * length**2,
        theta_norm=length * math.sqrt(15),
    )
    gap: Gap = "paper" if name == "printed" else "haar"
    return float(theorem1(setting, 3, eta=0.01, rho=0.1, gap=gap).sharpness_lower)


def _number(item: str, method: str, metric: str, value: float, **rest: Any) -> Record:
    return Record(
        item=f"sharpbalance/{item}",
        dataset="random_quadratics",
        architecture="linear",
        method=method,
        metric=metric,
        value=value,
        unit="ratio",
        **rest,
    )


def _theory(name: str, text: str, source: str) -> Claim:
    item, method = name.split("-")
    metric = {"theorem1": "bound_scaling", "theorem2": "constant_ratio"}[item]
    return Claim(
        name=f"sharpbalance/{name}",
        text=text,
        source=source,
        needs=(f"sharpbalance/{item}",),
        judge=partial(levels, metric=metric, region=AGREEMENT, method=method),
        effect="ratio to what it must be",
        unit="matrices",
        computed=theorem_numbers,
    )


CLAIMS = (
    _theory(
        "theorem1-printed",
        "The lower bound of Theorem 1, as printed, scales as sharpness does.",
        "Theorem 1",
    ),
    _theory(
        "theorem1-corrected",
        "The lower bound of Theorem 1, as corrected here, scales as sharpness does.",
        "our correction, theory page",
    ),
    _theory(
        "theorem2-printed",
        "The constant C of Theorem 2, as printed, is what simulations give (to 1 %).",
        "Theorem 2",
    ),
    _theory(
        "theorem2-corrected",
        "The constant C of Theorem 2, as corrected here, is what simulations give.",
        "our correction, theory page",
    ),
)
