"""What the table of designs says of the studies that were run."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from claim_cases import CASES
from tepui.papers.claims import designs_table
from tepui.papers.claims.as_run import noise_ratios
from tepui.papers.claims.designs import design_of
from tepui.papers.claims.designs_table import designs
from tepui.papers.claims.evidence import Datum, Evidence, read_evidence
from tepui.papers.claims.judging import CLAIMS, verdicts
from tepui.papers.claims.power import Power, simulated
from tepui.papers.claims.runs import largest_run, stands, whole, whole_runs

DOCS = Path(__file__).parents[3] / "docs"
CLAIM = next(claim for claim in CLAIMS if claim.name == "sharpbalance/wins-ood")
DESIGN = design_of(CLAIM)
POWER = {CLAIM.name: Power(0.9, 0.0, 0.01)}


# Where the design says that the panels are; size medium has no TinyImageNet.
PLACES = {"7a": "cifar10_c", "7b": "cifar100_c"}


def evidence(size, *, n=6, way=-1, without=()):
    panels = {panel: data for panel, data in PLACES.items() if panel not in without}
    kept = [each for each in CASES[CLAIM.name](way) if each.item[-2:] in panels]
    at = {"ensemble_size": 3}
    cut = [
        replace(
            each, values=each.values[:n], n=n, dataset=panels[each.item[-2:]], at=at
        )
        for each in kept
    ]
    return Evidence(tuple(Datum(each, size) for each in cut))


def judged(*several):
    return verdicts(sum(several[1:], several[0]), [CLAIM])


def row(found, as_run=0.5):
    table = designs(POWER, {CLAIM.name: as_run}, found, [CLAIM])
    line = next(each for each in table.splitlines() if each.startswith("| `"))
    cells = [each.strip() for each in line.strip("|").split("|")]
    return cells[-4:], table


def test_a_study_with_all_its_units_is_whole():
    found = judged(evidence("medium", n=5))
    cells, table = row(found)
    assert cells[0] == "5 ensembles"
    assert cells[3] == "**refuted**"
    assert "1 of these 1 studies were run whole. Of 1 of them the verdict" in table


def test_noise_is_told_beside_the_planned_one():
    (found,) = judged(evidence("medium", n=5))
    ratios = noise_ratios(CLAIM, DESIGN, found)
    cells = row([found])[0]
    assert cells[1] == f"{min(ratios):.2g} to {max(ratios):.2g}"
    alike = replace(found, findings=found.findings[:1])
    assert row([alike])[0][1] == f"{noise_ratios(CLAIM, DESIGN, alike)[0]:.2g}"


def test_power_with_the_noise_found_is_told_and_where_it_is_too_low():
    (found,) = judged(evidence("medium", n=5))
    few, table = row([found], 0.791)
    assert few[2] == "79.1 %"
    said = "With it 1 of the 1 verdicts that stand (bold) has less than 80 %: "
    assert f"{said}`{CLAIM.name}` (refuted, 79.1 %).\n" in table
    enough, table = row([found], 0.8)
    assert enough[2] == "80.0 %"
    assert "none of the 1 verdicts that stand (bold) have less than 80 %.\n" in table
    not_whole, table = row(judged(evidence("medium", n=4)), 0.1)
    assert not_whole[1:3] == ["", ""]
    assert "none of the 0 verdicts that stand (bold) have less" in table


def test_what_a_verdict_stands_by_is_counted(monkeypatch):
    (found,) = judged(evidence("medium", n=5))
    undecided = "undecided with an interval that leaves out"
    one = f"1 {undecided} zero or an effect that the paper prints (`{CLAIM.name}`);"
    assumed = f"1 {undecided} nothing but an effect that is assumed here"

    def said(outcome, *excludes):
        return row([replace(found, outcome=outcome, excludes=excludes)])[1]

    assert "1 decided by their test;" in said("refuted", "the planned effect")
    assert one in said("undecided", "zero")
    assert one in said("undecided", "the printed effect", "the planned effect")
    assert assumed in said("undecided", "the planned effect")
    of_printed = replace(DESIGN, of_printed=True)
    monkeypatch.setattr(designs_table, "design_of", lambda _: of_printed)
    assert one in said("undecided", "the planned effect")
    assert f"0 {undecided} zero" in said("undecided")


def test_the_sum_of_kinds_is_what_stands():
    """Of the committed results, whatever they are."""
    found = verdicts(read_evidence(DOCS / "results"))
    runs = whole_runs(CLAIMS, found)
    table = designs(simulated(CLAIMS), dict.fromkeys(runs, 1.0), found)
    counts = re.search(r"Of (\d+) of them .*: (\d+) dec.*; (\d+) und.*; (\d+) ", table)
    total, *kinds = map(int, counts.groups())
    assert total == sum(kinds) == sum(map(stands, runs.values()))


def test_only_what_decides_or_rules_something_out_stands():
    (found,) = judged(evidence("medium", n=5))
    for outcome, excludes, shown in (
        ("undecided", ("zero",), "**undecided, excludes zero**"),
        ("undecided", (), "undecided"),
        ("supported", (), "**supported**"),
    ):
        cells, table = row([replace(found, outcome=outcome, excludes=excludes)])
        assert cells[3] == shown
        assert f"Of {int('**' in shown)} of them the verdict stands" in table


def test_a_study_whose_treatment_did_not_take_is_not_whole():
    (found,) = judged(evidence("medium", n=5))
    off = replace(found, outcome="undecided", p=None, excludes=())
    assert not whole(CLAIM, off, DESIGN)
    cells, table = row([off])
    assert cells[3] == "not judged"
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
    assert cells == [says, "", "", "refuted"]
    assert "0 of these 1 studies" in table


def test_what_a_size_never_has_does_not_count_as_missing():
    (found,) = judged(evidence("medium"))
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
        "",
        "",
        "refuted",
    ]


def test_the_fewest_units_count():
    some = evidence("medium", n=3, without=["7a"])
    others = evidence("medium", n=6, without=["7b"])
    (found,) = judged(some + others)
    assert found.fewest.n == 3


def test_a_comparison_of_one_unit_counts_though_it_has_no_error():
    """It is left out of the verdict, but the study was not run with more."""
    some = evidence("medium", n=1, without=["7a"])
    (found,) = judged(some + evidence("medium", n=6, without=["7b"]))
    assert found.n == 6
    assert found.fewest.n == 1
    assert not whole(CLAIM, found, DESIGN)
    assert row([found])[0] == ["1 ensembles", "", "", "refuted"]


def test_a_study_of_single_units_says_so():
    (found,) = judged(evidence("medium", n=1))
    assert row([found])[0] == ["1 ensembles", "", "", "not judged"]


def test_the_unit_is_that_of_the_comparison_with_the_fewest():
    (found,) = judged(evidence("medium", n=5))
    first, *others = found.findings
    mixed = replace(first, unit="members", n=3), *others
    assert row([replace(found, findings=mixed)])[0][0] == "3 members"


def test_some_comparisons_may_have_been_planned_with_fewer():
    some = evidence("medium", n=3, without=["7a"])
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
    assert row(judged(other_size))[0] == [""] * 4


def test_an_open_study_says_what_it_rules_out():
    open_ = judged(evidence("medium", n=6, way=0))
    nothing = [replace(each, excludes=()) for each in open_]
    assert row(nothing)[0][3] == "undecided"
    beyond = [replace(each, excludes=("zero",)) for each in open_]
    assert row(beyond)[0][3] == "**undecided, excludes zero**"
