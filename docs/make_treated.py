"""Print the tables of decision 013: how SAM flattens at size small, what follows.

PYTHONPATH=src python3 docs/make_treated.py
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from score_tables import row

from tepui.core.storage import read_json
from tepui.papers.claims.base import quantile
from tepui.papers.claims.slopes import FLATTER, LARGEST_RADIUS
from tepui.studies import Results
from tepui.studies.results import read_results

HERE = Path(__file__).parent
SWEEP = HERE / "results" / "small+ensembles=10" / "sharpbalance" / "figure4"
STUDY = "small+ensembles=24+rho=0.05"
CLAIMS = ("sharpbalance/gain-at-five", "sharpbalance/uncertainty-order")
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


def leads(verdicts: list[dict[str, Any]], ending: str) -> dict[str, str]:
    """Return how far a rule is ahead with five members, by what is compared."""
    judged = [v for v in verdicts if v["size"] == STUDY]
    names = [f"{claim}{ending}" for claim in CLAIMS]
    findings = [f for v in judged if v["claim"] in names for f in v["findings"]]
    five = {
        f["where"].partition(":")[0]: f
        for f in findings
        if f["where"].endswith("ensemble size 5")
    }
    return {
        told: _shown(five[f"{RULES[ending]} against {compared}"], factor, digits)
        for compared, (told, factor, digits) in SHOWN.items()
    }


def _shown(finding: Mapping[str, Any], factor: int, digits: int) -> str:
    effect = factor * finding["effect"]
    reach = factor * finding["error"] * quantile(finding["freedom"])
    ends = f"{effect - reach:.{digits}f} to {effect + reach:.{digits}f}"
    return f"{effect:+.{digits}f} ({ends})".replace("-", "−")


def main() -> None:
    changed = changes(read_results(SWEEP))
    print(row("radius", *next(iter(changed.values()))))
    for rho, by in sorted(changed.items()):
        shown = (f"{100 * change:+.1f} %".replace("-", "−") for change in by.values())
        print(row(f"{rho:g}", *shown))
    print(f"the smallest by a tenth on all: {chosen(changed):g}")
    verdicts = read_json(HERE / "claims.json")["verdicts"]
    by_rule = [leads(verdicts, ending) for ending in RULES]
    print(row("with five members", "the paper's rule", "the released rule"))
    for told in by_rule[0]:
        print(row(told, *(found[told] for found in by_rule)))


if __name__ == "__main__":
    main()
