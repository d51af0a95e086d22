"""README's tables say what the pages and measurements behind them say."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
MINUS = chr(0x2212)
MEASURED = json.loads((ROOT / "benchmarks/measured/other_sams.json").read_text())
# The rows of README's table of SAMs, and the tests that each sums up.
SUMMED_UP = {
    "a loop of one's own, a batch in two parts": (
        "a loop of one's own",
        "a batch in two parts",
    ),
    "Lightning, also in bf16-mixed": ("Lightning", "Lightning, bf16-mixed"),
    "DDP and FSDP2, two processes": ("DDP, two processes", "FSDP2, two processes"),
    "`step()` left to the loop, as Trainer and gradient scalers do": (
        "step() left to the loop, as scaler and Trainer do",
    ),
    "accumulation by Lightning or Accelerate, which cannot be right": (
        "Lightning, accumulate_grad_batches=2",
        "Accelerate, gradient_accumulation_steps=2",
    ),
    "BatchNorm's statistics of one pass": ("BatchNorm's statistics",),
    "goes on from its state dict": ("goes on from its state dict",),
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


def test_gains_are_those_of_the_page_for_those_who_decide():
    readme, page = README, (ROOT / "docs/does_it_help.md").read_text()
    heading = "| three members, 40 epochs, unless it says otherwise |"
    differences = readme.split(heading)[1].split("\n\n")[0].splitlines()[2:]
    scores = page.split("| | price in passes |")[1].split("\n\n")[0].splitlines()[2:]
    found, known = ([cells(line) for line in lines] for lines in (differences, scores))
    plain = known[0]
    assert found[0][1:] == plain[1:4]
    by_numbers = {line[1:]: line for line in map(tuple, found[1:])}
    assert len(by_numbers) == 5
    for line in known[1:]:
        gains = [
            ", ".join(
                f"{float(ours) - float(base):+.2f}".replace("-", MINUS)
                for ours, base in zip(*(n.split(", ") for n in both), strict=True)
            )
            for both in zip(line[2:4], plain[2:4], strict=True)
        ]
        assert (line[1], *gains) in by_numbers


def test_intervals_are_those_of_the_page():
    page = (ROOT / "docs/does_it_help.md").read_text()
    *found, loss = re.findall(r"\([^)]* to [^)]*\)", section("Which method for whom"))
    assert len(found) == 3
    assert [interval for interval in found if interval not in page] == []
    low, high = loss.strip("()").split(" to ")
    assert f"({MINUS}{high} to {MINUS}{low})" in page


@pytest.mark.parametrize(("row", "tests"), SUMMED_UP.items())
def test_marks_of_other_sams_are_the_measured_ones(row, tests):
    table = rows(section("SAM in anybody's loop"))
    names = [name.split()[0] for name in table[""]]
    for name, cell in zip(names, table[row], strict=True):
        found = [MEASURED["cells"][name][test]["right"] for test in tests]
        assert len(set(found)) == 1
        assert cell[0] == ("✓" if found[0] else "✗")


def test_versions_of_other_sams_are_the_measured_ones():
    for name in rows(section("SAM in anybody's loop"))[""][1:]:
        package, version = name.split()
        assert MEASURED["versions"][package] == version


def test_ten_lines_are_ten():
    code = section("Ten lines").split("```python\n")[1].split("```")[0]
    assert len(list(filter(None, code.splitlines()))) == 10


def test_pictures_are_there_for_light_and_dark():
    found = re.findall(r'(?:src|srcset)="([^"]*)"', README)
    assert found == ["docs/images/effect-dark.svg", "docs/images/effect.svg"]
    for name in found:
        assert (ROOT / name).read_text().startswith("<svg")
