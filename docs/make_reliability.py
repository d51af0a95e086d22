"""Write the tables of reliability.md from reliability.json and soak.csv beside it.

PYTHONPATH=src:tests python3 docs/make_reliability.py
"""

import csv
from collections import Counter
from pathlib import Path

import matplotlib as mpl
from make_claims import filled

from damage_cases import CASES
from faults.suites import SUITES
from faults.totals import WRONG, Totals, read_totals
from tepui.core.replacing import write_bytes

mpl.use("Agg")
import matplotlib.pyplot as plt

DOCS = Path(__file__).parent

SETTLED = 20  # cycles after which nothing may grow
GOALS = {
    "kills": 1000,
    "files": 10_000,
    "resumes": 1000,
    "calls": 10_000,
    "naming": 2000,
}
IN_DETAIL = ("kills", "disk", "resumes")


def main() -> None:
    page = DOCS / "reliability.md"
    totals = read_totals(DOCS / "reliability.json")
    cycles = read_cycles(DOCS / "soak.csv")
    text = page.read_text()
    for name, part in parts(totals, cycles).items():
        text = filled(text, name, part)
    write_bytes(page, text.encode())
    draw(cycles, DOCS / "images" / "soak.png")


def parts(totals: dict[str, Totals], cycles: list[dict[str, float]]) -> dict[str, str]:
    """Return the parts of the page that are written from numbers, by name."""
    return {
        "totals": suites_table(totals),
        "effect": effect(totals.get("kills", Totals())),
        "details": "\n\n".join(details(name, totals) for name in IN_DETAIL),
        "formats": ", ".join(name for name, case in CASES.items() if not case.sealed)
        + ".",
        "soak": soak_words(cycles),
    }


def suites_table(totals: dict[str, Totals]) -> str:
    rows = ["| suite | tried | aim | outcomes | days | with |"]
    rows.append("|---|--:|--:|---|---|---|")
    for name, suite in SUITES.items():
        found = totals.get(name, Totals())
        ends = "; ".join(
            f"{n:,} {end}" for end, n in sorted(found.by_outcome().items())
        )
        days = sorted(found.days)
        shown = " to ".join(dict.fromkeys([days[0], days[-1]])) if days else "–"
        goal = f"{GOALS[name]:,}" if name in GOALS else "–"
        tried, versions = f"{len(found.seeds):,}", "; ".join(sorted(found.versions))
        cells = [suite.about, tried, goal, ends or "–", shown, versions or "–"]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def effect(kills: Totals) -> str:
    """Return how many kills came in time, in words."""
    found = Counter[str]()
    for group, ends in kills.by_group().items():
        found[group.partition(", ")[2]] += ends.total()
    late = found.pop("ended before", 0)
    return (
        f"Of {found.total() + late:,} kills {found.total():,} came before the end of "
        f"what they were to kill, {found['SIGKILL']:,} of them SIGKILL; the other "
        f'{late:,} ("ended before") count in no aim.\n'
    )


def details(name: str, totals: dict[str, Totals]) -> str:
    """Return the counts of a suite by what was disturbed, and by what."""
    groups = totals.get(name, Totals()).by_group()
    work = [*dict.fromkeys(group.partition(", ")[0] for group in groups)]
    kinds = sorted({group.partition(", ")[2] for group in groups})
    rows = [f"| {SUITES[name].about} | {' | '.join(kinds)} |"]
    rows.append(f"|---|{'--:|' * len(kinds)}")
    for each in work:
        cells = [groups.get(f"{each}, {kind}", {}) for kind in kinds]
        rows.append(f"| {each} | {' | '.join(map(_cell, cells))} |")
    return "\n".join(rows) + "\n"


def _cell(counts: dict[str, int]) -> str:
    wrong = counts.get(WRONG, 0)
    total = sum(counts.values())
    return f"{total} ({wrong} {WRONG})" if wrong else str(total or "–")


def read_cycles(file: Path) -> list[dict[str, float]]:
    with file.open() as stream:
        return [{k: float(v) for k, v in row.items()} for row in csv.DictReader(stream)]


def soak_words(cycles: list[dict[str, float]]) -> str:
    """Return what the curve shows, in words."""
    settled = cycles[SETTLED:]
    half = len(settled) // 2
    means = [
        sum(row["resident_mib"] for row in part) / max(1, len(part))
        for part in (settled[:half], settled[half:])
    ]
    files = sorted({int(row["open_files"]) for row in settled})
    threads = sorted({int(row["threads"]) for row in settled})
    return (
        f"{len(cycles)} cycles. After the first {SETTLED}: open files "
        f"{_span(files)}, threads {_span(threads)}, memory "
        f"{min(row['resident_mib'] for row in settled):.0f} to "
        f"{max(row['resident_mib'] for row in settled):.0f} MiB, on average "
        f"{means[0]:.1f} MiB in the first half of them and {means[1]:.1f} MiB in the "
        "second.\n"
    )


def _span(values: list[int]) -> str:
    return " to ".join(map(str, dict.fromkeys([values[0], values[-1]])))


def draw(cycles: list[dict[str, float]], file: Path) -> None:
    """Draw memory, open files and threads over the cycles."""
    names = {
        "resident_mib": "memory (MiB)",
        "open_files": "open files",
        "threads": "threads",
    }
    canvas, panels = plt.subplots(
        3, 1, sharex=True, figsize=(6.4, 5), layout="constrained"
    )
    for axes, (name, label) in zip(panels, names.items(), strict=True):
        values = [row[name] for row in cycles]
        axes.plot([row["cycle"] for row in cycles], values, color="#0072B2", lw=1)
        axes.set(ylabel=label, ylim=(0, 1.15 * max(values)))
        axes.axvline(SETTLED, color="gray", lw=0.8, ls=":")
        axes.grid(alpha=0.3)
    panels[-1].set_xlabel("cycle: train, interrupt, resume, evaluate, report")
    canvas.savefig(file, dpi=110, metadata={"Software": None})
    plt.close(canvas)


if __name__ == "__main__":
    main()
