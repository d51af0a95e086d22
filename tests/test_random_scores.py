"""Decision 005: its five rules read the results once all blocks are there."""

import importlib
import math
from pathlib import Path
from statistics import fmean, stdev

import pytest
from scipy import stats

from pages import table_rows

ROOT = Path(__file__).parents[1]
BLOCKS = range(15, 27)
NOISE = [0.1, -0.2, 0.0, 0.15, -0.1, 0.05, -0.05, 0.2, -0.15, 0.1, -0.1, 0.0]


@pytest.fixture
def make(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.syspath_prepend(ROOT / "docs")
    return importlib.import_module("make_random_scores")


def result(arm, block, corrupted, clean):
    return {
        "arm": arm,
        "block": block,
        "corrupted": {"accuracy": corrupted / 100},
        "clean": {"accuracy": clean / 100},
    }


def arms(make, corrupted, clean=0.0, spread=1.0):
    """Twelve blocks in which *released* leads by so many points, with noise."""
    found = []
    for number, (block, noise) in enumerate(zip(BLOCKS, NOISE, strict=True)):
        base = 70 + 0.3 * (number % 5)
        apart = (corrupted + spread * noise, clean + noise / 2)
        found.append(result("random", block, base, 93))
        found.append(result("released", block, base + apart[0], 93 + apart[1]))
    return make.Arms(found, make.LABELS, make.DESIGN.blocks)


@pytest.mark.parametrize(
    ("rule", "case"),
    [
        (1, {"corrupted": 0.5}),
        (1, {"corrupted": 0.15, "clean": 0.35}),
        (2, {"corrupted": 0.02}),
        (3, {"corrupted": 0.15}),
        (4, {"corrupted": -0.5}),
        (4, {"corrupted": -0.15}),
        (5, {"corrupted": 0.1, "spread": 6.0}),
        (5, {"corrupted": 0.0, "clean": 0.35}),
    ],
)
def test_each_rule_is_reached(make, rule, case, capsys):
    found = arms(make, **case)
    assert make.rule_that_holds(found) == rule
    make.print_answer(found)
    assert capsys.readouterr().out.endswith(f"Rule {rule}: {make.ANSWERS[rule]}\n")


@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_intervals_are_students_of_pairs(make, confidence):
    found = make.lead(arms(make, 0.15), "corrupted", confidence)
    apart = [0.15 + noise for noise in NOISE]
    reach = stats.t.ppf((1 + confidence) / 2, 11) * stdev(apart) / math.sqrt(12)
    middle = fmean(apart)
    assert (found.low, found.high) == pytest.approx((middle - reach, middle + reach))


def test_before_all_blocks_are_there_only_their_number_is_said(
    make, monkeypatch, capsys
):
    most = [r for r in arms(make, 0.5).results if r["block"] < 26]
    half = [*most, result("random", 26, 70, 93)]
    monkeypatch.setattr(make, "read", lambda folder: half)
    make.main()
    said = capsys.readouterr().out
    assert said.strip() == "11 of 12 blocks are complete: no verdict"


def test_what_no_rule_reads_is_told_as_pairs(make, capsys):
    found = [
        {
            **result(arm, block, 70 + noise * (arm == "released"), 93),
            "copies": {"fog/1": 0.8, "fog/3": 0.7, "fog/5": 0.5 + lead / 100},
            "scaled": {"corrupted": {"nll": 1.0}},
        }
        for block, noise in zip(BLOCKS, NOISE, strict=True)
        for arm, lead in (("released", 1 + noise), ("random", 0.0))
    ]
    for each in found:
        each["corrupted"]["der"] = 0.6
    make.print_beside(make.Arms(found, make.LABELS, make.DESIGN.blocks))
    said = capsys.readouterr().out.splitlines()
    lead = [1 + noise for noise in NOISE]
    low, high = stats.ttest_1samp(lead, 0).confidence_interval(0.95)
    cell = f"{fmean(lead):.2f} ({low:.2f} to {high:.2f})"
    assert f"| corrupted, severity 5 | {cell} |" in said
    assert said[-1] == f"Standard deviation between blocks: {stdev(NOISE):.2f}"


def test_sets_are_told_by_their_size_and_what_pairs_share(make, capsys):
    shared = {
        "released": [[1.0, 0.5, 0.6], [0.5, 1.0, 0.7], [0.6, 0.7, 1.0]],
        "random": [[1.0, 0.4, 0.4], [0.4, 1.0, 0.4], [0.4, 0.4, 1.0]],
    }
    found = [
        {
            "arm": arm,
            "block": block,
            "sets": {"samples": 100, "sizes": [70, 80, size], "overlaps": overlaps},
        }
        for arm, overlaps in shared.items()
        for block, size in ((15, 90), (16, 60))
    ]
    make.print_sets(make.Arms(found, make.LABELS, (15, 16)))
    said = capsys.readouterr().out.splitlines()
    assert said[2:] == [
        "| released | 0.750 | 0.700 | 0.800 | 0.600 |",
        "| random | 0.750 | 0.700 | 0.800 | 0.400 |",
    ]


def test_the_page_shows_what_the_results_say(make, monkeypatch, capsys):
    monkeypatch.setattr(make.Arms, "draw", lambda self, file: None)
    make.main()
    printed = capsys.readouterr().out.splitlines()
    page = (ROOT / "docs" / "decisions" / "005_random_scores.md").read_text()
    answer = page[page.index("## Answer") :]
    rows = table_rows(answer)
    assert len(rows) == 40
    assert [row for row in rows if not is_printed(row, printed)] == []
    assert "was 0.26 points" in answer
    assert "Standard deviation between blocks: 0.26" in printed


def is_printed(row, printed):
    """Tell whether a row of the page, which may have half of the blocks, is printed."""
    label, _, cells = row.partition(" | ")
    return any(line.startswith(f"{label} |") and cells in line for line in printed)
