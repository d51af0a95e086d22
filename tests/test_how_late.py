"""Decision 003: its arms branch where they differ; its rules read the results."""

import importlib
from pathlib import Path

import pytest
from scipy import stats

from pages import table_rows
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


@pytest.fixture
def timed(scripts):
    make = scripts["make_how_late"]
    taken = {
        "deep_ensemble": ([50.0, 50.0], 0.0),
        "late_0.85": ([50.0, 67.0], 5.0),
        "late_0.9": ([50.0, 60.0], 4.0),
    }
    found = [
        {
            "arm": arm,
            "block": 7 + n,
            "corrupted": {"accuracy": 0.7 + (arm == "late_0.85") / 100},
            "epoch_seconds": [(1 + n) * x for x in epochs],
            "exchange_seconds": (1 + n) * scoring,
        }
        for arm, (epochs, scoring) in taken.items()
        for n in range(5)
    ]
    return make.Arms(found, make.LABELS, make.BLOCKS)


def test_times_hold_scoring_and_are_taken_within_blocks(scripts, timed):
    make = scripts["make_how_late"]
    assert make.times(timed, "late_0.85") == pytest.approx([1.22] * 5)
    assert make.times(timed, "late_0.9") == pytest.approx([1.14] * 5)


def test_by_the_clock_a_start_that_costs_too_much_is_not_named(scripts, timed):
    make = scripts["make_how_late"]
    assert make.cheapest(timed) == "late_0.85"
    assert make.cheapest_in_seconds(timed) == "late_0.9"


def test_the_page_shows_what_the_results_say(scripts, monkeypatch, capsys):
    make = scripts["make_how_late"]
    monkeypatch.setattr(make.Arms, "draw", lambda self, file: None)
    make.main()
    printed = capsys.readouterr().out.splitlines()
    page = (ROOT / "docs" / "decisions" / "003_how_late.md").read_text()
    rows = table_rows(page[page.index("## Answer") :])
    assert len(rows) == 64
    assert [r for r in rows if not any(p.startswith(r) for p in printed)] == []
