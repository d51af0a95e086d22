"""The scripts of decision 002 train what is missing and read results by its rules."""

import importlib
import sys
from pathlib import Path

import pytest
from scipy import stats

ROOT = Path(__file__).parents[1]
CORRUPTED = {
    "deep_ensemble": [70.0, 70.4, 69.9, 70.2, 70.1],
    "sam": [70.3, 70.9, 70.2, 70.8, 70.4],
    "released": [71.5, 71.8, 71.4, 71.9, 71.5],
    "paper": [69.1, 69.6, 69.2, 69.5, 69.0],
    "late": [71.2, 71.9, 71.3, 71.6, 71.7],
}


@pytest.fixture
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.syspath_prepend(ROOT / "docs")
    return {n: importlib.import_module(n) for n in ("branched_arms", "make_which_rule")}


def results(blocks=5):
    """What 002's ensembles might have scored."""
    return [
        {
            "arm": arm,
            "block": 2 + n,
            "clean": {"accuracy": 0.9 + 0.001 * ((3 * n + len(arm)) % 4)},
            "corrupted": {"accuracy": values[n] / 100},
        }
        for arm, values in CORRUPTED.items()
        for n in range(blocks)
    ]


def arms(scripts, found=None):
    make = scripts["make_which_rule"]
    return make.Arms(found or results(), make.LABELS, make.DESIGNS["002"].blocks)


def test_a_claim_is_students_test_of_pairs_against_its_bound(scripts):
    make = scripts["make_which_rule"]
    claim = make.Claim("late", "released", "corrupted", -0.3)
    found = make.finding(arms(scripts), claim)
    pairs = zip(CORRUPTED["late"], CORRUPTED["released"], strict=True)
    apart = [a - b for a, b in pairs]
    one_sided = stats.ttest_1samp(apart, -0.3, alternative="greater")
    interval = stats.ttest_1samp(apart, 0.0).confidence_interval(0.95)
    assert found.p == pytest.approx(2 * one_sided.pvalue)
    assert found.difference.low == pytest.approx(interval.low)
    assert found.difference.high == pytest.approx(interval.high)
    assert not found.contradicted


def test_rules_tell_supported_refuted_and_undecided_apart(scripts, capsys):
    scripts["make_which_rule"].verdicts(arms(scripts))
    lines = capsys.readouterr().out.splitlines()
    said = {line.split(" | ")[0][2:]: line.split(" | ")[-1][:-2] for line in lines[2:8]}
    assert said["wins-ood, released"] == "supported"
    assert said["wins-ood, paper"] == "refuted"
    assert said["late"] == "undecided"
    assert said["which rule"] == "supported"


def test_there_is_no_verdict_before_all_blocks_are_complete(scripts):
    assert arms(scripts).complete == [2, 3, 4, 5, 6]
    most = [r for r in results() if (r["arm"], r["block"]) != ("paper", 6)]
    assert arms(scripts, most).complete == [2, 3, 4, 5]


def test_only_missing_ensembles_are_trained_where_their_first_part_is_there(
    scripts, tmp_path
):
    script = scripts["branched_arms"]

    def job(arm):
        return script.Job(tmp_path, "002", 2, arm, 40)

    def missing():
        jobs = script.to_train(job(arm) for arm in script.DESIGNS["002"].arms)
        return [each.folder.name.removeprefix("block2_") for each in jobs]

    sam = ["sam_until_20", "sam", "released", "paper"]
    assert missing() == [*sam, "deep_ensemble_until_20", "deep_ensemble", "late"]
    for arm in ("sam", "released", "deep_ensemble", "late"):
        job(arm).results[0].touch()
    assert missing() == sam
    (mark,) = job("paper").first_part.results
    mark.parent.mkdir(parents=True)
    mark.touch()
    assert missing() == ["paper"]
    assert job("paper").ready
    assert not job("late").ready


def test_a_first_part_that_was_ended_goes_on_and_its_branches_begin_again(
    scripts, tmp_path
):
    script = scripts["branched_arms"]
    late = script.Job(tmp_path, "007", 29, "late_0.85_published_rho", 200)
    for each in (late, late.first_part):
        each.folder.mkdir(parents=True)
    assert list(script.to_train([late])) == [late.first_part, late]
    assert late.first_part.folder.exists()
    assert not late.folder.exists()


def test_data_that_are_not_there_are_told_once_before_workers_start(
    scripts, monkeypatch, tmp_path
):
    script, folder = scripts["branched_arms"], tmp_path / "nowhere"
    monkeypatch.setattr(script, "started", lambda *_: pytest.fail("a worker started"))
    words = ["run", "002", "--data", str(folder), "--out", str(tmp_path / "rules")]
    monkeypatch.setattr(sys, "argv", ["branched_arms.py", *words])
    with pytest.raises(SystemExit) as end:
        script.main()
    said = f"--data must be a folder that holds CIFAR10, got {folder}: "
    assert str(end.value).startswith(said)
    assert "\n" not in str(end.value)
