"""Decision 003: its arms branch where they differ; its rules read the results."""

import importlib
from pathlib import Path

import pytest
from scipy import stats

from tepui.studies.significance import paired_difference

ROOT = Path(__file__).parents[1]
CORRUPTED = {
    "deep_ensemble": [70.0, 70.4, 69.9, 70.2, 70.1],
    "late_0.25": [69.0, 69.4, 68.9, 69.2, 69.1],
    "late_0.5": [70.5, 71.0, 70.5, 70.6, 70.7],
    "late_0.7": [70.4, 70.9, 70.2, 70.6, 70.6],
    "late_0.85": [70.9, 69.9, 70.6, 69.8, 70.2],
    "late_0.9": [70.2, 70.5, 70.1, 70.3, 70.4],
    "sam_0.85": [70.8, 69.9, 70.5, 69.9, 70.2],
}


@pytest.fixture
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.syspath_prepend(ROOT / "docs")
    return {n: importlib.import_module(n) for n in ("how_late", "make_how_late")}


@pytest.fixture
def arms(scripts):
    make = scripts["make_how_late"]
    found = [
        {
            "arm": arm,
            "block": 7 + n,
            "clean": {"accuracy": (93 - (arm == "late_0.7") * (n % 2)) / 100},
            "corrupted": {"accuracy": value / 100},
        }
        for arm, values in CORRUPTED.items()
        for n, value in enumerate(values)
    ]
    return make.Arms(found, make.LABELS, make.BLOCKS)


def test_a_lead_is_students_interval_of_pairs(arms):
    pairs = zip(CORRUPTED["late_0.7"], CORRUPTED["deep_ensemble"], strict=True)
    interval = stats.ttest_1samp([a - b for a, b in pairs], 0).confidence_interval(0.95)
    found = arms.difference("late_0.7", "deep_ensemble", "corrupted")
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))


def test_testing_ends_at_the_first_start_that_does_not_lead(scripts, arms):
    make = scripts["make_how_late"]
    # 0.9 leads in every block, but comes after 0.85, which does not.
    assert arms.difference("late_0.9", "deep_ensemble", "corrupted").low > 0
    assert make.passed(arms) == ["late_0.5", "late_0.7"]
    assert make.cheapest(arms) == "late_0.9"


def test_rules_are_told_in_words(scripts, arms, capsys):
    scripts["make_how_late"].print_answers(arms)
    said = [line for line in capsys.readouterr().out.splitlines() if line]
    assert said[0] == "1. How late: 0.7"
    assert said[1].startswith("2. 0.5, clean:")
    assert said[1].endswith("without loss")
    assert said[2].startswith("2. 0.7, clean:")
    assert said[2].endswith("not shown")
    assert said[3].startswith("3. At no more than 1.2 times the price: 0.9")
    assert said[4].endswith("SAM instead")


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([70.4, 70.8, 70.3, 70.6, 70.5], "the sets matter"),
        ([70.0, 70.5, 69.9, 70.2, 70.0], "SAM instead"),
        ([70.9, 69.4, 70.9, 69.2, 70.1], "undecided"),
    ],
)
def test_sets_matter_or_not_or_it_is_undecided(scripts, values, says):
    make = scripts["make_how_late"]
    apart = paired_difference(values, CORRUPTED["deep_ensemble"])
    assert make.which(apart) == says


def test_arms_leave_the_deep_ensemble_where_the_rule_says(scripts):
    script = scripts["how_late"]
    begins = {arm: script.begins(method, 40) for arm, method in script.ARMS.items()}
    assert begins == {
        "late_0.25": 10,
        "late_0.5": 20,
        "late_0.7": 28,
        "late_0.85": 34,
        "late_0.9": 36,
        "sam_0.85": 34,
        "deep_ensemble": 39,
    }
