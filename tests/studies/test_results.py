import csv
import io
import json
from dataclasses import replace

import pytest
import torch
from scipy import stats

from study_cases import TRIAL
from tepui.core.storage import read_document, write_document
from tepui.studies import t_interval
from tepui.studies.results import (
    FILE,
    KIND,
    Record,
    as_csv,
    averaged,
    config_hash,
    read_results,
    results,
    write_results,
)

NAMES = {
    "item": "sharpbalance/figure7a",
    "dataset": "cifar10_c",
    "architecture": "resnet18",
    "unit": "percent",
}
CPU = torch.device("cpu")


def record(method="sam", metric="eir", values=(1.0, 2.0, 4.0), **other):
    return averaged(values, [TRIAL], method=method, metric=metric, **{**NAMES, **other})


def some(**other):
    rows = [record(), record("deep_ensemble"), record(at={"severity": 5})]
    return results(
        NAMES["item"], "bars", "small", {"differs": "all"}, rows, CPU, **other
    )


def test_a_mean_has_the_error_and_interval_of_students_t():
    found = record()
    assert found.value == pytest.approx(7 / 3)
    assert found.sem == pytest.approx(stats.sem([1, 2, 4]))
    assert found.interval == pytest.approx(t_interval([1.0, 2.0, 4.0]))
    assert found.n == 3
    assert found.config_hash == config_hash([TRIAL]) != ""


def test_results_of_one_panel_are_named_by_it():
    def named(*items):
        rows = [record(item=item) for item in items]
        return results("x/figure7", "bars", "small", {}, rows, CPU).name

    assert named("x/figure7a") == "x/figure7a"
    assert named("x/figure7a", "x/figure7b") == "x/figure7"
    assert named("another") == named() == "x/figure7"


def test_what_is_not_defined_is_left_out():
    found = record(values=(None, 3.0))
    assert (found.value, found.n, found.sem, found.interval) == (3.0, 1, None, None)
    assert record(values=(None,)).value is None


def test_written_and_read_again(tmp_path):
    found = some()
    write_results(tmp_path, found)
    assert read_results(tmp_path) == found
    document = json.loads((tmp_path / FILE).read_text())
    assert document["source"] == "ours"
    assert document["environment"]["command"]


def test_damaged_results_say_what_to_do(tmp_path):
    write_results(tmp_path, some())
    document = read_document(tmp_path / FILE, KIND)
    del document["records"][0]["values"]
    write_document(tmp_path / FILE, KIND, document)
    with pytest.raises(ValueError, match=r"damaged \(KeyError.*make them again"):
        read_results(tmp_path)


def test_coordinates_stand_beside_names_as_in_the_papers_numbers(tmp_path):
    write_results(tmp_path, some())
    rows = json.loads((tmp_path / FILE).read_text())["records"]
    assert [row.get("severity") for row in rows] == [None, None, 5]
    with pytest.raises(
        ValueError, match="at must use names that are not fields of a record"
    ):
        results("x", "y", "small", {}, [record(at={"value": 3})], CPU)


def test_records_are_found_by_names_and_coordinates():
    found = some()
    assert len(found.find(method="sam")) == 2
    assert found.one(method="sam", severity=5).at == {"severity": 5}
    with pytest.raises(ValueError, match=r"name one record of .*, not 2"):
        found.one(method="sam")
    with pytest.raises(ValueError, match="not 0"):
        found.one(method="gsam")


def test_two_records_of_one_name_are_refused():
    with pytest.raises(ValueError, match="have different names"):
        results("x", "y", "small", {}, [record(), record(values=(9.0,))], CPU)


def test_csv_has_a_line_per_record_and_a_column_per_coordinate():
    rows = list(csv.DictReader(io.StringIO(as_csv(some()))))
    assert [row["severity"] for row in rows] == ["", "", "5"]
    assert float(rows[0]["value"]) == pytest.approx(7 / 3)
    assert float(rows[0]["low"]) < float(rows[0]["high"])


def test_csv_says_what_the_data_really_were():
    settings = {"cifar10": {"trained on": "Digits"}, "stand-ins": {"mine": "noise"}}
    named = [record(dataset=name) for name in ("cifar10", "cifar10_c", "mine", "other")]
    text = as_csv(results("a/b", "t", "small", settings, named, CPU))
    rows = csv.DictReader(io.StringIO(text))
    assert [(row["dataset"], row["data"]) for row in rows] == [
        ("cifar10", "Digits"),
        ("cifar10_c", "corrupted Digits"),
        ("mine", "noise"),
        ("other", ""),
    ]


def test_a_record_of_a_fit_keeps_its_interval(tmp_path):
    fit = Record(
        **NAMES, method="sam", metric="beta", value=0.3, n=12, interval=(0.1, 0.5)
    )
    write_results(tmp_path, results("x", "y", "small", {}, [fit], CPU))
    assert read_results(tmp_path).records == (fit,)


def test_no_cell_is_taken_for_a_formula(tmp_path):
    names = ["=1+1", "+x", "-x", "@x", "\tx", "plain", "a=b"]
    how = {"values": (-0.5,), "at": {"width": -3}}
    found = [record(name, note=name, **how) for name in names]
    text = as_csv(results("a/b", "t", "small", {}, found, CPU))
    rows = [*csv.DictReader(io.StringIO(text))]
    for row, name in zip(rows, names, strict=True):
        expected = name if name in ("plain", "a=b") else f"'{name}"
        assert row["method"] == row["note"] == expected
        assert (row["value"], row["width"]) == ("-0.5", "-3")


def test_the_long_table_has_a_line_for_every_value(tmp_path):
    pandas = pytest.importorskip("pandas")
    trials = [replace(TRIAL, seeds=(7 * n, 7 * n + 1)) for n in range(3)]
    names = {**NAMES, "method": "sam", "metric": "accuracy"}
    values, members = (0.5, None, 0.75), (0.5, 0.25, None, None, 0.625, 1.0)
    both = averaged(values, trials, members=members, at={"severity": 5}, **names)
    fit = Record(value=2.0, n=9, **{**names, "metric": "beta"})
    write_results(tmp_path, results("x", "y", "small", {}, [both, fit], CPU))
    table = pandas.read_csv(tmp_path / "records.csv")
    assert len(table) == 3 + 6 + 1
    for of, expected in (("ensemble", values), ("member", members), ("fit", (2.0,))):
        found = table[table["of"] == of]["value"]
        assert found.astype(object).where(found.notna(), None).to_list() == [*expected]
    seeds = table[table["of"] == "member"]["seed"].to_list()
    assert seeds == [0, 1, 7, 8, 14, 15]
    assert table[table["of"] == "ensemble"]["seed"].to_list() == [0, 7, 14]
    assert {*table["config_hash"].dropna()} == {config_hash(trials)}
    assert read_results(tmp_path).records == (both, fit)
