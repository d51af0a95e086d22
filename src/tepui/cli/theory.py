"""``tepui theory``: the theorems on random quadratics, checked by simulation."""

from typing import Literal

from tepui.cli.console import console, table
from tepui.cli.values import Whole

HEADINGS = ("quantity", "relation")
NUMBERS = (
    *("points", "largest deviation in SE", "at k", "eta", "rho"),
    *("theory", "simulated ± SE"),
)


def theory(
    task: Literal["check"],
    /,
    *,
    n: Whole = 3000,
    d: Whole = 150,
    subsets: Whole = 10,
    rho0: float = 0.01,
    sigma2: float = 0.1,
    matrices: Whole = 50,
    seed: Whole = 0,
) -> None:
    """Compare SharpBalance's theorems with simulations over a grid.

    Theory is corrected to order 1/d only, so d should be at least about 100.

    Such as:

        tepui theory check
        tepui theory check --n 3000 --d 150 --matrices 50
        tepui theory check --subsets 5 --rho0 0.05 --seed 1

    Args:
        task: check prints how far apart theory and simulation are.
        n: Rows of the random data.
        d: Columns of the random data, at least about 100.
        subsets: Blocks of rows, each member trained on one (Theorem 2).
        rho0: Radius within which sharpness is measured.
        sigma2: Variance of the initial weights; the teacher has the same length.
        matrices: Repetitions.
        seed: Seed of all random draws.
    """
    asked = dict(locals())
    from tepui.theory import agreement

    del asked["task"]
    terminal = console()
    with terminal.status(f"simulating {matrices} repetitions"):
        agreements = agreement(**asked)
    worst = [(each, int(each.deviation.argmax())) for each in agreements]
    rows = [
        (
            each.quantity,
            each.relation,
            str(len(each.k)),
            f"{each.deviation[at]:.2f}",
            *(f"{of[at]:.4g}" for of in (each.k, each.eta, each.rho, each.theory)),
            f"{each.simulated[at]:.5g} ± {each.error[at]:.2g}",
        )
        for each, at in worst
    ]
    title = f"{matrices} repetitions of {n} x {d}, stable regime"
    terminal.print(table(title, (*HEADINGS, *NUMBERS), rows, numbers=NUMBERS))
    largest = max(agreements, key=lambda entry: entry.deviation.max())
    terminal.print(
        f"largest deviation: {largest.deviation.max():.2f} standard errors "
        f"({largest.quantity}, {largest.relation})"
    )
