"""Gather results of ``tepui reproduce`` into the pages of the three papers.

Copies numbers, table and picture of every figure and table that a folder holds to
``docs/results/<paper>/<item>/`` and writes ``docs/results/<paper>.md`` from what lies
there. ``seen.md`` beside the numbers says, by hand, what is seen; it is never written.

Run from anywhere: python docs/make_results.py [FOLDER, such as results/small]
"""

import sys
from pathlib import Path
from shutil import copyfile

from tepui.experiments.results import FILE, read_results
from tepui.recipes.base import PAPERS, Diagram, load, names

DOCS = Path(__file__).parent
COPIED = (FILE, "table.md", "figure.png")
LONGEST = 60  # rows of a table that a page shows


def main():
    if len(sys.argv) > 1:
        copy(Path(sys.argv[1]))
    for paper, title in PAPERS.items():
        sections = [section(name) for name in names() if name.startswith(f"{paper}/")]
        text = f"# {title}\n\n{ABOUT}\n" + "\n".join(filter(None, sections))
        (DOCS / "results" / f"{paper}.md").write_text(text)


def copy(results):
    for name in names():
        if (results / name / FILE).exists():
            target = DOCS / "results" / name
            target.mkdir(parents=True, exist_ok=True)
            for file in COPIED:
                if (results / name / file).exists():
                    copyfile(results / name / file, target / file)


def section(name):
    """Return what a page says of a figure or table; nothing before it was made."""
    paper, item = name.split("/")
    folder = DOCS / "results" / name
    recipe = load(name)
    heading = f"## {item.replace('figure', 'Figure ').replace('table', 'Table ')}\n"
    if isinstance(recipe, Diagram):
        return f"{heading}\nA diagram: {recipe.title}.\n"
    if not (folder / FILE).exists():
        return f"{heading}\nNot made yet: `tepui reproduce {name}`.\n"
    found = read_results(folder)
    parts = [heading, f"{found.title[0].upper()}{found.title[1:]}.\n"]
    if (folder / "seen.md").exists():
        parts.append((folder / "seen.md").read_text())
    if (folder / "figure.png").exists():
        parts.append(f"![{found.title}]({paper}/{item}/figure.png)\n")
    lines = (folder / "table.md").read_text().splitlines()
    table = [line for line in lines if line.startswith("|")]
    if len(table) <= LONGEST:
        parts.append("\n".join(table) + "\n")
    else:
        shown = f"[{len(table) - 2} numbers]({paper}/{item}/table.md)"
        parts.append(f"{shown}, the paper's beside ours.\n")
    if differs := found.settings.get("differs"):
        parts.append(f"Differs from the paper: {differs}.\n")
    parts.append(
        f"`{found.environment['command']}`, {found.environment['hardware']}.\n"
    )
    return "\n".join(parts)


ABOUT = (
    "Made by `tepui reproduce` at the size `small`, unless the text says otherwise: "
    "stand-ins for the paper's data and networks, so that numbers show whether an "
    "effect is there, not how large the paper's is. [How recipes work](../studies.md); "
    "[what follows for the claims](../claims.md).\n"
)


if __name__ == "__main__":
    main()
