"""Decision 005: its five rules read the results once all blocks are there."""

import importlib
import math
from pathlib import Path
from statistics import fmean, stdev

import pytest
from scipy import stats

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
