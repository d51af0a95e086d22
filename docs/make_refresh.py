"""Read the results of decision 009 by its rules: tables and picture.

PYTHONPATH=src:benchmarks python3 docs/make_refresh.py [FOLDER]

Before all blocks are complete it says how many are, and nothing else.
"""

from pathlib import Path
from statistics import fmean

from block_tables import Arms, overlap
from decision_designs import DESIGNS
from decision_runs import read
from score_tables import (
    DECISIONS,
    folders_asked_for,
    mean_and_error,
    picture_of,
    row,
    with_interval,
)

from tepui.studies.significance import holm

DESIGN = DESIGNS["009"]
RESULTS = DECISIONS / DESIGN.folder
DEFAULT, REFRESHED, EARLY = "released", "refreshed", "early_refreshed"
LABELS = {DEFAULT: "released", REFRESHED: "refreshed", EARLY: "early"}
ALIKE, WORTH, CLEAN_MARGIN = 0.3, 0.3, 0.2  # points, of rules 1, 2 and 1


def main(folder: Path = RESULTS) -> None:
    arms = Arms(read(folder), LABELS, DESIGN.blocks)
    if arms.all_there():
        print_leads(arms)
        print(f"\n2. The default: {default(arms)}")
        arms.print_blocks()
        arms.draw(picture_of(folder, f"decision_{DESIGN.folder}.png"))
        arms.end_page([(arm, DEFAULT) for arm in (REFRESHED, EARLY)])
        print_sets(arms)


def print_leads(arms: Arms) -> None:
    """Print by how much both arms lead the default, and what rule 1 says."""
    print("\n" + row("arm", "corrupted", "p, Holm", "clean", "is"))
    for arm, (p, says) in verdicts(arms).items():
        leads = [arms.difference(arm, DEFAULT, d) for d in ("corrupted", "clean")]
        shown = [with_interval(lead) for lead in leads]
        print(row(LABELS[arm], shown[0], f"{p:.4f}", shown[1], says))
    apart = arms.difference(EARLY, REFRESHED, "corrupted")
    print(f"\nearly less refreshed, corrupted: {with_interval(apart)}")


def print_sets(arms: Arms) -> None:
    """Print sizes and overlaps of the last sets, and what scoring took."""
    print("\n" + row("arm", "share of the data", "overlap", "time spent scoring, %"))
    for arm, label in LABELS.items():
        found = arms.ensembles(arm)
        sizes = [fmean(r["sets"]["sizes"]) / r["sets"]["samples"] for r in found]
        cells = [sizes, [overlap(r["sets"]["overlaps"]) for r in found]]
        scoring = [scoring_share(r) for r in found]
        shown = [mean_and_error(cell, 3) for cell in cells]
        print(row(label, *shown, mean_and_error(scoring, 1)))


def scoring_share(result: dict) -> float:
    """Return how much of a run's time scoring took, in percent."""
    scoring = result["exchange_seconds"]
    return 100 * scoring / (sum(result["epoch_seconds"]) + scoring)


def verdicts(arms: Arms) -> dict[str, tuple[float, str]]:
    """Return, for both arms, the corrected p and what rule 1 says."""
    leads = {a: arms.difference(a, DEFAULT, "corrupted") for a in (REFRESHED, EARLY)}
    corrected = holm([lead.p for lead in leads.values()])
    return {
        arm: (p, standing(arms, arm, p))
        for arm, p in zip(leads, corrected, strict=True)
    }


def standing(arms: Arms, arm: str, p: float) -> str:
    """Return what rule 1 says of an arm, given its corrected p."""
    lead, clean = (arms.difference(arm, DEFAULT, d) for d in ("corrupted", "clean"))
    if p <= 0.05 and lead.mean > 0 and clean.low > -CLEAN_MARGIN:
        return "helps"
    narrow = arms.difference(arm, DEFAULT, "corrupted", 0.9)
    alike = narrow.low > -ALIKE and narrow.high < ALIKE
    return "does not help" if alike or lead.high < 0 else "undecided"


def default(arms: Arms) -> str:
    """Return what rule 2 makes the default."""
    found = verdicts(arms)
    worth = [arm for arm in found if found[arm][1] == "helps" and _lead(arms, arm)]
    if EARLY in worth and arms.difference(EARLY, REFRESHED, "corrupted").low > 0:
        return "switch at a tenth of the run, scores every eighth of it"
    if REFRESHED in worth:
        return "scores every eighth of the run"
    return "as it is"


def _lead(arms: Arms, arm: str) -> bool:
    return arms.difference(arm, DEFAULT, "corrupted").mean >= WORTH


if __name__ == "__main__":
    main(*folders_asked_for(RESULTS))
