"""Designs find what the papers print, and do not find what is not there."""

import json
import math
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import fmean, linear_regression, stdev, variance

import numpy as np
import pytest

from tepui.papers.claims.base import Finding, decide
from tepui.papers.claims.designs import DESIGNS, design_of
from tepui.papers.claims.evidence import (
    Datum,
    Evidence,
    printed_evidence,
    read_evidence,
)
from tepui.papers.claims.judging import CLAIMS, verdicts
from tepui.papers.claims.planning import (
    BRANCHED,
    CLEAN,
    CORRUPTED,
    MEMBER_ACCURACY,
    RISES,
    SLOPES,
    of_networks,
)
from tepui.papers.claims.power import (
    expected,
    holm_of_draws,
    joined,
    of_draws,
    simulated,
)
from tepui.studies.results import averaged
from tepui.studies.significance import holm

DOCS = Path(__file__).parents[3] / "docs"
BY_NAME = {claim.name: claim for claim in CLAIMS}
ENOUGH, AT_MOST = 0.80, 0.05


@cache
def power():
    return simulated(CLAIMS)


def test_every_claim_that_is_trained_for_has_a_design():
    trained = {claim.original for claim in CLAIMS if claim.computed is None}
    assert trained == {*DESIGNS} == {*power()}


@pytest.mark.parametrize("name", DESIGNS)
def test_printed_effects_are_found_and_absent_ones_are_not(name):
    found = power()[name]
    assert found.as_claimed >= ENOUGH
    assert found.without_effect <= AT_MOST
    assert found.one_missing <= AT_MOST


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_power_with_many_draws(seed):
    for name, found in simulated(CLAIMS, draws=10_000, seed=seed).items():
        assert found.as_claimed >= ENOUGH, name
        assert max(found.without_effect, found.one_missing) <= AT_MOST, name


def test_too_few_repetitions_have_no_power(monkeypatch):
    claim = BY_NAME["sharpbalance/wins-ood"]
    few = replace(design_of(claim), n=2)
    monkeypatch.setattr("tepui.papers.claims.power.design_of", lambda _: few)
    assert simulated([claim])[claim.name].as_claimed < 0.5


def test_comparisons_with_fewer_units_have_less_power(monkeypatch):
    claim = BY_NAME["sharpbalance/wins-ood"]
    plan = design_of(claim)
    found = []
    for fewer in ({}, {"figure7b": 3}, {"figure7": 3}):
        some = replace(plan, fewer=fewer)
        monkeypatch.setattr(
            "tepui.papers.claims.power.design_of", lambda _, some=some: some
        )
        found.append(simulated([claim])[claim.name].as_claimed)
    assert found[0] > found[1] > found[2]
    all_few = replace(plan, n=3)
    monkeypatch.setattr("tepui.papers.claims.power.design_of", lambda _: all_few)
    assert simulated([claim])[claim.name].as_claimed == found[2]


@pytest.mark.parametrize("scope", ["always", "generally"])
@pytest.mark.parametrize("region", [(0.0, math.inf), (-1.0, 1.0), (-math.inf, 0.5)])
def test_many_draws_are_judged_as_one_is(scope, region):
    random = np.random.default_rng(0)
    shape = 4, 60
    mean, error = random.normal(0.3, 1.5, shape), random.uniform(0.1, 1.0, shape)

    def finding(row, draw):
        names = {"where": "here", "freedom": 5, "n": 6, "looks": 1 + row}
        low, high = region
        numbers = {"effect": mean[row, draw], "error": error[row, draw]}
        return Finding(**numbers, **names, low=low, high=high)

    rows = [finding(row, 0) for row in range(4)]
    holds, p = joined(*of_draws(rows, mean, error, 5), scope)
    for draw in range(60):
        one = decide([finding(row, draw) for row in range(4)], scope)
        assert (one.holds, one.p) == (holds[draw], pytest.approx(p[draw]))


def test_draws_are_corrected_as_holm_does():
    p = np.random.default_rng(1).uniform(0, 0.2, (7, 50))
    corrected = holm_of_draws(p)
    for draw in range(50):
        assert corrected[:, draw] == pytest.approx(holm(p[:, draw].tolist()))


