"""Decision 008: the averaged deep ensemble is held against margins, not zero."""

import importlib
from pathlib import Path
from statistics import fmean

import pytest
from scipy import stats

from pages import table_rows

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


def trained(make, leads, first):
    """Blocks in which runs lead their deep ensemble by so many points each."""
    return make.Arms(
        [
            result(arm, first + n, 70.0 + n + (lead if arm == "late" else 0.0), 1.0)
            for n, lead in enumerate(leads)
            for arm in make.RUNS
        ],
        make.RUNS,
        (),
    )


def shown(differences):
    low, high = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
    return f"{fmean(differences):.2f} ({low:.2f} to {high:.2f})"


def test_both_fives_are_shown_beside_each_other_and_together(make, capsys):
    before, here = [0.5, 0.75, 0.625, 0.5, 0.875], [1.0, 1.25, 1.5, 1.0, 1.25]
    make.print_second_time(trained(make, before, 2), trained(make, here, 32))
    lines = capsys.readouterr().out.splitlines()
    cells = [shown(several) for several in (before, here, before + here)]
    assert "| late | " + " | ".join(cells) + " |" in lines


def test_detection_is_told_less_the_deep_ensembles(make, capsys):
    leads = (0.01, 0.02, 0.015)
    found = [
        {
            "arm": arm,
            "block": n,
            "unfamiliar": {
                "cifar100": {
                    name: 0.8 + n / 100 + lead * (arm == "sam" and name == "pds")
                    for name in make.DETECTORS.values()
                }
            },
        }
        for n, lead in enumerate(leads)
        for arm in make.RUNS
    ]
    make.print_detection(make.Arms(found, make.RUNS, ()))
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if line.startswith("| SAM |")]
    low, high = stats.ttest_1samp(leads, 0).confidence_interval(0.95)
    assert line.startswith(f"| SAM | 0.015 ({low:.3f} to {high:.3f}) | 0.000 (")


def test_the_page_shows_what_the_results_say(make, monkeypatch, capsys):
    monkeypatch.setattr(make.Arms, "draw", lambda self, file: None)
    make.main()
    printed = capsys.readouterr().out.splitlines()
    page = (ROOT / "docs" / "decisions" / "008_averaging.md").read_text()
    answer = page[page.index("## Answer") :].replace("*late*", "late")
    runs = tuple(f"| {label}" for label in make.LABELS.values())
    rows = [row for row in table_rows(answer) if row.startswith(runs)]
    assert len(rows) == 27
    assert [r for r in rows if not any(p.startswith(r) for p in printed)] == []
