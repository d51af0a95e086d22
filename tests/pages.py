"""README and the documents: their blocks and the commands that they show."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MADE = ROOT / "docs/results"  # pages that `make docs` makes
WRITTEN = [page for page in (ROOT / "docs").rglob("*.md") if MADE not in page.parents]
PAGES = [ROOT / "README.md", *sorted(WRITTEN)]
SHELLS = ("", "sh")
_NUMBER = r"\d+(?:\.\d+)?"
_BLOCK = re.compile(r"^ *```([^\n`]*)\n(.*?)^ *```$", re.S | re.M)


def name_of(page):
    """Return a page's path in the repository."""
    return str(page.relative_to(ROOT))


def blocks(page):
    """Return the language and the text of every block of a page."""
    return _BLOCK.findall(page.read_text())


def commands(page):
    """Return the commands of a page in their order, each on one line, uncommented."""
    text = "".join(text for language, text in blocks(page) if language in SHELLS)
    lines = re.sub(r" *\\\n *", " ", text).splitlines()
    return [re.sub(r"\s+# .*", "", line) for line in lines]


def check_shown(printed, shown):
    """Check that the words are the same and the numbers close.

    Bits depend on the processor and the number of threads.
    """
    assert re.sub(_NUMBER, "#", printed) == re.sub(_NUMBER, "#", shown)
    found, expected = (re.findall(_NUMBER, text) for text in (printed, shown))
    assert [*map(float, found)] == pytest.approx([*map(float, expected)], rel=0.1)
