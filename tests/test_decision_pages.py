"""Every row of a decision's tables is printed by the command beside it."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# The page, the script that reads its results, what that is given, and how many rows.
PAGES = [
    ("001_radius", "make_radius", (), 30),
    ("002_which_rule", "make_which_rule", (), 50),
    ("003_how_late", "make_how_late", (), 64),
    ("004_hundred_classes", "make_which_rule", ("004",), 50),
    ("005_random_scores", "make_random_scores", (), 40),
    ("006_small_radii", "make_small_radii", (), 5),
    ("007_headline", "make_headline", (), 21),
    ("008_averaging", "make_averaging", (), 30),
    ("012_radius_again", "make_radius_again", (), 52),
    ("013_treated", "make_treated", (), 4),
]


@pytest.fixture
def printed(monkeypatch, tmp_path, capsys):
    """Return what a script prints when it reads the committed results."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.syspath_prepend(ROOT / "docs")
    monkeypatch.setattr(importlib.import_module("score_tables"), "IMAGES", tmp_path)

    def lines(script, arguments):
        importlib.import_module(script).main(*arguments)
        return capsys.readouterr().out.splitlines()

    return lines


def cells_of(line):
    """Return what stands in a row, without empty cells and emphasis."""
    cells = line.replace("*", "").strip("| ").split("|")
    return [cell.strip() for cell in cells if cell.strip()]


def rows_of(page):
    """Return the rows of the tables below the answer, without their heads."""
    answer = page[page.index("## Answer") :]
    tables = re.findall(r"^\|.*\n\|[-:| ]+\|\n((?:\|.*\n)+)", answer, re.M)
    return [cells_of(line) for table in tables for line in table.splitlines()]


def holds(line, row):
    """Return whether a line has the cells of a row in their order."""
    there = iter(line)
    return all(cell in there for cell in row)


@pytest.mark.parametrize(
    ("name", "script", "arguments", "count"), PAGES, ids=[page[0] for page in PAGES]
)
def test_rows_of_the_page_are_printed(printed, name, script, arguments, count):
    page = (ROOT / "docs" / "decisions" / f"{name}.md").read_text("utf-8")
    lines = [cells_of(line) for line in printed(script, arguments) if line[:1] == "|"]
    rows = rows_of(page)
    assert len(rows) == count
    assert [row for row in rows if not any(holds(line, row) for line in lines)] == []


def test_the_table_of_the_pilot_is_printed(monkeypatch, capsys):
    monkeypatch.syspath_prepend(ROOT / "docs")
    script = importlib.import_module("make_pilot_picture")
    monkeypatch.setattr(script.plt.Figure, "savefig", lambda *_, **__: None)
    script.main()
    printed = capsys.readouterr().out.splitlines()
    page = (ROOT / "docs" / "cifar10_pilot.md").read_text("utf-8")
    assert len(printed) == 10
    assert [line for line in printed if line not in page] == []