def study(name, random):
    """All records of a study with the printed leads and realistic noise."""
    claim = BY_NAME[name]
    design = design_of(claim)
    base = random.normal(70, 2, design.n)
    seen = set()
    for finding in expected(claim, design).findings:
        rival = finding.where.removeprefix("sharpbalance against ").split(",")[0]
        panel, dataset, *_ = finding.where.split(": ")[1].split(", ")
        noise = design.noise(finding.where) * random.standard_normal(design.n)
        scores = {rival: base - finding.effect - noise, "sharpbalance": base}
        for method, values in scores.items():
            if (panel, method) not in seen:
                seen.add((panel, method))
                yield averaged(
                    values.tolist(),
                    [],
                    item=f"sharpbalance/{panel}",
                    dataset=dataset,
                    architecture="resnet18",
                    method=method,
                    metric="ensemble_accuracy",
                    unit="percent",
                    at={"ensemble_size": 3},
                )


@pytest.mark.parametrize("name", ["sharpbalance/wins-ood", "sharpbalance/wins-id"])
def test_whole_studies_come_out_as_the_simulation_says(name):
    """Records of all methods, through evidence and verdicts, one claim alone."""
    random, supported = np.random.default_rng(2), []
    for _ in range(100):
        data = tuple(Datum(record, "medium") for record in study(name, random))
        (found,) = verdicts(Evidence(data), [BY_NAME[name]])
        assert len(found.findings) == 4
        supported.append(found.outcome == "supported")
    assert fmean(supported) >= ENOUGH


@cache
def runs():
    folder = DOCS / "results/decisions/002_which_rule"
    rows = [json.loads(file.read_text()) for file in folder.glob("*.json")]
    return {(row["arm"], row["block"]): row for row in rows}


BLOCKS = range(2, 7)
SHARED = [("released", "sam"), ("paper", "sam")]
APART = [("released", "deep_ensemble"), ("paper", "deep_ensemble")]
SAM = [("sam", "deep_ensemble")]


def between_blocks(value, pairs):
    """The standard deviation of a difference between blocks."""
    return math.sqrt(
        fmean(
            variance(
                value(runs()[first, block]) - value(runs()[second, block])
                for block in BLOCKS
            )
            for first, second in pairs
        )
    )


def severity_slope(run):
    def at(severity):
        copies = run["copies"].items()
        return 100 * fmean(v for name, v in copies if name.endswith(f"/{severity}"))

    return linear_regression([1, 3, 5], [at(s) for s in (1, 3, 5)]).slope


@pytest.mark.parametrize(
    ("data", "noise", "apart"), [("corrupted", CORRUPTED, APART), ("clean", CLEAN, SAM)]
)
def test_noise_of_accuracy_is_that_of_decision_002(data, noise, apart):
    def value(run):
        return 100 * run[data]["accuracy"]

    assert between_blocks(value, SHARED) == pytest.approx(noise[BRANCHED], rel=0.05)
    assert between_blocks(value, apart) == pytest.approx(noise[""], rel=0.05)


@pytest.mark.parametrize("metric", ["ece", "nll"])
def test_noise_of_uncertainty_is_that_of_the_ensembles_of_figure_15(metric):
    claim = BY_NAME["sharpbalance/uncertainty-order"]
    size = "small+ensembles=24"
    evidence = read_evidence(DOCS / "results").at(size)
    found = tuple(claim.judge(evidence, claim.needs))

    def spread(names):
        at_three = f"{names}, {metric}: "
        (one,) = (f for f in found if at_three in f.where and "size 3" in f.where)
        return one.error * math.sqrt(one.n)

    noise = design_of(claim).noise
    against_sam = spread("sharpbalance against sam")
    assert against_sam == pytest.approx(noise(f"against sam, {metric}"), rel=0.05)
    plain = spread("sam against deep_ensemble")
    assert plain == pytest.approx(noise(metric), rel=0.05)


@pytest.mark.parametrize(("data", "word"), [("clean", ""), ("corrupted", "_c,")])
def test_noise_of_members_is_that_of_decision_002(data, word):
    gaps = []
    for block in BLOCKS:
        with_sam, plain = (
            runs()[arm, block][data]["members"]["accuracy"]
            for arm in ("sam", "deep_ensemble")
        )
        gaps += [100 * (a - b) for a, b in zip(with_sam, plain, strict=True)]
    assert stdev(gaps) == pytest.approx(MEMBER_ACCURACY[word], rel=0.05)


