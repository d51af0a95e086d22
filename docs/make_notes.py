"""Write anew the notes and tables of results that ``tepui reproduce`` made.

For recipes that tell better what they did all along: their notes are written beside the
numbers, which stay as they are, with seeds and precision where results tell none, and
the table follows. Results that say what else filed them (``made_by``) have notes of
their own. ``docs/make_results.py`` writes the pages.

PYTHONPATH=src python3 docs/make_notes.py
"""

from dataclasses import replace
from pathlib import Path

from tepui.papers.recipe import Order, load
from tepui.papers.reproduce import table
from tepui.papers.writing import write_files
from tepui.studies.departures import DIFFERS
from tepui.studies.results import FILE, Results, read_results, write_results

RESULTS = Path(__file__).parent / "results"
LACKING = ("seeds", "precision")  # of what was trained then, so never replaced


def main() -> None:
    for file in sorted(RESULTS.glob(f"*/*/*/{FILE}")):
        found = read_results(file.parent)
        told = noted(found)
        if told != found:
            write_results(file.parent, told)
        content = {"table.md": table(told).encode()}
        write_files(file.parent, content, overwrite=True)


def noted(found: Results) -> Results:
    """Return results with the notes that their recipe has today, and what they lack."""
    settings = found.settings
    if "made_by" in settings:
        return found
    size, *_ = found.size.split("+")
    overrides = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in settings.get("overrides", {}).items()
    }
    order = Order(size, tuple(settings["panels"]), **overrides)
    today = load(found.item).described(order)
    lacking = {n: today[n] for n in LACKING if n in today and n not in settings}
    told = {**lacking, **settings, DIFFERS: today[DIFFERS]}
    return replace(found, settings=told)


if __name__ == "__main__":
    main()
