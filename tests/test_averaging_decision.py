"""Decision 008: the averaged deep ensemble is held against margins, not zero."""

import importlib
from pathlib import Path

import pytest
from scipy import stats

ROOT = Path(__file__).parents[1]
BLOCKS = range(32, 37)
NOISE = (0.1, -0.1, 0.05, 0.0, -0.05)


@pytest.fixture
def make(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.syspath_prepend(ROOT / "docs")
    return importlib.import_module("make_averaging")


def result(arm, block, points, nats, clean=93.0):
    return {
        "arm": arm,
        "block": block,
        "corrupted": {"accuracy": points / 100},
        "clean": {"accuracy": clean / 100},
        "scaled": {"corrupted": {"nll": nats}},
    }


def arms(make, points=0.0, nats=0.0, spread=1.0, gain=0.0, clean=0.0):
    """Five blocks; the averaged deep ensemble is so far ahead of SharpBalance."""
    found = []
    for block, noise in zip(BLOCKS, NOISE, strict=True):
        for arm in make.LABELS:
            base = 70.0 + 0.2 * (block % 3) + gain * arm.endswith("averaged")
            score = (base, 1.0, 93.0 + (clean + noise) * arm.endswith("averaged"))
            if arm == make.CANDIDATE:
                apart = (points + spread * noise, nats + spread * noise / 20)
                score = (base + apart[0], 1.0 + apart[1], score[2])
            elif arm.endswith("averaged"):
                score = (base + 0.3 * noise, *score[1:])
            found.append(result(arm, block, *score))
    return make.Arms(found, make.LABELS, make.DESIGN.blocks)


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ({}, "within"),
        ({"points": 0.5, "nats": -0.05}, "within"),
        ({"points": -0.1}, "within"),
        ({"spread": 6.0}, "not shown"),
        ({"points": -0.25}, "not shown"),
        ({"nats": 0.018}, "not shown"),
        ({"points": -0.6}, "refuted"),
        ({"points": 0.5, "nats": 0.05}, "refuted"),
    ],
)
def test_both_margins_must_be_kept(make, case, says):
    assert make.standing(arms(make, **case), "released") == says


@pytest.mark.parametrize("points", [-0.4, -0.2, -0.05, 0.3])
def test_within_is_two_one_sided_tests_of_pairs(make, points):
    found = arms(make, points=points, nats=0.01)
    apart = [points + noise for noise in NOISE]
    nats = [0.01 + noise / 20 for noise in NOISE]
    p = max(
        stats.ttest_1samp(apart, -0.3, alternative="greater").pvalue,
        stats.ttest_1samp(nats, 0.02, alternative="less").pvalue,
    )
    assert (make.standing(found, "released") == "within") == (p < 0.05)


@pytest.mark.parametrize(
    ("case", "says"),
    [({"gain": 0.5}, "helps"), ({}, "not shown"), ({"gain": -0.5}, "not shown")],
)
def test_averaging_helps_a_run_if_its_gain_survives_holm(make, capsys, case, says):
    make.print_gains(arms(make, **case))
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "SAM" in line]
    assert line.endswith(f"| {says} |")


def test_a_gain_that_costs_clean_accuracy_does_not_count(make, capsys):
    make.print_gains(arms(make, gain=0.5, clean=-0.5))
    assert "helps" not in capsys.readouterr().out


def test_before_all_blocks_are_there_only_their_number_is_said(
    make, monkeypatch, capsys
):
    found = arms(make)
    most = [r for r in found.results if (r["arm"], r["block"]) != (make.CANDIDATE, 36)]
    monkeypatch.setattr(make, "read", lambda folder: most)
    make.main()
    said = capsys.readouterr().out.strip()
    assert said == "4 of 5 blocks are complete: no verdict"


def test_all_comparisons_are_printed(make, capsys):
    make.print_comparisons(arms(make, points=0.5))
    lines = capsys.readouterr().out.splitlines()
    shown = [line.split(" | ")[1] for line in lines if line.startswith("| ")][1:]
    assert shown == ["SharpBalance", "SharpBalance, averaged", "late"]
