"""Decision 007: every ensemble is shown, and verdicts wait for three blocks."""

import importlib
from pathlib import Path

import pytest
from scipy import stats

ROOT = Path(__file__).parents[1]
MINUS = chr(0x2212)
CORRUPTED = {
    "deep_ensemble": [74.0, 74.2, 73.9],
    "sam_published_rho": [74.6, 74.5, 74.2],
    "released_published_rho": [75.7, 75.8, 75.6],
    "late_0.85_published_rho": [73.0, 73.3, 73.0],
}


@pytest.fixture
def make(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.syspath_prepend(ROOT / "docs")
    return importlib.import_module("make_headline")


def result(arm, block, corrupted, clean=95.0):
    def scores(value):
        return {
            "accuracy": value / 100,
            "individual_accuracy": value / 100 - 0.01,
            "members": {"accuracy": [value / 100 - 0.01] * 3},
            **dict.fromkeys(("der", "nll", "ece"), 0.5),
        }

    scaled = {"temperature": 1.1, "clean": {"nll": 0.2, "ece": 0.01}}
    scaled["corrupted"] = {"nll": 0.9, "ece": 0.1}
    both = {"clean": scores(clean), "corrupted": scores(corrupted)}
    losses = [[2.0] * 3, [0.01] * 3]
    return {"arm": arm, "block": block, "loss": losses, "scaled": scaled, **both}


def results(blocks):
    return [
        result(arm, 29 + number, values[number])
        for arm, values in CORRUPTED.items()
        for number in range(blocks)
    ]


@pytest.fixture
def told(make, monkeypatch, tmp_path, capsys):
    def lines(found):
        import score_tables

        monkeypatch.setattr(make, "read", lambda folder: found)
        monkeypatch.setattr(score_tables, "IMAGES", tmp_path)
        make.main()
        return capsys.readouterr().out.splitlines()

    return lines


def test_nothing_but_the_count_is_said_without_results(told):
    assert told([]) == ["0 of 3 blocks are complete"]


def test_one_block_is_held_against_chance_and_not_judged(told):
    lines = told([*results(1), result("late_0.85", 29, 74.1)])
    assert lines[0] == "1 of 3 blocks are complete"
    said = {line.split(" | ")[0][2:]: line.split(" | ")[1:] for line in lines}
    beyond = "beyond chance as known from elsewhere"
    once = "+0.00: seen once"
    full = said["SharpBalance less SAM"]
    assert full == [f"+1.10: {beyond}", "+1.00", once, "+0.12 |"]
    assert said["SharpBalance less deep ensemble"][0] == f"+1.70: {beyond}"
    flat = said["SAM less deep ensemble"]
    assert flat == ["+0.60: seen once", "+0.49", once, "+0.48 |"]
    late = said["late SharpBalance less deep ensemble"]
    assert late == [f"{MINUS}1.00: {beyond}", "", once, " |"]
    assert said["late SharpBalance, 0.05"][1:3] == ["0.500", "0.900"]
    assert not any("supported" in line or "refuted" in line for line in lines)


def test_what_was_added_is_held_against_the_deep_ensembles_of_its_own_blocks(told):
    added = [result("late", 29, 75.3, 95.3), result("late", 30, 75.4, 95.5)]
    found = [*results(1), *added, result("deep_ensemble", 30, 74.2)]
    name = "| SharpBalance begun plainly, 0.05 less deep ensemble |"
    said = [line for line in told(found) if line.startswith(name)]
    beyond = "+1.30, +1.20: beyond chance as known from elsewhere"
    assert said == [f"{name} {beyond} |  | +0.30, +0.50: seen twice |  |"]
    assert not any(line.startswith(name) for line in told([*results(1), added[1]]))


def test_differences_must_agree_to_be_beyond_chance(make):
    found = [r for r in results(2) if r["arm"] != "sam_published_rho"]
    found += [result("sam_published_rho", n, c) for n, c in ((29, 74.0), (30, 76.9))]
    cell = make.seen(make.complete_blocks(found), make.CONTRASTS[0], "corrupted")
    assert cell == f"+1.70, {MINUS}1.10: seen twice"


def test_a_block_counts_once_its_four_arms_are_there(make, told):
    found = [r for r in results(2) if (r["arm"], r["block"]) != (make.LATE, 30)]
    assert told(found)[0] == "1 of 3 blocks are complete"


def test_three_blocks_are_judged_by_students_intervals(make, told):
    lines = told(results(3))
    said = {line.split(" | ")[0][2:]: line.split(" | ")[1:] for line in lines}
    assert said["SharpBalance less SAM"][3] == "supported"
    assert said["SharpBalance less SAM"][4] == "1.00, within"
    assert said["late SharpBalance less deep ensemble"][3] == "refuted"
    assert said["SAM less deep ensemble"][3] == "undecided"
    pairs = zip(CORRUPTED[make.FULL], CORRUPTED[make.PLAIN], strict=True)
    low, high = stats.ttest_1samp([a - b for a, b in pairs], 0).confidence_interval()
    assert f"({low:.2f} to {high:.2f})" in said["SharpBalance less deep ensemble"][0]
    apart = said["SharpBalance less deep ensemble"]
    assert apart[4] == "1.49, left out"


def test_the_page_asks_for_the_arms_that_are_trained(make):
    page = (ROOT / "docs" / "decisions" / "007_headline.md").read_text()
    added = make.DESIGNS["007_default"]
    assert added.folder == make.DESIGN.folder
    assert {*make.DESIGN.arms, *added.arms} == {*make.DECIDING, *make.BESIDE}
    for name in ("deep_ensemble", make.SAM, make.FULL, make.LATE):
        assert name in page
