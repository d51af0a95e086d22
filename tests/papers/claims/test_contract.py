"""Every claim can come out in every way, and says what it rests on."""

import random
from dataclasses import replace
from functools import cache

import pytest

from claim_cases import CASES, fitted, repeated, sized
from tepui.papers.claims.evidence import Datum, Evidence
from tepui.papers.claims.judging import CLAIMS, verdicts
from tepui.papers.claims.tables import cells
from tepui.papers.recipe import PAPERS

BY_NAME = {claim.name: claim for claim in CLAIMS}
WAYS = {1: "supported", -1: "refuted", 0: "undecided"}


def evidence(records, size="small"):
    return Evidence(tuple(Datum(each, size, "tepui reproduce x") for each in records))


def verdict(name, data):
    (found,) = verdicts(data, [BY_NAME[name]])
    return found


def once(record):
    """What a single repetition would have left."""
    return replace(record, values=record.values[:1], n=1, sem=None, interval=None)


@cache
def case(name, way):
    return evidence(CASES[name](way))


def cases(way):
    each = [pytest.param(name, case(name, way), id=name) for name in CASES]
    return pytest.mark.parametrize(("name", "data"), each)


def test_every_claim_has_a_case():
    assert sorted(CASES) == sorted(BY_NAME)
    assert len(BY_NAME) == len(CLAIMS)
    assert {name.split("/")[0] for name in BY_NAME} == {*PAPERS} - {"ours"}


@pytest.mark.parametrize("way", WAYS, ids=WAYS.get)
@pytest.mark.parametrize("name", CASES)
def test_every_claim_can_come_out_in_every_way(name, way):
    found = verdict(name, case(name, way))
    assert found.outcome == WAYS[way], found.why
    assert found.p is not None
    assert (found.p <= 0.05) == (way != 0)
    assert found.commands == ("tepui reproduce x",)
    assert found.n > 0
    low, high = found.interval
    assert low <= found.effect <= high
    assert found.why.endswith(".")
    assert cells(found)[0] == WAYS[way]


@cases(1)
def test_order_does_not_matter(name, data):
    shuffled = list(data.data)
    random.Random(0).shuffle(shuffled)
    first, second = verdict(name, data), verdict(name, Evidence(tuple(shuffled)))
    assert (first.outcome, first.p) == (second.outcome, pytest.approx(second.p))
    assert sorted(f.where for f in first.findings) == sorted(
        f.where for f in second.findings
    )


@cases(1)
def test_one_repetition_decides_nothing(name, data):
    found = verdict(name, evidence([once(each.record) for each in data.data]))
    assert (found.outcome, found.p) == ("undecided", None)
    assert found.why == "No comparison has repetitions that differ."


@cases(1)
def test_undefined_numbers_are_left_out(name, data):
    undefined = [replace(each.record, value=None) for each in data.data]
    found = verdict(name, evidence(undefined))
    assert found.outcome == "undecided"
    assert found.effect is None
    assert found.why == "The numbers there allow no comparison."
    (nothing,) = verdicts(evidence([]), [replace(BY_NAME[name], computed=None)])
    assert nothing.why.startswith(f"No data: needs {BY_NAME[name].needs[0]}")


@cases(1)
def test_support_needs_everything_that_is_claimed(name, data):
    claim = BY_NAME[name]
    if len(claim.needs) < 2:
        return
    kept = [each for each in data.data if each.record.item != claim.needs[0]]
    found = verdict(name, Evidence(tuple(kept)))
    assert found.outcome == "undecided"
    assert f"no numbers of {claim.needs[0]}" in found.why


@pytest.mark.parametrize("way", [1, -1])
def test_what_was_measured_once_blocks_nothing(way):
    """An item measured once, whichever way it points, beside others."""
    name, single = "sharpbalance/wins", "sharpbalance/table5"
    for other in (1, -1):
        known = [each for each in CASES[name](way) if each.item != single]
        unknown = [once(each) for each in CASES[name](other) if each.item == single]
        found = verdict(name, evidence([*known, *unknown]))
        assert found.outcome == WAYS[way]
        assert "of 14 comparisons (2 more without a known error left out)" in found.why
        without = verdict(name, evidence(known))
        assert found.p == without.p
        assert without.outcome == {1: "undecided", -1: "refuted"}[way]


