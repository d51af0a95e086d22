"""What the table of designs says of the studies that were run."""

import math
from dataclasses import replace
from statistics import median

import pytest

from claim_cases import CASES
from tepui.papers.claims.designs import design_of
from tepui.papers.claims.evidence import Datum, Evidence
from tepui.papers.claims.judging import CLAIMS, verdicts
from tepui.papers.claims.power import Power
from tepui.papers.claims.tables import designs, largest_run, noise_found, whole

CLAIM = next(claim for claim in CLAIMS if claim.name == "sharpbalance/wins-ood")
DESIGN = design_of(CLAIM)
POWER = {CLAIM.name: Power(0.9, 0.0, 0.01)}


def evidence(size, *, n=6, way=-1, without=()):
    kept = [each for each in CASES[CLAIM.name](way) if each.item[-2:] not in without]
    cut = [replace(each, values=each.values[:n], n=n) for each in kept]
    return Evidence(tuple(Datum(each, size) for each in cut))


def judged(*several):
    return verdicts(sum(several[1:], several[0]), [CLAIM])


def row(found):
    table = designs(POWER, found, [CLAIM])
    cells = [c.strip() for c in table.splitlines()[2].strip("|").split("|")]
    return cells[-2:], table


def test_a_study_with_all_its_units_is_whole():
    found = judged(evidence("medium", n=5))
    cells, table = row(found)
    assert cells[0] == "5 ensembles"
    assert cells[1] == "**refuted**"
    assert "1 of these 1 studies were run whole. Of 1 of them the verdict" in table


def test_noise_is_told_beside_the_planned_one():
    (found,) = judged(evidence("medium", n=5))
    ratio = noise_found(CLAIM, DESIGN, found)
    errors = [replace(each, error=2 * each.error) for each in found.findings]
    twice = replace(found, findings=tuple(errors))
    assert noise_found(CLAIM, DESIGN, twice) == pytest.approx(2 * ratio)
    noises = [each.error * math.sqrt(each.n) for each in found.findings]
    planned = 0.385  # two comparisons with 0.25, from one first half, two with 0.52
    assert ratio == pytest.approx(median(noises) / planned)
    nothing = replace(found, findings=(replace(found.findings[0], error=None),))
    assert noise_found(CLAIM, DESIGN, nothing) is None
    assert f"| {ratio:.2g} |" in row([found])[1]


def test_only_what_decides_or_rules_something_out_stands():
    (found,) = judged(evidence("medium", n=5))
    for outcome, excludes, shown in (
        ("undecided", ("zero",), "**undecided, excludes zero**"),
        ("undecided", (), "undecided"),
        ("supported", (), "**supported**"),
    ):
        cells, table = row([replace(found, outcome=outcome, excludes=excludes)])
        assert cells[1] == shown
        assert f"Of {int('**' in shown)} of them the verdict stands" in table


def test_a_study_whose_treatment_did_not_take_is_not_whole():
    (found,) = judged(evidence("medium", n=5))
    off = replace(found, outcome="undecided", p=None, excludes=())
    assert not whole(CLAIM, off, DESIGN)
    cells, table = row([off])
    assert cells[1] == "not judged"
    assert "0 of these 1 studies were run whole" in table


@pytest.mark.parametrize(
    ("study", "says"),
    [
        (evidence("medium", n=4), "4 ensembles"),
        (evidence("medium", without=["7b"]), "6 ensembles, without figure7b"),
    ],
    ids=["too few", "a panel missing"],
)
def test_a_study_that_lacks_something_is_not(study, says):
    (found,) = judged(study)
    assert not whole(CLAIM, found, DESIGN)
    cells, table = row([found])
    assert cells == [says, "refuted"]
    assert "0 of these 1 studies" in table


def test_what_a_size_never_has_does_not_count_as_missing():
    (found,) = judged(evidence("medium", without=["7c"]))
    assert found.missing == ()
    assert whole(CLAIM, found, DESIGN)


