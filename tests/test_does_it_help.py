"""The page for those who must decide shows what the committed results say."""

import importlib
from pathlib import Path

import pytest
from scipy import stats

ROOT = Path(__file__).parents[1]
MINUS = chr(0x2212)


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.syspath_prepend(ROOT / "docs")
    return importlib.import_module("make_does_it_help")


def test_the_page_is_what_its_script_writes(script):
    page = (ROOT / "docs" / "does_it_help.md").read_text()
    for name, part in script.parts().items():
        assert f"<!-- {name} -->\n\n{part}\n<!-- end of {name} -->" in page


def test_cells_are_students_intervals_of_pairs(script):
    values = {"deep_ensemble": [70.0, 70.4, 69.9], "late_0.9": [70.3, 70.5, 70.4]}
    found = [
        {"arm": arm, "block": n, "corrupted": {"accuracy": value / 100}}
        for arm, several in values.items()
        for n, value in enumerate(several)
    ]
    arms = script.Arms(found, script.LABELS_003, range(3))
    cell = script._cell(arms, "late_0.9", script.SCORES["corrupted, %"])
    apart = [a - b for a, b in zip(*reversed(values.values()), strict=True)]
    low, high = stats.ttest_1samp(apart, 0).confidence_interval(0.95)
    assert cell == f"+{sum(apart) / 3:.2f} ({low:.2f} to {high:.2f})".replace(
        "-", MINUS
    )


def test_prices_are_those_of_the_rule(script):
    page = (ROOT / "docs" / "decisions" / "003_how_late.md").read_text()
    rule = page.partition("## Answer")[0]
    for arm, price in script.PRICES_003.items():
        label = {"deep_ensemble": "deep ensemble", "sam_0.85": "SAM, 0.85"}.get(
            arm, arm.removeprefix("late_")
        )
        (line,) = [
            line for line in rule.splitlines() if line.startswith(f"| {label} |")
        ]
        assert line.endswith(f"| {price:g} |")
