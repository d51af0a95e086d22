"""Gather results of ``tepui reproduce`` into the pages of the three papers.

Copies numbers, table and picture of every figure and table that a folder of results
holds to ``docs/results/<size>/<paper>/<item>/`` and writes ``docs/results/<paper>.md``
from what lies there. ``seen.txt`` beside the numbers says, by hand, what is seen; it is
never written.

Run from anywhere: python docs/make_results.py [FOLDER, such as results]
"""

import re
import sys
from pathlib import Path
from shutil import copyfile

from tepui.papers.recipe import PAPERS, Diagram, load, names
from tepui.studies.departures import departures
from tepui.studies.results import FILE, read_results

DOCS = Path(__file__).parent
COPIED = (FILE, "table.md", "figure.png")
SIZES = ("small", "medium", "paper")  # those with overrides lie beside them
LONGEST = 60  # rows of a table that a page shows


def main():
    if len(sys.argv) > 1:
        copy(Path(sys.argv[1]))
    for paper in PAPERS:
        (DOCS / "results" / f"{paper}.md").write_text(page(paper))


def page(paper):
    """Return the page of a paper, from the results beside it."""
    sections = [section(name) for name in names() if name.startswith(f"{paper}/")]
    about = f"{ABOUT}{NOTES.get(paper, '')}"
    return f"# {PAPERS[paper]}\n\n{about}\n" + "\n".join(sections)


def copy(results):
    for file in results.glob("*/*/*/results.json"):
        size, paper, item = file.parts[-4:-1]
        if size.split("+")[0] in SIZES and paper in PAPERS:
            target = DOCS / "results" / size / paper / item
            target.mkdir(parents=True, exist_ok=True)
            for name in COPIED:
                if (file.parent / name).exists():
                    copyfile(file.parent / name, target / name)


def section(name):
    """Return what a page says of a figure or table."""
    paper, item = name.split("/")
    recipe = load(name)
    words = re.sub(r"(figure|table)(?=\d)", r"\1 ", item).replace("_", " ")
    heading = f"## {words[0].upper()}{words[1:]}\n"
    if isinstance(recipe, Diagram):
        return f"{heading}\nA diagram: {recipe.title}.\n"
    made = [
        shown(folder)
        for size in SIZES
        for folder in sorted((DOCS / "results").glob(f"{size}*/{paper}/{item}*"))
        if re.fullmatch(rf"{item}[a-z]?", folder.name)
    ]
    parts = made or [f"Not made yet: `tepui reproduce {name}`.\n"]
    title = f"{recipe.title[0].upper()}{recipe.title[1:]}.\n"
    return "\n".join([heading, title, *parts])


def shown(folder):
    """Return what a page says of one folder of results."""
    found, parts = read_results(folder), []
    where = folder.relative_to(DOCS / "results")
    if found.size != "small":
        parts.append(f"### At {found.size} size: {folder.name}\n")
    if (folder / "seen.txt").exists():
        parts.append((folder / "seen.txt").read_text())
    if (folder / "figure.png").exists():
        parts.append(f"![{found.title}]({where}/figure.png)\n")
    lines = (folder / "table.md").read_text().splitlines()
    table = [line for line in lines if line.startswith("|")]
    if len(table) <= LONGEST:
        parts.append("\n".join(table) + "\n")
    else:
        link = f"[{len(table) - 2} numbers]({where}/table.md)"
        parts.append(f"{link}, the paper's beside ours.\n")
    if differs := departures(found.settings):
        parts.append("Differs from the paper:\n")
        parts.append("".join(f"- {departure}\n" for departure in differs))
    places = found.environment.get("trained_on", [found.environment])
    where_made = "; ".join(f"{at['hardware']}, torch {at['torch']}" for at in places)
    command = found.settings.get("command")
    by = found.settings.get("made_by")
    again = f" `{command}` trains anew, by today's recipe." if by and command else ""
    how = by or (f"`{command}`" if command else "")
    parts.append(f"Made{how and f' by {how}'} on {where_made}.{again}\n")
    return "\n".join(parts)


ABOUT = (
    "Made by `tepui reproduce` at the size `small`, unless the text says otherwise: "
    "stand-ins for the paper's data and networks, so that numbers show whether an "
    "effect is there, not how large the paper's is. [How recipes work](../studies.md); "
    "[what follows for the claims](../claims.md).\n"
)
NOTES = {
    "sharpbalance": "\n`sharpbalance` is the method as the paper describes it, "
    "`SharpBalance.paper()`, [not the default]"
    "(../cifar10_pilot.md#the-default-preset). At the size `small` the radius "
    "is 0.01 since [decision 006](../decisions/006_small_radii.md), where a figure or "
    "table has not radii of its own.\n"
}


if __name__ == "__main__":
    main()
