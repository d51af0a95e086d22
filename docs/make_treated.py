"""Print the table of decision 013: by how much SAM lowers sharpness at size small.

PYTHONPATH=src python3 docs/make_treated.py
"""

from pathlib import Path

from score_tables import row

from tepui.papers.claims.slopes import FLATTER, LARGEST_RADIUS
from tepui.studies import Results
from tepui.studies.results import read_results

HERE = Path(__file__).parent
SWEEP = HERE / "results" / "small+ensembles=10" / "sharpbalance" / "figure4"


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


def chosen(changed: dict[float, dict[str, float]]) -> float:
    """Return the smallest radius that flattens clearly on every data set."""
    return min(r for r, by in changed.items() if max(by.values()) <= -FLATTER)


def main() -> None:
    changed = changes(read_results(SWEEP))
    print(row("radius", *next(iter(changed.values()))))
    for rho, by in sorted(changed.items()):
        shown = (f"{100 * change:+.1f} %".replace("-", "−") for change in by.values())
        print(row(f"{rho:g}", *shown))
    print(f"the smallest by a tenth on all: {chosen(changed):g}")


if __name__ == "__main__":
    main()