def test_noise_of_slopes_is_that_of_decision_002():
    found = between_blocks(severity_slope, SHARED)
    noise = DESIGNS["sharpbalance/gap-severity"].noise
    assert found == pytest.approx(noise("here"), rel=0.05)


@pytest.mark.parametrize(
    ("data", "word"), [("clean", "cifar10,"), ("corrupted", "cifar10_c,")]
)
def test_noise_of_rates_is_that_of_decision_002(data, word):
    def value(run):
        return run[data]["eir"]

    noise = DESIGNS["sharpbalance/sam-improvement"].noise
    found = between_blocks(value, SAM)
    assert found == pytest.approx(noise(word), rel=0.05)


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("sharpbalance/fisher-curvature", ""),
        ("sharpbalance/scoring-cost", ""),
        ("sed/unique", "deep_ensemble_varied"),
        ("sed/step-constant", ""),
        ("sed/naive-quadratic", "divdis"),
        ("sed/auroc-size", "five against two"),
    ],
)
def test_noise_is_that_of_committed_small_results(name, word):
    claim = BY_NAME[name]
    found = claim.judge(read_evidence(DOCS / "results").at("small"), claim.needs)
    spreads = [f.error**2 * f.n for f in found if f.error and word in f.where]
    noise = DESIGNS[name].noise(word)
    assert math.sqrt(fmean(spreads)) == pytest.approx(noise, rel=0.1)


def test_noise_of_figure_5_is_that_of_ten_ensembles_a_radius():
    claim = BY_NAME["sharpbalance/tradeoff"]
    ten = read_evidence(DOCS / "results").at("small+ensembles=10")
    found = [f for f in claim.judge(ten, claim.needs) if "figure5" in f.where]
    assert {f.n for f in found} == {design_of(claim).units("figure5")}
    assert len(found) == len(SLOPES)
    noise = math.sqrt(fmean(f.error**2 * f.n for f in found))
    assert noise == pytest.approx(design_of(claim).noise("figure5"), rel=0.05)


def test_rises_are_the_paper_s_shares_of_small_networks_sharpness():
    claim = BY_NAME["rethinking/sam-sharpens"]
    ours = read_evidence(DOCS / "results").at("small")
    found = {f.where: f for f in claim.judge(ours, claim.needs)}
    assert {*found} == {*RISES}
    for finding in claim.judge(printed_evidence(), claim.needs):
        rise, noise = RISES[finding.where]
        without = finding.where.split()[2].rstrip(",")
        place = re.search(r"(\w+) at (\w+)", finding.where)
        (printed,) = sharpness_of(printed_evidence(), *place.groups(), without)
        share = finding.effect / printed
        levels = sharpness_of(ours, *place.groups(), without)
        assert any(rise == pytest.approx(share * level, rel=0.02) for level in levels)
        here = found[finding.where]
        assert here.error * math.sqrt(here.n) == pytest.approx(noise, rel=0.05)


def sharpness_of(evidence, measure, table, control):
    """Return a control's sharpness, on whichever data it was measured."""
    return [
        datum.record.value
        for datum in evidence.data
        if datum.record.item == f"rethinking/{table}"
        and (datum.record.metric, datum.record.method) == (measure, control)
    ]


def test_noise_of_networks_is_that_of_the_paper_s_errors():
    """Baseline 0.201 and augmentation 0.219, standard errors over ten."""
    where = "augmentation against the baseline, corruption_accuracy at table1, x"
    found = of_networks(where)
    assert found == pytest.approx(math.sqrt(10) * math.hypot(0.201, 0.219))


def test_a_simulated_comparison_is_the_judge_s_own():
    """Effects are those that the judge finds in the printed numbers."""
    claim = BY_NAME["sharpbalance/wins-ood"]
    each = expected(claim, design_of(claim))
    effects = sorted(round(finding.effect, 2) for finding in each.findings)
    assert (each.means, effects) == ("printed", [1.0, 1.17, 1.49, 1.79])
    contradicted = BY_NAME["rethinking/baseline-flattest"]
    each = expected(contradicted, design_of(contradicted))
    assert each.means == "as claimed"
    assert min(finding.depth for finding in each.findings) > 0