@cases(-1)
def test_a_counter_example_refutes_what_is_claimed_always(name, data):
    claim = BY_NAME[name]
    if len(claim.needs) < 2:
        return
    fails = [each for each in data.data if each.record.item == claim.needs[0]]
    holds = [
        Datum(record, "small")
        for record in CASES[name](1)
        if record.item != claim.needs[0]
    ]
    found = verdict(name, Evidence((*fails, *holds)))
    expected = {"always": "refuted", "generally": "undecided"}[claim.scope]
    assert found.outcome == expected, found.why
    assert "fails in" in found.why
    assert "holds in" in found.why


def test_one_place_supports_what_is_claimed_somewhere():
    name = "sharpbalance/gain-at-five"
    both = evidence(CASES[name](1), "paper") + evidence(CASES[name](-1), "small")
    found = verdict(name, both)
    assert found.outcome == "supported"
    assert "fails in 1, holds in 1 of 2" in found.why


def test_a_single_member_of_sharpbalance_is_no_comparison():
    name = "sharpbalance/uncertainty-order"
    data = case(name, 1)
    found = verdict(name, data)
    assert data.find(["sharpbalance/figure15"], ensemble_size=1)
    assert len(found.findings) == 8
    assert not any("ensemble size 1" in each.where for each in found.findings)


def test_a_constant_lead_does_not_grow():
    name = "sharpbalance/gap-size"
    found = verdict(name, evidence(sized([1.0, 1.0, 1.0, 1.0])))
    assert found.outcome == "undecided"
    assert found.effect == pytest.approx(0, abs=1e-9)


def test_a_lead_is_that_over_the_better_baseline():
    """SharpBalance gains on SAM, and falls behind plain ensembles."""
    name = "sharpbalance/gap-size"
    item, metric = "sharpbalance/figure8", "ensemble_accuracy"
    others = [each for each in CASES[name](1) if each.method != "deep_ensemble"]
    plain = [
        repeated(item, "deep_ensemble", metric, 70 + size**2, ensemble_size=size)
        for size in (1, 2, 3, 4, 5)
    ]
    found = verdict(name, evidence([*others, *plain]))
    assert found.outcome == "refuted"
    assert "the better of deep_ensemble and sam" in found.why


@pytest.mark.parametrize("way", WAYS, ids=WAYS.get)
def test_a_slope_that_several_panels_show_counts_once(way):
    def slope(item, diversity="der", config_hash="a", value=0.5 * way):
        names = {"diversity": diversity, "sharpness_measure": "worst_case"}
        item = f"sharpbalance/{item}"
        return fitted(item, "beta", value, 0.2, config_hash=config_hash, **names)

    different = [
        slope("figure3"),
        slope("figure3", diversity="kl"),
        slope("figure4b", config_hash="b"),
        slope("figure5a", config_hash="c"),
    ]
    again = [
        slope("figure4a"),
        slope("figure12c", diversity="kl"),
        slope("figure12f", diversity="kl"),
        slope("figure5b", config_hash="c"),
    ]
    name = "sharpbalance/tradeoff"
    found = verdict(name, evidence([*again, *different]))
    assert found.outcome == WAYS[way]
    assert [each.where.split()[1] for each in found.findings] == [
        "figure12c,",
        "figure3,",
        "figure4b,",
        "figure5a,",
    ]


def test_sizes_are_judged_side_by_side():
    name = "sharpbalance/fisher-curvature"
    both = evidence(CASES[name](1), "paper") + evidence(CASES[name](-1), "small")
    found = verdict(name, both)
    assert len(found.findings) == 2
    assert found.outcome == "refuted"
    assert "small size" in found.why


@pytest.mark.parametrize("name", CASES)
def test_numbers_of_other_studies_change_nothing(name):
    paper = name.split("/")[0]
    others = Evidence(
        tuple(
            datum
            for other in ("sharpbalance/wins", "sed/unique", "rethinking/sam-sharpens")
            if not other.startswith(paper)
            for datum in case(other, -1).data
        )
    )
    alone = verdict(name, case(name, 1))
    assert verdict(name, case(name, 1) + others).p == alone.p
