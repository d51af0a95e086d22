"""Read the results of decision 012 by its rules: tables and pictures.

PYTHONPATH=src:benchmarks python3 docs/make_radius_again.py [FOLDER FOLDER]

The folders of a rerun are that of CIFAR-10 and that of CIFAR-100; arms that 012 did not
train are the committed ones of the decisions beside it. Before all ensembles of a data
set are there it says how many blocks are complete.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from block_tables import Arms
from decision_designs import DESIGNS
from decision_runs import read
from score_tables import (
    DECISIONS,
    folders_asked_for,
    picture_of,
    row,
    with_interval,
)

from tepui.studies.significance import Difference, holm, paired_difference

LABELS = {
    "deep_ensemble": "deep ensemble",
    "sam_rho_0.02": "SAM, 0.02",
    "sam": "SAM, 0.05",
    "late_rho_0.02": "SharpBalance, 0.02",
    "late": "SharpBalance, 0.05",
    "late_rho_0.1": "SharpBalance, 0.1",
}
METHODS = {"SAM": ("sam_rho_0.02",), "SharpBalance": ("late_rho_0.02", "late_rho_0.1")}
COMPARED_WITH = {"SAM": "sam", "SharpBalance": "late"}
DATA = {"012": "CIFAR-10", "012_hundred": "CIFAR-100"}
RESULTS = {decision: DECISIONS / DESIGNS[decision].folder for decision in DATA}
BESIDE = {
    decision: DECISIONS / DESIGNS[str(DESIGNS[decision].beside)].folder
    for decision in DATA
}
LEADS, TRAILS, FREE, OPEN = "leads", "trails", "costs nothing", "open"
MARGIN = 0.3  # points of balanced accuracy


@dataclass(frozen=True)
class Finding:
    """What the blocks say of a radius next to 0.05.

    Attributes:
        difference: Of balanced accuracy, with its 95 % interval.
        low: Lower end of the 90 % interval.
        p: Corrected over the radii of its method.
    """

    difference: Difference
    low: float
    p: float

    @property
    def says(self) -> str:
        """What rule 1 says."""
        if self.p <= 0.05:
            return LEADS if self.difference.mean > 0 else TRAILS
        return FREE if self.low > -MARGIN else OPEN


Findings = Mapping[str, Finding]  # by arm


def main(*folders: Path) -> None:
    found: dict[str, Findings] = {}
    by_decision = dict(zip(DATA, folders or RESULTS.values(), strict=True))
    for decision, folder in by_decision.items():
        print(f"\n{DATA[decision]}")
        arms = arms_of(decision, folder)
        if arms.all_there():
            found[decision] = findings(arms)
            print_rule(arms, found[decision])
            picture = f"decision_{DESIGNS[decision].folder}.png"
            arms.begin_page(picture_of(folder, picture))
            arms.end_page([(arm, other) for arm, other in pairs()])
    if len(found) == len(DATA):
        ten, hundred = found.values()
        for method, arms_asked in METHODS.items():
            of_ten, of_hundred = ({a: f[a] for a in arms_asked} for f in (ten, hundred))
            print(f"{method}, 0.05: {standing(of_ten, of_hundred)}")
        for arm, wins in candidates(ten, hundred).items():
            print(f"{LABELS[arm]} is tried in short runs: {wins}")
        print(f"SAM with 0.02 in longer runs: {longer_runs(ten, hundred)}")


def arms_of(decision: str, folder: Path) -> Arms:
    """Return the ensembles of a data set, with those of the decision beside them."""
    several = [*read(BESIDE[decision]), *read(folder)]
    asked = [one for one in several if one["arm"] in LABELS]
    return Arms(asked, LABELS, DESIGNS[decision].blocks)


def pairs() -> list[tuple[str, str]]:
    """Return every arm of a new radius, with that of 0.05."""
    return [
        (arm, COMPARED_WITH[m]) for m, several in METHODS.items() for arm in several
    ]


def balanced(arms: Arms, arm: str) -> list[float]:
    """Return half an arm's accuracy on clean and half that on corrupted images."""
    both = zip(*(arms.accuracies(arm, d) for d in ("clean", "corrupted")), strict=True)
    return [(clean + corrupted) / 2 for clean, corrupted in both]


def less(arms: Arms, arm: str, other: str, confidence: float = 0.95) -> Difference:
    """Return an arm's balanced accuracy less another's."""
    return paired_difference(balanced(arms, arm), balanced(arms, other), confidence)


def findings(arms: Arms) -> Findings:
    """Return what rule 1 reads of each radius next to 0.05."""
    found = {}
    for method, several in METHODS.items():
        other = COMPARED_WITH[method]
        apart = [less(arms, arm, other) for arm in several]
        for arm, one, p in zip(several, apart, holm([d.p for d in apart]), strict=True):
            found[arm] = Finding(one, less(arms, arm, other, 0.9).low, p)
    return found


def print_rule(arms: Arms, found: Findings) -> None:
    """Print balanced accuracies and accuracies less 0.05 and less the deep ensemble."""
    print("\n" + row("less 0.05", "balanced", "90 %, from", "p, Holm", "is", "C", "A"))
    for arm, other in pairs():
        one = found[arm]
        low = f"{one.low:.2f}".replace("-", "−")
        cells = [with_interval(one.difference), low, f"{one.p:.4f}", one.says]
        print(row(LABELS[arm], *cells, *accuracy_cells(arms, arm, other)))
    print("\n" + row("less the deep ensemble", "balanced", "C", "A"))
    for arm in list(LABELS)[1:]:
        cells = [with_interval(less(arms, arm, "deep_ensemble"))]
        print(row(LABELS[arm], *cells, *accuracy_cells(arms, arm, "deep_ensemble")))


def accuracy_cells(arms: Arms, arm: str, other: str) -> list[str]:
    """Return how an arm differs from another on corrupted and on clean images."""
    several = (arms.difference(arm, other, data) for data in ("corrupted", "clean"))
    return [with_interval(one) for one in several]


def standing(ten: Findings, hundred: Findings) -> str:
    """Return what rule 4 says of 0.05, from the findings of a method."""
    on_ten = [one.says for one in ten.values()]
    on_hundred = [one.says for one in hundred.values()]
    if LEADS in on_ten:
        return "overturned"
    if LEADS not in on_hundred and TRAILS in on_ten:
        return "confirmed"
    return "one of several that cannot be told apart"


def candidates(ten: Findings, hundred: Findings) -> dict[str, bool]:
    """Return whether rule 2 asks for SharpBalance's other radii in short runs."""
    return {
        arm: ten[arm].says == LEADS and hundred[arm].says != TRAILS
        for arm in METHODS["SharpBalance"]
    }


def longer_runs(ten: Findings, hundred: Findings) -> str:
    """Return what rule 3 says of SAM with 0.02."""
    says = {found["sam_rho_0.02"].says for found in (ten, hundred)}
    if TRAILS in says:
        return "0.05 is named"
    return FREE if says <= {FREE, LEADS} else OPEN


if __name__ == "__main__":
    main(*folders_asked_for(*RESULTS.values(), beside=list(BESIDE.values())))
