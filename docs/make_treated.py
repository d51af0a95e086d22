"""Print the tables of decision 013: how SAM flattens at size small, what follows.

PYTHONPATH=src python3 docs/make_treated.py [FOLDER]
"""

from collections.abc import Mapping
from pathlib import Path

from score_tables import folders_asked_for, row

from tepui.papers.claims.base import Finding
from tepui.papers.claims.evidence import Evidence, read_evidence
from tepui.papers.claims.judging import CLAIMS
from tepui.papers.claims.slopes import FLATTER, LARGEST_RADIUS
from tepui.studies import Results
from tepui.studies.results import read_results

COMMITTED = Path(__file__).parent / "results"
SWEEP = COMMITTED / "small+ensembles=10" / "sharpbalance" / "figure4"
STUDY = COMMITTED / "small+ensembles=24+rho=0.05"
ASKED = ("sharpbalance/gain-at-five", "sharpbalance/uncertainty-order")
RULES = {"": "sharpbalance", "-released": "sharpbalance_released"}
# What is compared, its factor and its digits.
SHOWN = {
    "deep_ensemble, ensemble_accuracy": ("accuracy over a deep ensemble's, %", 1, 2),
    "sam, ensemble_accuracy": ("accuracy over SAM's, %", 1, 2),
    "sam, ece": ("ECE below SAM's, %", 100, 2),
    "sam, nll": ("NLL below SAM's", 1, 3),
}


def changes(results: Results) -> dict[float, dict[str, float]]:
    """Return by which share each radius changes sharpness, by data set."""
    found = {
        (record.dataset, record.method, record.at["rho"]): record.value
        for record in results.records
        if record.metric == "sharpness" and record.value
    }
    changed: dict[float, dict[str, float]] = {}
    for (dataset, method, rho), value in sorted(found.items()):
        if method == "sam" and rho <= LARGEST_RADIUS:
            plain = found[dataset, "deep_ensemble", 0]
            changed.setdefault(rho, {})[dataset] = value / plain - 1
    return changed


def chosen(changed: Mapping[float, Mapping[str, float]]) -> float:
    """Return the smallest radius that flattens clearly on every data set."""
    return min(r for r, by in changed.items() if max(by.values()) <= -FLATTER)


def leads(evidence: Evidence, ending: str) -> dict[str, str]:
    """Return how far a rule is ahead with five members, by what is compared."""
    names = [f"{claim}{ending}" for claim in ASKED]
    asked = [claim for claim in CLAIMS if claim.name in names]
    five = {
        finding.where.partition(":")[0]: finding
        for claim in asked
        for finding in claim.judge(evidence, claim.needs)
        if finding.where.endswith("ensemble size 5")
    }
    return {
        told: _shown(five[f"{RULES[ending]} against {compared}"], factor, digits)
        for compared, (told, factor, digits) in SHOWN.items()
    }


def _shown(finding: Finding, factor: int, digits: int) -> str:
    low, high = (factor * end for end in finding.interval or ())
    effect = f"{factor * finding.effect:+.{digits}f}"
    return f"{effect} ({low:.{digits}f} to {high:.{digits}f})".replace("-", "−")


def main(folder: Path = STUDY) -> None:
    changed = changes(read_results(SWEEP))
    print(row("radius", *next(iter(changed.values()))))
    for rho, by in sorted(changed.items()):
        shown = (f"{100 * change:+.1f} %".replace("-", "−") for change in by.values())
        print(row(f"{rho:g}", *shown))
    print(f"the smallest by a tenth on all: {chosen(changed):g}")
    by_rule = [leads(read_evidence(folder), ending) for ending in RULES]
    print(row("with five members", "the paper's rule", "the released rule"))
    for told in by_rule[0]:
        print(row(told, *(found[told] for found in by_rule)))


if __name__ == "__main__":
    main(*folders_asked_for(STUDY))
