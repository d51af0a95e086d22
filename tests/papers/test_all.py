"""Every figure and table at its smallest, and what all of them owe their reader."""

import json
import math
import re
from pathlib import Path

import pytest

from tepui.core.storage import read_json
from tepui.papers.recipe import PAPERS, Order, Recipe, load, look_up, names
from tepui.papers.reproduce import reproduce
from tepui.studies.jobs import merged
from tepui.studies.results import read_results
from tepui.studies.store import Store

NUMBERED = [name for name in names() if isinstance(load(name), Recipe)]
UNITS = {
    "percent",
    "percentage points",
    "fraction",
    "ratio",
    "count",
    "epochs",
    "minutes",
    "none",
}


@pytest.fixture(scope="session")
def store(tmp_path_factory, worker_id):
    """One for all processes that test, which share what they train as studies do."""
    base = tmp_path_factory.getbasetemp()
    base = base if worker_id == "master" else base.parent
    return Store(base / "store", device="cpu")


@pytest.mark.slow  # the exam makes some of them
@pytest.mark.filterwarnings("ignore:SharpBalance exchanges nothing")
@pytest.mark.parametrize("name", NUMBERED)
def test_runs_at_smoke(name, store, tmp_path):
    item, recipe, panels = look_up(name)
    found = reproduce(item, recipe, Order("smoke", panels), store, tmp_path)
    assert found.records
    for record in found.records:
        paper, number = record.item.split("/")
        assert paper in PAPERS
        assert re.fullmatch(rf"{item.split('/')[1]}[a-z]?", number)
        assert record.unit in UNITS
        assert record.value is None or math.isfinite(record.value)
        if record.interval and record.value is not None:
            assert record.interval[0] <= record.value <= record.interval[1]
    assert read_results(tmp_path).records == found.records
    read_json(tmp_path / "results.json")
    json.loads((tmp_path / "results.json").read_text(), parse_constant=_refuse)
    table = (tmp_path / "table.md").read_text()
    assert "| paper | ours |" in table
    assert "What differs from the paper:" in table
    lines = (tmp_path / "results.csv").read_text().splitlines()
    assert len(lines) == len(found.records) + 1
    drawn = (tmp_path / "figure.svg").exists() and (tmp_path / "figure.png").exists()
    assert drawn == (recipe.draw is not None)


@pytest.mark.parametrize("name", NUMBERED)
def test_plans_at_paper_size_without_data(name, tmp_path, monkeypatch):
    monkeypatch.setenv("TEPUI_DATA", str(tmp_path))
    _, recipe, panels = look_up(name)
    order = Order("paper", panels)
    assert recipe.settings(order)
    for work in merged(recipe.plan(order)):
        assert work.trial.training.epochs > 0


@pytest.mark.parametrize("name", NUMBERED)
def test_each_panel_is_part_of_the_whole(name):
    item, recipe, panels = look_up(name)
    whole = {work.trial.digest for work in recipe.plan(Order("small", panels))}
    for panel in panels:
        assert look_up(f"{item}{panel}")[2] == (panel,)
        part = {work.trial.digest for work in recipe.plan(Order("small", (panel,)))}
        assert part <= whole


def test_every_committed_result_can_be_read_and_names_no_folder_of_a_machine():
    folder = Path(__file__).parents[2] / "docs" / "results"
    for file in folder.glob("*/*/*/results.json"):
        size, paper, item = file.parts[-4:-1]
        found = read_results(file.parent)
        assert found.size == size
        assert re.fullmatch(rf"{found.item}[a-z]?", f"{paper}/{item}")
        assert not re.search(r"--(out|store) /", found.environment["command"])


def _refuse(constant):
    raise AssertionError(f"{constant} is not JSON")
