"""Power with the noise that studies found, held against closed forms."""

import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from scipy import stats

from tepui.papers.claims.as_run import (
    as_run,
    noise_ratios,
    planned_name,
    power_as_run,
)
from tepui.papers.claims.base import LEVEL
from tepui.papers.claims.designs import DESIGNS, design_of
from tepui.papers.claims.evidence import printed_evidence, read_evidence
from tepui.papers.claims.judging import CLAIMS, verdicts
from tepui.papers.claims.power import expected, simulated
from tepui.papers.claims.runs import whole_runs

DOCS = Path(__file__).parents[3] / "docs"
BY_NAME = {claim.name: claim for claim in CLAIMS}
CLAIM = BY_NAME["sharpbalance/wins-ood"]
DESIGN = design_of(CLAIM)


@cache
def judged():
    return verdicts(read_evidence(DOCS / "results"))


@cache
def committed():
    return whole_runs(CLAIMS, judged())


def study(noise, n):
    """A verdict with the noise and units of its comparisons, in turn."""
    findings = [
        replace(found, error=sd / math.sqrt(units), n=units, freedom=units - 1)
        for found, sd, units in zip(
            expected(CLAIM, DESIGN).findings, noise, n, strict=True
        )
    ]
    return replace(committed()[CLAIM.name], findings=tuple(findings))


@pytest.mark.parametrize(
    ("noise", "n"),
    [
        ([0.5, 0.5, 0.5, 0.5], [5, 5, 5, 5]),
        ([0.2, 0.3, 1.4, 1.1], [4, 5, 9, 6]),
        ([0.1, 0.1, 0.1, 2.0], [12, 3, 5, 8]),
    ],
)
def test_power_is_that_of_t_tests_that_all_succeed(noise, n):
    """A claim alone needs each comparison's own test: noncentral t, independent."""
    found = power_as_run([CLAIM], {CLAIM.name: study(noise, n)}, draws=20_000)
    one = 1.0
    for finding, sd, units in zip(
        expected(CLAIM, DESIGN).findings, noise, n, strict=True
    ):
        beyond = stats.t.ppf(1 - LEVEL / 2, units - 1)
        one *= stats.nct.sf(beyond, units - 1, finding.effect / sd * math.sqrt(units))
    assert 0.05 < one < 0.95
    assert found[CLAIM.name] == pytest.approx(one, abs=4 * math.sqrt(0.25 / 20_000))


def test_with_what_was_planned_it_is_the_power_that_was_planned():
    family = [claim for claim in CLAIMS if claim.paper == "sharpbalance"]
    plan = simulated(family)
    noise = expected(CLAIM, DESIGN).noise
    usual = power_as_run(family, {CLAIM.name: study(noise, [DESIGN.n] * 4)})
    assert usual == {CLAIM.name: plan[CLAIM.name].as_claimed}
    noisy = power_as_run(family, {CLAIM.name: study(3 * noise, [DESIGN.n] * 4)})
    assert noisy[CLAIM.name] < usual[CLAIM.name] / 2
    more = power_as_run(family, {CLAIM.name: study(3 * noise, [45] * 4)})
    assert more[CLAIM.name] > usual[CLAIM.name]


def test_others_of_the_family_have_their_own_noise_too():
    """A claim is corrected with those beside it: they matter if they were run."""
    beside = BY_NAME["sharpbalance/wins-id"]
    run = study([0.9] * 4, [5] * 4)
    noisy = committed()[beside.name]
    noisy = replace(
        noisy, findings=tuple(replace(f, error=50.0) for f in noisy.findings)
    )
    alone = power_as_run([CLAIM, beside], {CLAIM.name: run})
    both = power_as_run([CLAIM, beside], {CLAIM.name: run, beside.name: noisy})
    assert both[beside.name] < 0.05
    assert both[CLAIM.name] < alone[CLAIM.name]


def test_comparisons_that_did_not_vary_are_left_out():
    verdict = study([0.5] * 4, [5] * 4)
    first, *others = verdict.findings
    planned = expected(CLAIM, DESIGN)
    for error in (None, 0.0):
        found = as_run(planned, [replace(first, error=error), *others])
        assert found.findings == planned.findings[1:]
        assert found.noise == pytest.approx([0.5] * 3)
        assert [*found.units] == [5] * 3


def test_ratios_are_those_of_each_comparison():
    planned = expected(CLAIM, DESIGN).noise
    verdict = study(planned * [1.0, 2.0, 0.5, 2.9], [5] * 4)
    assert noise_ratios(CLAIM, DESIGN, verdict) == pytest.approx([1.0, 2.0, 0.5, 2.9])
    turned = replace(verdict, findings=verdict.findings[::-1])
    assert noise_ratios(CLAIM, DESIGN, turned) == pytest.approx([2.9, 0.5, 2.0, 1.0])


@pytest.mark.parametrize(
    ("name", "planned"),
    [
        ("rise less change below, of pds: x, c1", "change below pds c1"),
        ("rise of pds: x, c1", "rise pds c1"),
        ("against sam, ece: x, size 3", "against sam, ece 3"),
    ],
)
def test_a_comparison_is_the_longest_name_in_it(name, planned):
    names = ["rise pds c1", "change below pds c1", "against sam, ece 3", "ece"]
    assert planned_name(name, names) == planned
    assert planned_name(names[0], names) == names[0]


@pytest.mark.parametrize("name", ["sam against plain, 3, ece", "width 80", "eces"])
def test_words_are_whole_and_in_their_order(name):
    with pytest.raises(ValueError, match="none of the planned comparisons"):
        planned_name(name, ["plain, sam", "width 8", "ece, 3", "ec"])


@pytest.mark.parametrize("name", [n for n, d in DESIGNS.items() if d.assumed])
def test_what_is_assumed_is_named_as_judges_name_it(name):
    """Every comparison was planned, and what was planned is met."""
    assumed = [*DESIGNS[name].assumed]
    found = [f.where for v in judged() if v.claim == name for f in v.findings]
    met = {planned_name(where, assumed) for where in found}
    # Of divergence no study has the other measures of sharpness.
    never = {n for n in assumed if n.startswith("measure") and n.endswith("kl")}
    assert {*assumed} - met == never


@pytest.mark.parametrize("name", [n for n, d in DESIGNS.items() if "beta" in n])
def test_slopes_differ_as_the_paper_prints_them(name):
    design = DESIGNS[name]
    assert design.of_printed
    axis, ends = ("width", (8, 128)) if "width" in name else ("sparsity", (0.99, 0))
    betas = {
        datum.names.get(axis, 0): datum.record.value
        for datum in printed_evidence().find(["sharpbalance/figure5"], metric="beta")
    }
    ((_, planned),) = design.assumed.items()
    assert planned == pytest.approx(betas[ends[0]] - betas[ends[1]], abs=0.005)
