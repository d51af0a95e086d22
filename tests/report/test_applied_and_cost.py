"""Calibration, coverage and the cost of a prediction on the page."""

import re
from dataclasses import replace
from html import unescape

import tepui
from report_cases import comparison, shown, text
from tepui.data import Digits
from tepui.ensembles.ensemble import Ensemble
from tepui.models import ConvNet
from tepui.report.applied import applied_parts
from tepui.report.cost import prediction_table

COST = {
    "parameters": 2_500_000,
    "bytes": 10 * 2**20,
    "operations": 3_000_000,
    "seconds": 0.004,
    "peak_bytes": None,
    "device": "cpu, 2 threads",
}
SCORES = {"accuracy": 0.91, "nll": 0.25, "ece": 0.01, "brier": 0.1}
SETS = {"promised": 0.9, "coverage": 0.88, "size": 1.5}


def changed(given, **fields):
    """Return a comparison whose first method's ensembles have other fields."""
    first, *others = given.methods
    ensembles = tuple(replace(item, **fields) for item in first.ensembles)
    return replace(given, methods=(replace(first, ensembles=ensembles), *others))


def words(html):
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", html)))


def test_the_cost_of_a_prediction_stands_beside_the_scores():
    (group,) = shown(changed(comparison(), cost=COST)).groups
    seen = words(prediction_table(group))
    scores = "90.00 87.41 to 92.59 0.400"
    assert f"A 2.5 3 4 10 – {scores} cpu, 2 threads" in seen  # noqa: RUF001 - a dash
    assert " B " not in seen  # it was not measured
    assert "What a prediction of one ensemble costs" in text(
        shown(changed(comparison(), cost=COST))
    )


def test_a_comparison_without_costs_has_no_such_table():
    (group,) = shown(comparison()).groups
    assert prediction_table(group) is None
    assert applied_parts(group) == []


def test_calibrated_scores_and_coverage_over_severities():
    given = comparison()
    own = dict(given.methods[0].ensembles[0].evaluation)
    hard = {**SCORES, **SETS, "coverage": 0.42, "size": 2.5}
    clean = {**SCORES, **SETS}
    own["applied"] = {"clean": clean, "severities": {"1": clean, "5": hard}}
    own["applied"]["natural"] = {"sketch": {**clean, "coverage": 0.61}}
    (group,) = shown(changed(given, evaluation=own)).groups
    seen = words("".join(applied_parts(group)))
    assert "A as trained 90.00 0.400" in seen
    assert "A calibrated 91.00 0.250" in seen
    assert "promised % clean severity 1 severity 5 sketch" in seen
    assert "coverage % 90.00 88.00 88.00 42.00 61.00" in seen
    assert "size 1.500 1.500 2.500" in seen  # of which nothing was promised


def test_before_and_after_are_of_the_same_ensembles():
    given = comparison()
    first, *others = given.methods
    own = dict(first.ensembles[0].evaluation, applied={"clean": SCORES})
    own["clean"] = {**own["clean"], "nll": 0.3}
    ensembles = (replace(first.ensembles[0], evaluation=own), first.ensembles[1])
    given = replace(given, methods=(replace(first, ensembles=ensembles), *others))
    (group,) = shown(given).groups
    assert "A as trained 90.00 0.300" in words("".join(applied_parts(group)))


def test_sets_without_a_calibration_show_coverage_alone():
    given = comparison()
    own = dict(given.methods[0].ensembles[0].evaluation)
    clean = {**dict.fromkeys(SCORES), **SETS}
    own["applied"] = {"clean": clean, "severities": {}}
    (group,) = shown(changed(given, evaluation=own)).groups
    seen = words("".join(applied_parts(group)))
    assert "Before and after" not in seen
    assert "Coverage of conformal sets" in seen


def test_tepui_evaluate_writes_what_a_prediction_costs(tmp_path):
    from tepui.cli.main import main

    ensemble = Ensemble.build(ConvNet, members=2, seed=1)
    ensemble.save(tmp_path / "run")
    main(
        ["evaluate", str(tmp_path / "run"), "--data", "Digits", "--corruptions", "none"]
    )
    found = tepui.report.loading.load_reports([tmp_path / "run"])
    cost = found.groups[0].entries[0].result.ensembles[0].cost
    weights = sum(p.numel() for p in ensemble.parameters())
    assert cost["parameters"] == weights
    assert "latency, ms" in text(found)
    assert (
        len(Digits(train=False))
        == found.groups[0].entries[0].result.ensembles[0].evaluation["samples"]
    )


def test_the_page_says_where_the_promise_of_sets_breaks():
    given = comparison()
    own = dict(given.methods[0].ensembles[0].evaluation)
    clean = {**SETS, "coverage": 0.9, "samples": 1000}
    for coverage, broken in ((0.55, True), (0.89, False)):
        own["applied"] = {"clean": clean, "severities": {"5": {**clean}}}
        own["applied"]["severities"]["5"]["coverage"] = coverage
        (group,) = shown(changed(given, evaluation=own)).groups
        said = words("".join(map(str, applied_parts(group))))
        told = "Conformal sets cover 55 % of corrupted samples, not the 90 % promised"
        assert (told in said) == broken
        assert ("promised: the promise holds for data like" in said) == broken