def in_units(found, *units):
    """Return a verdict whose comparisons count these, in turn."""
    counted = (units * len(found.findings))[: len(found.findings)]
    findings = zip(found.findings, counted, strict=True)
    return replace(found, findings=tuple(replace(f, unit=u) for f, u in findings))


def test_ensembles_are_no_members():
    """As many ensembles as members were planned tell more, but are another study."""
    (found,) = judged(evidence("medium", n=6))
    of_members = replace(DESIGN, unit="members")
    assert not whole(CLAIM, found, of_members)
    assert whole(CLAIM, in_units(found, "members"), of_members)


@pytest.mark.parametrize("decides", ["members", "ensembles"])
@pytest.mark.parametrize("planned", ["members", "ensembles", ""])
def test_members_and_ensembles_mixed_are_not_what_was_planned(planned, decides):
    (found,) = judged(evidence("medium", n=6))
    mixed = replace(in_units(found, "members", "ensembles"), unit=decides)
    assert not whole(CLAIM, mixed, replace(DESIGN, unit=planned))


def test_a_plan_without_a_unit_is_in_the_claim_s():
    """Points of a fit, or members, are not as many ensembles."""
    (found,) = judged(evidence("medium", n=6))
    assert DESIGN.unit == ""
    assert whole(CLAIM, in_units(found, "", CLAIM.unit), DESIGN)
    for other in ("members", "points"):
        assert not whole(CLAIM, replace(in_units(found, other), unit=other), DESIGN)
    assert row([replace(in_units(found, "points"), unit="points")])[0] == [
        "6 points",
        "refuted",
    ]


def test_the_fewest_units_count():
    some = evidence("medium", n=3, without=["7a", "7c"])
    others = evidence("medium", n=6, without=["7b"])
    (found,) = judged(some + others)
    assert found.fewest.n == 3


def test_a_comparison_of_one_unit_counts_though_it_has_no_error():
    """It is left out of the verdict, but the study was not run with more."""
    some = evidence("medium", n=1, without=["7a", "7c"])
    (found,) = judged(some + evidence("medium", n=6, without=["7b"]))
    assert found.n == 6
    assert found.fewest.n == 1
    assert not whole(CLAIM, found, DESIGN)
    assert row([found])[0] == ["1 ensembles", "refuted"]


def test_a_study_of_single_units_says_so():
    (found,) = judged(evidence("medium", n=1))
    assert row([found])[0] == ["1 ensembles", "not judged"]


def test_the_unit_is_that_of_the_comparison_with_the_fewest():
    (found,) = judged(evidence("medium", n=5))
    first, *others = found.findings
    mixed = replace(first, unit="members", n=3), *others
    assert row([replace(found, findings=mixed)])[0][0] == "3 members"


def test_some_comparisons_may_have_been_planned_with_fewer():
    some = evidence("medium", n=3, without=["7a", "7c"])
    (found,) = judged(some + evidence("medium", n=6, without=["7b"]))
    planned = replace(DESIGN, n=6, fewer={"figure7b": 3})
    assert whole(CLAIM, found, planned)
    assert not whole(CLAIM, found, replace(planned, fewer={"figure7a": 3}))
    assert not whole(CLAIM, found, replace(planned, fewer={"figure7b": 4}))


def test_of_several_studies_the_whole_one_is_shown():
    part = evidence("medium+ensembles=6", without=["7b"])
    full = evidence("medium", n=5)
    other_size = evidence("small")
    found = judged(part, full, other_size)
    assert largest_run(CLAIM, DESIGN, found).size == "medium"
    assert largest_run(CLAIM, DESIGN, judged(other_size)) is None
    assert row(judged(other_size))[0] == ["", ""]


def test_an_open_study_says_what_it_rules_out():
    open_ = judged(evidence("medium", n=6, way=0))
    assert row(open_)[0][1] == "undecided"
    beyond = [replace(each, excludes=("zero",)) for each in open_]
    assert row(beyond)[0][1] == "**undecided, excludes zero**"
