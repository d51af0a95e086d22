"""Every recipe at smoke size: what its file says, and the paper's numbers beside ours.

Most of the recipes are slow; those that are not share what they train.
"""

import csv
import json
import math
import re
from pathlib import Path
from statistics import fmean, stdev

import pytest
import torch
from scipy import stats

from exam.records import ABOUT, NAMES, RECIPES, axes, exact, made

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
PRINTED = json.loads(Path(__file__).with_name("printed.json").read_text())
FAST = (
    "sharpbalance/figure1",
    "sharpbalance/figure2",
    "sharpbalance/figure14",
    "sharpbalance/table1",
    "sharpbalance/table2",
    "sharpbalance/table8",
    "sed/table1",
    "sed/table2",
    "sed/table3",
    "rethinking/table1",
)
OF_THEORY = {*(f"sharpbalance/figure{number}" for number in (2, 9, 10, 11))}
OF_IMAGES = {"rethinking/figure1"}  # of corrupted images: nothing is trained
CHOSEN = {"sharpbalance/table1", "sed/figure2"}  # values or images, by one ensemble
UNITS = "percent, percentage points, fraction, ratio, count, epochs, minutes, none"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return what gives a recipe's document; recipes share what they train."""
    folder, found = tmp_path_factory.mktemp("recipes"), {}

    def document(item):
        if item not in found:
            found.update(made([item], folder))
        return found[item]

    return document


def rows(document):
    """Return the rows of the table that has the paper's numbers beside ours."""
    for file in document["folder"].iterdir():
        if file.suffix in {".md", ".csv"}:
            lines = [line.strip().strip("|") for line in file.read_text().splitlines()]
            cut = "|" if file.suffix == ".md" else ","
            cells = [*csv.reader((x for x in lines if x.count(cut) > 5), delimiter=cut)]
            heads, *rest = [[cell.strip() for cell in row] for row in cells]
            if {"paper", "ours", "n"} <= {*heads}:
                every = [dict(zip(heads, row, strict=True)) for row in rest]
                return [row for row in every if not {*row["n"]} <= {*"-:"}]
    raise AssertionError("no table has columns for the paper and for ours")


def numbers_in(cell):
    return [float(number) for number in re.findall(r"-?\d[\d.]*(?:e[+-]\d+)?", cell)]


over_all = pytest.mark.parametrize(
    "item",
    [
        pytest.param(item, marks=() if item in FAST else pytest.mark.slow)
        for item in RECIPES
    ],
)


@over_all
def test_a_recipe_says_what_it_measured_and_how(item, written):
    document = written(item)
    assert document["source"] == "ours"
    assert document["size"] == "smoke"
    said = document["environment"]
    assert said["torch"] == torch.__version__
    assert {"numpy", "python", "hardware"} < {*said}
    assert {"tepui", "reproduce", item, "--size=smoke"} < {*said["command"].split()}
    assert re.search(r"seeds?\b.*\d", json.dumps(document["settings"]))
    assert document["records"]
    places = {
        json.dumps([*map(record.get, NAMES), axes(record)])
        for record in document["records"]
    }
    assert len(places) == len(document["records"])
    for record in document["records"]:
        assert {*ABOUT} <= {*record}
        assert re.fullmatch(rf"{item}[a-z]?", record["item"])
        assert record["unit"] in UNITS.split(", ")
        trained = record["config_hash"] != ""
        assert trained == (
            item not in OF_THEORY | OF_IMAGES
            and record["item"] != "sharpbalance/figure1b"
        )
        assert math.isfinite(record["value"])


@over_all
def test_a_mean_is_that_of_its_repetitions(item, written):
    repeated = 0
    for record in written(item)["records"]:
        values = [value for value in record["values"] if value is not None]
        if not values or record["metric"] == "beta":
            continue
        assert record["n"] == len(values)
        assert record["value"] == pytest.approx(fmean(values))
        if len(values) > 1 and record["sem"] is not None:
            repeated += 1
            error = stdev(values) / len(values) ** 0.5
            assert record["sem"] == pytest.approx(error)
            reach = stats.t.ppf(0.975, len(values) - 1) * error
            ends = [record["value"] - reach, record["value"] + reach]
            assert record["interval"] == pytest.approx(ends)
    assert repeated > 0 or item in OF_THEORY | OF_IMAGES | CHOSEN


@over_all
def test_the_table_has_ours_beside_the_papers(item, written):
    document = written(item)
    table = rows(document)
    assert len(table) == len(document["records"])
    for row, record in zip(table, document["records"], strict=True):
        assert [row[name] for name in ("dataset", "method", "metric")] == [
            record[name] for name in ("dataset", "method", "metric")
        ]
        assert row["n"] == str(record["n"])
        assert numbers_in(row["ours"])[0] == pytest.approx(record["value"], rel=1e-3)
    for printed in (each for each in PRINTED if each["recipe"] == item):
        names = {k: v for k, v in printed.items() if k not in {"recipe", "paper"}}
        (row,) = (row for row in table if names.items() <= row.items())
        assert numbers_in(row["paper"]) == printed["paper"]
    kinds = {file.suffix for file in document["folder"].iterdir()}
    assert "/figure" not in item or kinds & {".png", ".svg"}


def test_what_was_asked_for_is_what_was_done(written, tmp_path):
    item = "sharpbalance/table2"
    words = ["--epochs=1", "--ensembles=3", "--members=4", "--rho=0.07"]
    (found,) = made(
        [item], tmp_path, *words, "--methods", "deep_ensemble", "sam"
    ).values()
    assert {record["method"] for record in found["records"]} == {"deep_ensemble", "sam"}
    assert {record["ensemble_size"] for record in found["records"]} == {4}
    assert {record["n"] for record in found["records"]} == {3}
    said = json.dumps(found["settings"])
    assert '"epochs": 1' in said
    assert '"rho": 0.07' in said
    usual = {record["config_hash"] for record in written(item)["records"]}
    assert usual.isdisjoint(record["config_hash"] for record in found["records"])
    again = made([item], tmp_path, *words, "--methods", "deep_ensemble", "sam")
    assert exact(again[item]) == exact(found)
