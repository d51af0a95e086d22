"""Decision 011: what short runs say of where SharpBalance and SAM begin."""

import importlib
import json
import sys
from pathlib import Path

import pytest

from tepui.methods import SAM, SharpBalance

ROOT = Path(__file__).parents[1]
NOISE = (0.1, -0.1, 0.05, 0.0, -0.05)
NAMES = ("make_short_runs", "make_defaults", "defaults")


@pytest.fixture
def make(monkeypatch):
    for folder in ("benchmarks", "docs"):
        monkeypatch.syspath_prepend(ROOT / folder)
    yield importlib.import_module("make_short_runs")
    for name in NAMES:
        sys.modules.pop(name, None)


def found(lead=0.0, ensembles=15):
    """What a method's ensembles might have scored, less a deep ensemble's ``lead``."""
    noise = [NOISE[n % 5] * (1 + n // 5) / 2 for n in range(ensembles)]
    accuracy = [(80 + n + lead + e) / 100 for n, e in enumerate(noise)]
    nll = [0.5] * ensembles
    several = {"accuracy": accuracy, "shifted_accuracy": accuracy}
    return {**several, "nll": nll, "shifted_nll": nll, "members": [[0.8]] * ensembles}


def pair(make, lead):
    plain = {key: [n / 100 + 0.8 for n in range(15)] for key in found()}
    return make.Pair(found(lead), plain)


@pytest.mark.parametrize(
    ("former", "arm", "elsewhere", "passes"),
    [
        (-0.8, -0.1, 0.0, True),
        (-0.8, -0.3, 0.0, True),  # open, and ahead
        (-0.8, -0.7, 0.0, False),  # ahead, but hurts
        (-0.1, -0.1, 0.0, False),  # harmless, and not ahead
        (-0.8, -0.1, -0.7, False),  # hurts in another job
    ],
)
def test_a_beginning_must_hurt_nowhere_and_lead_the_former(
    make, former, arm, elsewhere, passes
):
    images = {make.FORMER: pair(make, former), make.PLAINLY: pair(make, arm)}
    others = {make.PLAINLY: pair(make, elsewhere)}
    pairs = {"cifar10": images, "features": others, "flights": others}
    assert make.passes(pairs, make.PLAINLY) is passes
    assert make.passes({**pairs, "flights": {}}, make.PLAINLY) is None


@pytest.mark.parametrize(
    ("now", "smaller", "says"),
    [(-0.7, 0.0, True), (-0.7, -0.7, False), (-0.3, 0.0, False)],
)
def test_sam_changes_only_if_it_hurts_and_less_does_not(make, now, smaller, says):
    job = {make.SAM_NOW: pair(make, now), make.SAM_SMALLER: pair(make, smaller)}
    pairs = dict.fromkeys(make.JOBS, job)
    assert make.sam_is_smaller(pairs) is says
    without = {make.SAM_NOW: job[make.SAM_NOW]}
    assert make.sam_is_smaller({**pairs, "features": without}) is None


def test_only_arms_with_all_their_ensembles_are_read(make, tmp_path):
    folder, later = tmp_path / "one", tmp_path / "other"
    runs = {
        folder / make.MORE_SEEDS: {"DeepEnsemble()": found()},
        folder / "cifar10_candidates_x": {
            "DeepEnsemble()": found(ensembles=5),
            "SAM()": found(ensembles=5),
        },
        later / "cifar10_alone_x": {"GSAM()": found(-0.5)},
        later / "cifar10_alone_y": {"A2D()": found(-0.5, ensembles=12)},
    }
    for path, methods in runs.items():
        path.parent.mkdir(exist_ok=True)
        path.with_name(f"{path.name}.json").write_text(json.dumps({"methods": methods}))
    pairs = make.complete("cifar10", (folder, later))
    assert set(pairs) == {"GSAM()"}
    score = make.SCORES["in domain"]
    assert make.lead(*pairs["GSAM()"], score).mean == pytest.approx(-0.5)


def test_the_page_shows_what_was_found_and_defaults_follow(make, capsys):
    make.main()
    out = capsys.readouterr().out.splitlines()
    printed = [line for line in out if line.startswith("| `")]
    page = (ROOT / "docs" / "decisions" / "011_short_runs.md").read_text("utf-8")
    assert [line for line in printed if line not in page] == []
    plainly = "SharpBalance begins plainly: True" in out
    assert SharpBalance().before == ("plain" if plainly else "sam")
    smaller = "SAM has 0.02: True" in out
    assert SAM().rho == (0.02 if smaller else 0.05)
    assert "SharpBalance with 0.02 is tried in 40 epochs: False" in out
    assert SharpBalance().rho == 0.05
