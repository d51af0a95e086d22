"""Decision 009: scoring again must help, and by enough, to become the default."""

import importlib
from pathlib import Path

import pytest
from scipy import stats

ROOT = Path(__file__).parents[1]
NOISE = (0.1, -0.1, 0.05, 0.0, -0.05)


@pytest.fixture
def make(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.syspath_prepend(ROOT / "docs")
    return importlib.import_module("make_refresh")


def arms(make, refreshed=0.0, early=0.0, spread=1.0, clean=0.0):
    """Five blocks in which both arms lead the default by so many points, with noise."""
    leads = {"released": 0.0, "refreshed": refreshed, "early_refreshed": early}
    noisy = {"released": 0.0, "refreshed": spread, "early_refreshed": 2 * spread}
    found = [
        {
            "arm": arm,
            "block": 37 + number,
            "corrupted": {"accuracy": (70 + leads[arm] + noisy[arm] * noise) / 100},
            "clean": {"accuracy": (93 + clean * (noisy[arm] > 0) + 0.2 * noise) / 100},
        }
        for arm in leads
        for number, noise in enumerate(NOISE)
    ]
    return make.Arms(found, make.LABELS, make.DESIGN.blocks)


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ({"refreshed": 0.5}, "helps"),
        ({"refreshed": 0.5, "clean": -0.4}, "undecided"),
        ({"refreshed": 0.05}, "does not help"),
        ({"refreshed": -0.5}, "does not help"),
        ({"refreshed": 0.5, "spread": 8.0}, "undecided"),
    ],
)
def test_rule_one_tells_three_cases_apart(make, case, says):
    assert make.verdicts(arms(make, **case))["refreshed"][1] == says


def test_the_two_tests_share_their_error(make):
    found = arms(make, refreshed=0.2, early=0.3)
    single = [
        stats.ttest_1samp([0.2 + noise for noise in NOISE], 0).pvalue,
        stats.ttest_1samp([0.3 + 2 * noise for noise in NOISE], 0).pvalue,
    ]
    low, high = sorted(single)
    expected = sorted([2 * low, max(2 * low, high)])
    assert sorted(p for p, _ in make.verdicts(found).values()) == pytest.approx(
        expected
    )


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ({"refreshed": 0.5}, "scores every eighth of the run"),
        ({"refreshed": 0.25}, "as it is"),
        ({"refreshed": 0.5, "early": 0.55}, "scores every eighth of the run"),
        ({"early": 0.9}, "switch at a tenth of the run, scores every eighth of it"),
        ({}, "as it is"),
    ],
)
def test_the_default_follows_leads_that_are_worth_their_price(make, case, says):
    assert make.default(arms(make, **case)) == says


def test_before_all_blocks_are_there_only_their_number_is_said(
    make, monkeypatch, capsys
):
    most = [r for r in arms(make).results if r["block"] < 41]
    monkeypatch.setattr(make, "read", lambda folder: most)
    make.main()
    said = capsys.readouterr().out.strip()
    assert said == "4 of 5 blocks are complete: no verdict"


def test_the_page_names_the_epochs_at_which_samples_are_scored(make):
    from decision_designs import METHODS

    page = (ROOT / "docs" / "decisions" / "009_refresh.md").read_text()
    scored = {
        arm: [n for n in range(40) if METHODS[arm].exchanges_before(n, 40)]
        for arm in make.LABELS
    }
    assert scored["released"] == [20]
    assert ", ".join(map(str, scored["refreshed"])) == "20, 25, 30, 35"
    assert "| 20, 25, 30, 35 | 288 |" in page
    assert scored["early_refreshed"] == list(range(4, 40, 5))


def test_the_page_shows_what_the_results_say(make, monkeypatch, capsys):
    monkeypatch.setattr(make.Arms, "draw", lambda self, file: None)
    make.main()
    printed = capsys.readouterr().out.splitlines()
    page = (ROOT / "docs" / "decisions" / "009_refresh.md").read_text()
    answer = page[page.index("## Answer") :].splitlines()
    arms = tuple(f"| {label}" for label in make.LABELS.values())
    rows = [line.removesuffix(" |") for line in answer if line.startswith(arms)]
    assert len(rows) == 19
    assert [r for r in rows if not any(p.startswith(r) for p in printed)] == []
    between = make.Arms(make.read(make.RESULTS), make.LABELS, make.DESIGN.blocks)
    assert make.default(between) == "as it is"


def test_overlaps_are_those_of_pairs(make):
    found = [[1.0, 0.5, 0.6], [0.5, 1.0, 0.7], [0.6, 0.7, 1.0]]
    assert make.overlap(found) == pytest.approx(0.6)


def test_scoring_is_no_part_of_an_epochs_time(make):
    found = {"exchange_seconds": 10.0, "epoch_seconds": [15.0, 25.0]}
    assert make.scoring_share(found) == pytest.approx(20)
