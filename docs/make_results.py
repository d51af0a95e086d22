"""Write the pages of results and claims of the three papers, for the site only.

``research/papers.jsonl`` has a sealed line for each figure or table, as ``tepui
reproduce`` wrote it. ``seen`` in its settings says, by hand, what is seen. Given a
folder of results, their lines are replaced. The pages in ``docs/results`` are not
committed: ``make docs`` makes them.

Run from anywhere: python docs/make_results.py [FOLDER, such as results]
"""

import json
import re
import sys
from pathlib import Path

from tepui.core.storage import read_lines, sealed_line
from tepui.papers.claims.evidence import read_evidence
from tepui.papers.claims.judging import verdicts
from tepui.papers.claims.tables import markdown, rounded
from tepui.papers.recipe import PAPERS, Diagram, load, names
from tepui.papers.reproduce import table
from tepui.studies.results import FILE, KIND, results_of

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "research" / "papers.jsonl"
SIZES = ("small", "medium", "paper")  # those with overrides beside them
LONGEST = 60  # rows of a table that a page shows


def main():
    if len(sys.argv) > 1:
        gather(Path(sys.argv[1]))
    folder = DOCS / "results"
    folder.mkdir(exist_ok=True)
    for name, text in pages().items():
        (folder / f"{name}.md").write_text(text)


def pages():
    """Return all pages, by name."""
    found = {paper: page(paper) for paper in PAPERS}
    judged = markdown(verdicts(read_evidence(RESULTS)))
    return found | {"claims": f"{NO_SEARCH}{CLAIMS}\n{judged}"}


def gather(folder):
    """Replace the lines of those results that a folder holds."""
    lines = {named(line): line for line in read_lines(RESULTS, KIND)}
    for file in folder.glob(f"*/*/*/{FILE}"):
        line = rounded(json.loads(file.read_text()))
        seal = ("kind", "format", "sha256")
        line = {name: value for name, value in line.items() if name not in seal}
        if seen := lines.get(named(line), {}).get("settings", {}).get("seen"):
            line["settings"]["seen"] = seen
        if line["size"].split("+")[0] in SIZES and "/" in line["item"]:
            lines[named(line)] = line
    text = "\n".join(sealed_line(KIND, lines[name]).strip() for name in sorted(lines))
    RESULTS.write_text(text + "\n")


def named(line):
    panels = {record["item"] for record in line["records"]}
    return line["size"], line["item"], len(panels) == 1 and panels.pop()


def page(paper):
    """Return the page of a paper, from the results beside it."""
    found = [results_of(line) for line in read_lines(RESULTS, KIND)]
    sections = [section(name, found) for name in names() if name.startswith(paper)]
    about = f"{ABOUT}{NOTES.get(paper, '')}"
    return f"{NO_SEARCH}# {PAPERS[paper]}\n\n{about}\n" + "\n".join(sections)


def section(name, found):
    """Return what a page says of a figure or table."""
    recipe = load(name)
    words = re.sub(r"(figure|table)(?=\d)", r"\1 ", name.split("/")[1])
    heading = f"## {words[0].upper()}{words[1:]}\n"
    if isinstance(recipe, Diagram):
        return f"{heading}\nA diagram: {recipe.title}.\n"
    made = [
        shown(results)
        for size in SIZES
        for results in sorted(found, key=lambda each: each.size)
        if results.item == name and results.size.split("+")[0] == size
    ]
    parts = made or [f"`tepui reproduce {name}` makes it in seconds.\n"]
    title = f"{recipe.title[0].upper()}{recipe.title[1:]}.\n"
    return "\n".join([heading, title, *parts])


def shown(found):
    """Return what a page says of one line of results."""
    parts = []
    if found.size != "small":
        parts.append(f"### At {found.size} size: {found.name.split('/')[1]}\n")
    if seen := found.settings.get("seen"):
        parts.append(f"{seen}\n")
    rows = [line for line in table(found).splitlines() if line.startswith("|")]
    count = f"{len(found.records)} numbers.\n"
    parts.append("\n".join(rows) + "\n" if len(rows) <= LONGEST else count)
    places = found.environment.get("trained_on", [found.environment])
    where_made = "; ".join(f"{at['hardware']}, torch {at['torch']}" for at in places)
    by = found.settings.get("made_by")
    parts.append(f"Made{(by and f' by {by}') or ''} on {where_made}.\n")
    return "\n".join(parts)


NO_SEARCH = "---\nsearch: {exclude: true}\n---\n\n"
ABOUT = (
    "Made by `tepui reproduce` at the size `small`, unless the text says otherwise: "
    "stand-ins for the paper's data and networks, so that numbers show whether an "
    "effect is there, not how large the paper's is. `tepui reproduce ITEM` draws the "
    "figures and lists what differs from the paper. [How recipes "
    "work](../papers.md); [what follows for the claims](claims.md).\n"
)
NOTES = {
    "sharpbalance": "\n`sharpbalance` is the method as the paper describes it, "
    "`SharpBalance.paper()`, [not the default]"
    "(../sharpbalance.md#paper-and-released-code). At the size `small` the radius is "
    "0.01, except in figures and tables with their own radii.\n"
}
CLAIMS = (
    "# Claims of the papers\n\nAll verdicts, size by size. [How to read "
    "them](../papers.md#claims). `tepui claims --from research/papers.jsonl --out "
    "FOLDER` writes every comparison and reason as JSON.\n"
)


if __name__ == "__main__":
    main()
