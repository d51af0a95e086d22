"""What decisions trained, filed at size medium."""

import importlib
import json
import runpy
import sys
from pathlib import Path
from statistics import fmean

import pytest

from tepui.methods import SharpBalance
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


def test_sets_of_the_released_rule_are_told_where_they_are_those_of_cifar10(make):
    trained = {
        name: {
            (r["described"]["fraction"], r["described"]["leftover"])
            for r in make.arms_of(name)["sharpbalance_released"]
        }
        for name in make.DECISIONS
    }
    code = {name: SharpBalance.released(name) for name in make.DECISIONS}
    other = [n for n, m in code.items() if trained[n] != {(m.fraction, m.leftover)}]
    assert other == ["cifar100"]
    folder = ROOT / "docs" / "results" / "medium" / "sharpbalance"
    told = {
        item: [
            each.what
            for each in departures(read_results(folder / item).settings)
            if 'leftover="boost"' in each.what
        ]
        for item in ("figure7", "table2", "table3")
    }
    assert {item: len(said) for item, said in told.items()} == {
        "figure7": 1,
        "table2": 0,
        "table3": 1,
    }


def without_last(arms, *methods):
    return arms | {method: arms[method][:-1] for method in methods}


def test_blocks_count_that_have_every_method(make):
    arms = make.arms_of("cifar10")
    rest = arms["sam"][1:]
    kept = make.in_all(without_last(arms, "sharpbalance") | {"sam": rest})
    blocks = {tuple(r["block"] for r in found) for found in kept.values()}
    assert blocks == {(3, 4, 5)}


def test_two_methods_alone_have_their_own_study(make):
    arms = {method: found[:5] for method, found in make.arms_of("cifar10").items()}
    there = {
        "cifar10": without_last(arms, "sharpbalance"),
        "cifar100": arms | {"sam": arms["sam"][1:], "sharpbalance": []},
    }
    order, pairs = make.alone(there, ("a",))
    assert order.label == "medium+ensembles=4+methods=deep_ensemble,sam"
    blocks = {
        (name, method): [r["block"] for r in found]
        for name, both in pairs.items()
        for method, found in both.items()
    }
    assert blocks == {
        ("cifar10", "deep_ensemble"): [2, 3, 4, 5],
        ("cifar10", "sam"): [2, 3, 4, 5],
        ("cifar100", "deep_ensemble"): [3, 4, 5, 6],
        ("cifar100", "sam"): [3, 4, 5, 6],
    }


def test_missing_ensembles_are_told(make):
    arms = {method: found[:5] for method, found in make.arms_of("cifar10").items()}
    order = make.Order("medium")
    assert list(make.lacking(order, "cifar10", arms)) == []
    (told,) = make.lacking(order, "cifar10", without_last(arms, *arms))
    assert told.what == "4 of 5 ensembles of each method on cifar10"
    (told,) = make.lacking(order._replace(ensembles=7), "cifar10", arms)
    assert told.what == "5 of 7 ensembles of each method on cifar10"


def on(place, results):
    return [{**r, "environment": {**r["environment"], **place}} for r in results]


def test_results_of_several_machines_name_them_all(make, tmp_path, monkeypatch):
    whole = make.read

    def read(folder):
        found = whole(folder)
        return on({"hardware": "another GPU"}, found[:1]) + found[1:]

    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "decisions").symlink_to(FOUND.parent)
    monkeypatch.setattr(make, "HERE", tmp_path)
    monkeypatch.setattr(make, "read", read)
    make.main()
    written = read_results(tmp_path / "results" / "medium" / "sharpbalance" / "figure7")
    places = written.environment["trained_on"]
    assert {each["hardware"] for each in places} == {"NVIDIA H200", "another GPU"}
    assert all("command" not in each and each["torch"] for each in places)
    page = runpy.run_path(str(ROOT / "docs" / "make_results.py"))
    page["shown"].__globals__["DOCS"] = tmp_path
    said = page["shown"](tmp_path / "results" / "medium" / "sharpbalance" / "figure7")
    assert "another GPU, torch" in said
    assert "NVIDIA H200, torch" in said


def test_one_machine_is_named_once_whatever_was_run_there(make):
    arms = make.arms_of("cifar10")
    other = {"command": "another", "tepui": "9.9"}
    changed = {method: on(other, found) for method, found in arms.items()}
    place = make.made_on({"cifar10": arms})
    assert make.made_on({"cifar10": arms, "other": changed}) == place
    assert place["hardware"] == "NVIDIA H200"


def test_what_is_committed_is_what_the_script_writes(filed):
    """Byte for byte, whichever machine wrote it, but for the pictures."""
    results = filed.parents[1]
    written = sorted(results.glob("medium*/sharpbalance/*/results.json"))
    assert len(written) == 4
    for file in written:
        committed = ROOT / "docs" / "results" / file.relative_to(results)
        assert committed.read_bytes() == file.read_bytes()


def test_measured_values_stay_whole(filed):
    (first, *_) = found("sam")
    record = read_results(filed / "figure7").one(
        item="sharpbalance/figure7d", method="sam", metric="eir"
    )
    assert record.values[0] == first["clean"]["eir"]
    statistics = record.value, record.sem, *record.interval
    assert [float(f"{number:.9g}") for number in statistics] == [*statistics]
