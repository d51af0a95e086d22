"""What decisions trained, filed at size medium."""

import importlib
import json
import sys
from pathlib import Path
from statistics import fmean

import pytest

from tepui.studies.departures import departures
from tepui.studies.results import read_results

ROOT = Path(__file__).parents[1]
FOUND = ROOT / "docs" / "results" / "decisions" / "002_which_rule"


@pytest.fixture
def make(monkeypatch):
    for folder in ("benchmarks", "docs"):
        monkeypatch.syspath_prepend(str(ROOT / folder))
    yield importlib.import_module("make_medium")
    sys.modules.pop("make_medium")


@pytest.fixture
def filed(make, tmp_path, monkeypatch):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "decisions").symlink_to(FOUND.parent)
    monkeypatch.setattr(make, "HERE", tmp_path)
    make.main()
    return tmp_path / "results" / "medium" / "sharpbalance"


def found(arm):
    files = sorted(FOUND.glob(f"rules_block*_{arm}.json"))
    return [json.loads(file.read_text()) for file in files]


def test_bars_are_the_decisions_numbers(filed):
    record = read_results(filed / "figure7").one(
        item="sharpbalance/figure7a", method="sharpbalance", metric="ensemble_accuracy"
    )
    expected = [100 * each["corrupted"]["accuracy"] for each in found("paper")]
    assert record.values == pytest.approx(expected)
    assert (record.n, record.value) == (5, pytest.approx(fmean(expected)))


def test_members_are_pairs_only_where_they_do_not_exchange_data(filed):
    bars = read_results(filed / "figure7")
    names = {"item": "sharpbalance/figure7d", "metric": "individual_accuracy"}
    expected = [
        100 * x for r in found("sam") for x in r["clean"]["members"]["accuracy"]
    ]
    assert bars.one(method="sam", **names).members == pytest.approx(expected)
    assert bars.one(method="sharpbalance", **names).members == ()


def test_severities_are_means_over_types(filed):
    record = read_results(filed / "table2").one(method="sam", severity=5)
    (first, *_) = found("sam")
    at_five = [x for name, x in first["copies"].items() if name.endswith("/5")]
    assert len(at_five) == 15
    assert record.values[0] == pytest.approx(100 * fmean(at_five))


def test_results_say_what_differs(filed):
    for folder in ("figure7", "table2"):
        said = [each.what for each in departures(read_results(filed / folder).settings)]
        assert any("severities 1, 3 and 5" in what for what in said)


def test_blocks_without_all_methods_count_where_two_are_compared(make):
    arms = make.arms_of("cifar10")
    short = arms | {"sharpbalance": arms["sharpbalance"][:-1]}
    records = list(make.bars_of("cifar10", short))

    def counts(metric):
        return {r.method: r.n for r in records if r.metric == metric}

    assert {*counts("ensemble_accuracy").values()} == {4}
    for metric in ("individual_accuracy", "eir"):
        assert counts(metric) == {
            "deep_ensemble": 5,
            "sam": 5,
            "sharpbalance": 4,
            "sharpbalance_released": 4,
        }
    members = [r.members for r in records if r.method == "sam" and r.members]
    assert [len(each) for each in members] == [15, 15]
    assert {r.n for r in make.by_severity("cifar10", short)} == {4}


def test_missing_ensembles_are_told(make):
    arms = make.arms_of("cifar10")
    assert list(make.lacking("cifar10", arms)) == []
    (told,) = make.lacking("cifar10", arms | {"sharpbalance": arms["sam"][:3]})
    assert told.what == "3 ensembles of each method on cifar10"


def test_what_is_committed_is_what_the_script_writes(filed):
    committed = ROOT / "docs" / "results" / "medium" / "sharpbalance"
    for folder in ("figure7", "table2", "table3"):
        assert read_results(committed / folder) == read_results(filed / folder)
