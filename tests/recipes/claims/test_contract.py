"""Every claim can come out in every way, and says what it rests on."""

import random
from dataclasses import replace
from functools import cache

import pytest

from claim_cases import CASES
from tepui.recipes.base import PAPERS
from tepui.recipes.claims.evidence import Datum, Evidence
from tepui.recipes.claims.judging import CLAIMS, verdicts
from tepui.recipes.claims.tables import cells

BY_NAME = {claim.name: claim for claim in CLAIMS}
WAYS = {1: "supported", -1: "refuted", 0: "undecided"}


def evidence(records, size="small"):
    return Evidence(tuple(Datum(each, size, "tepui reproduce x") for each in records))


def verdict(name, data):
    (found,) = verdicts(data, [BY_NAME[name]])
    return found


@cache
def case(name, way):
    return evidence(CASES[name](way))


def cases(way):
    each = [pytest.param(name, case(name, way), id=name) for name in CASES]
    return pytest.mark.parametrize(("name", "data"), each)


def test_every_claim_has_a_case():
    assert sorted(CASES) == sorted(BY_NAME)
    assert len(BY_NAME) == len(CLAIMS)
    assert {name.split("/")[0] for name in BY_NAME} == {*PAPERS}


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
    single = [
        replace(
            each.record, values=each.record.values[:1], n=1, sem=None, interval=None
        )
        for each in data.data
    ]
    found = verdict(name, evidence(single))
    assert found.outcome == "undecided"


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
    held = [each for each in CASES[name](1) if each.dataset == "cifar100_c"]
    failed = [each for each in CASES[name](-1) if each.dataset == "cifar10_c"]
    assert verdict(name, evidence([*held, *failed])).outcome == "supported"


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
