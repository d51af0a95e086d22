"""The page for those who must decide shows what the committed results say."""

import importlib
import json
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
    expected = f"+{sum(apart) / 3:.2f} ({low:.2f} to {high:.2f})"
    assert cell == expected.replace("-", MINUS)


def test_the_gain_of_the_default_is_that_of_three_decisions_files(script):
    folder = ROOT / "docs" / "results" / "decisions"
    arms = {
        "002_which_rule": "late",
        "003_how_late": "late_0.5",
        "008_averaging": "late",
    }

    def gains(data):
        return [
            100 * (score(file, data) - score(plain, data))
            for study, arm in arms.items()
            for file in (folder / study).glob(f"*_block*_{arm}.json")
            for plain in [file.with_name(file.name.replace(arm, "deep_ensemble"))]
        ]

    def score(file, data):
        return json.loads(file.read_text())[data]["accuracy"]

    (found,) = script.parts()["pooled"].splitlines()[2:]
    shown = []
    for data in ("clean", "corrupted"):
        values = gains(data)
        assert len(values) == 15
        low, high = stats.ttest_1samp(values, 0).confidence_interval(0.95)
        shown.append(f"{sum(values) / 15:+.2f} ({low:.2f} to {high:.2f})")
    cells = " | ".join(shown).replace("-", MINUS)
    assert found.endswith(f"| 1.5 | 1.68 (1.61 to 1.75) | {cells} |")
