"""README's tables say what the pages and measurements behind them say."""

import importlib
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
MINUS = chr(0x2212)
SHOWN = "A", "C", "sure and wrong"
INTERVAL = r"\([^)]* to [^)]*\)"
MEASURED = json.loads((ROOT / "benchmarks/measured/other_sams.json").read_text())
# The rows of README's table of SAMs, and the tests that each sums up.
SUMMED_UP = {
    "Lightning, also in bf16-mixed": ("Lightning", "Lightning, bf16-mixed"),
    "`step()` left to the loop, as in Trainer and gradient scalers": (
        "step() left to the loop, as scaler and Trainer do",
    ),
    "accumulation by Lightning or Accelerate, which cannot be right": (
        "Lightning, accumulate_grad_batches=2",
        "Accelerate, gradient_accumulation_steps=2",
    ),
    "resumes from its state dict": ("goes on from its state dict",),
}


def section(title):
    """Return what stands below a heading."""
    return README.split(f"\n## {title}\n")[1].split("\n## ")[0]


def cells(line):
    """Return the cells of a line of a table."""
    return [cell.strip() for cell in line.strip("|").split("|")]


def rows(text):
    """Return the cells of a table, by the first of each row."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return {first: rest for first, *rest in map(cells, lines)}


@pytest.fixture
def study(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "research")
    return importlib.import_module("recompute")


def test_the_same_money_buys_what_the_records_say(study):
    page = (ROOT / "docs/does_it_help.md").read_text()
    assert "\n".join(study.tables()) in (ROOT / "research/equal_price.md").read_text()
    text, found = section("Which method for whom"), study.read()
    table = page[page.index("| n = 12 |") :].split("\n\n")[0]
    arms = ("plain", "epochs", "five members", "SharpBalance")
    for arm, line in zip(arms, table.splitlines()[2:], strict=True):
        clean, corrupted, sure = (found[arm][n].mean() for n in SHOWN)
        assert cells(line)[2:] == [f"{clean:.2f}", f"{corrupted:.2f}", f"{sure:.1f}"]
    apart = [(found[a][n], found[b][n]) for a, b in study.PAIRS for n in "AC"]
    ends = (study.paired(*both)[1:3] for both in apart)
    known = {"({:.2f} to {:.2f})".format(*e).replace("-", MINUS) for e in ends}
    below = re.findall(INTERVAL, page.split("| n = 12")[1].split("\n\n")[1])
    assert len(below) == 8
    assert {*re.findall(INTERVAL, text), *below} <= known


def test_decisions_gained_what_their_records_say(study):
    tables = importlib.import_module("decisions").tables()
    page = (ROOT / "docs/does_it_help.md").read_text()
    assert len(tables) == 2
    assert all(f"\n\n{table}\n\n" in page for table in tables)


@pytest.mark.parametrize(("row", "tests"), SUMMED_UP.items())
def test_marks_of_other_sams_are_the_measured_ones(row, tests):
    table = rows(section("SAM in any loop"))
    for name, cell in zip(table[""], table[row], strict=True):
        found = [MEASURED["cells"][name][test]["right"] for test in tests]
        assert len(set(found)) == 1
        assert cell[0] == ("✓" if found[0] else "✗")


def test_ten_lines_are_ten():
    code = section("Ten lines").split("```python\n")[1].split("```")[0]
    assert len(list(filter(None, code.splitlines()))) == 10


def test_pictures_are_there_for_light_and_dark():
    found = re.findall(r'(?:src|srcset)="([^"]*)"', README)
    assert found == ["docs/images/price-dark.svg", "docs/images/price.svg"]
    for name in found:
        assert (ROOT / name).read_text().startswith("<svg")
