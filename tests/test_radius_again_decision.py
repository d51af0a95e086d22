"""Decision 012: what other radii say of 0.05, by rules written before the runs."""

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
    return importlib.import_module("make_radius_again")


def arms(make, blocks=5, spread=1.0, **leads):
    """Blocks in which arms lead by so many points of both accuracies, with noise."""
    noise = {"deep_ensemble": 0.0, "sam": 0.0, "late": 0.0, "late_rho_0.1": 2 * spread}
    found = [
        {
            "arm": arm,
            "block": number,
            **{
                data: {"accuracy": (mean + lead + noise.get(arm, spread) * one) / 100}
                for data, mean, lead in (
                    ("clean", 93, 0.0),
                    ("corrupted", 70, 2 * leads.get(arm, 0.0)),
                )
            },
        }
        for arm in make.LABELS
        for number, one in enumerate(NOISE[:blocks])
    ]
    return make.Arms(found, make.LABELS, range(blocks))


@pytest.mark.parametrize(
    ("lead", "spread", "says"),
    [
        (0.5, 1, "leads"),
        (-0.5, 1, "trails"),
        (-0.1, 1, "trails"),
        (-0.05, 1, "costs nothing"),
        (0.1, 2, "costs nothing"),
        (0.0, 8, "open"),
        (-0.4, 6, "open"),
    ],
)
def test_a_radius_stands_where_its_interval_lies(make, lead, spread, says):
    found = make.findings(arms(make, spread=spread, **{"sam_rho_0.02": lead}))
    assert found["sam_rho_0.02"].says == says


def test_balanced_accuracy_is_half_of_each(make):
    found = make.findings(arms(make, **{"sam_rho_0.02": 0.5}))["sam_rho_0.02"]
    expected = stats.ttest_1samp([0.5 + noise for noise in NOISE], 0)
    assert found.difference.mean == pytest.approx(0.5)
    assert found.p == pytest.approx(expected.pvalue)
    interval = expected.confidence_interval(0.9)
    assert found.low == pytest.approx(interval.low)


def test_two_radii_of_a_method_share_their_error(make):
    found = make.findings(arms(make, **{"late_rho_0.02": 0.2, "late_rho_0.1": 0.2}))
    single = [
        stats.ttest_1samp([0.2 + scale * noise for noise in NOISE], 0).pvalue
        for scale in (1, 2)
    ]
    low, high = sorted(single)
    expected = [2 * low, max(2 * low, high)]
    several = [found[arm].p for arm in ("late_rho_0.02", "late_rho_0.1")]
    assert several == pytest.approx(expected)


@pytest.mark.parametrize(
    ("ten", "hundred", "standing", "tried"),
    [
        ({"late_rho_0.1": -0.5}, {}, "confirmed", False),
        ({"late_rho_0.02": 0.5}, {}, "overturned", True),
        ({"late_rho_0.02": 0.5}, {"late_rho_0.02": -0.5}, "overturned", False),
        ({}, {}, "one of several that cannot be told apart", False),
        (
            {"late_rho_0.1": -0.5},
            {"late_rho_0.02": 0.5},
            "one of several that cannot be told apart",
            False,
        ),
    ],
)
def test_the_former_answer_stands_or_falls(make, ten, hundred, standing, tried):
    both = [make.findings(arms(make, **leads)) for leads in (ten, hundred)]
    asked = [{a: f[a] for a in make.METHODS["SharpBalance"]} for f in both]
    assert make.standing(*asked) == standing
    assert make.candidates(*both)["late_rho_0.02"] is tried


@pytest.mark.parametrize(
    ("ten", "hundred", "says"),
    [
        (-0.5, 0.0, "0.05 is named"),
        (0.0, -0.5, "0.05 is named"),
        (0.0, 0.5, "costs nothing"),
    ],
)
def test_longer_runs_name_the_radius_that_serves_them(make, ten, hundred, says):
    both = [make.findings(arms(make, **{"sam_rho_0.02": x})) for x in (ten, hundred)]
    assert make.longer_runs(*both) == says
    wide = make.findings(arms(make, spread=8.0))
    assert make.longer_runs(both[0], wide) == (says if ten else "open")
