"""What every figure and table owes its reader, at every size, and its lookup."""

import json
import math
import re
from functools import cache
from pathlib import Path

import pytest

from tepui.core.storage import read_lines
from tepui.data import CIFAR10C, STANDARD
from tepui.methods import DeepEnsemble, SharpBalance
from tepui.papers.claims.tables import rounded
from tepui.papers.published import AXES, NAMES, printed, published
from tepui.papers.recipe import (
    BY_COMMAND,
    DIFFERS,
    PAPERS,
    REASONS,
    Order,
    Recipe,
    load,
    look_up,
    names,
)
from tepui.papers.reproduce import reproduce, rows
from tepui.papers.sharpbalance.protocol import PROTOCOLS
from tepui.papers.writing import as_json, free_paths, write_files
from tepui.studies import Record, Results
from tepui.studies.jobs import merged
from tepui.studies.results import read_results, results_of
from tepui.studies.specifications import digest
from tepui.studies.store import Store

NUMBERED = [name for name in names() if isinstance(load(name), Recipe)]
COMMITTED = Path(__file__).parents[2] / "research" / "papers.jsonl"
UNITS = "percent, percentage points, fraction, ratio, count, epochs, minutes, none"
LENGTHS = {"epochs": 71, "ensembles": 7, "members": 4, "rho": 0.37}
over_all = pytest.mark.parametrize("name", NUMBERED)


def order(name, size, **changes):
    recipe = load(name)
    return Order(size, recipe.panels_at(size, recipe.panels), **changes)


def plan(name, size="paper", **changes):
    return load(name).plan(order(name, size, **changes))


def differs(name, size="paper", **changes):
    return load(name).described(order(name, size, **changes))[DIFFERS]


@cache
def committed():
    return [results_of(line) for line in read_lines(COMMITTED, "results")]


@pytest.fixture(scope="session")
def store(tmp_path_factory, worker_id):
    """One for all processes that test, which share what they train as studies do."""
    base = tmp_path_factory.getbasetemp()
    base = base if worker_id == "master" else base.parent
    return Store(base / "store", device="cpu")


@pytest.mark.slow  # the exam makes some of them
@pytest.mark.filterwarnings("ignore:SharpBalance exchanges nothing")
@over_all
def test_runs_at_smoke(name, store, tmp_path):
    item, recipe, panels = look_up(name)
    found = reproduce(item, recipe, Order("smoke", panels), store, tmp_path)
    for record in found.records:
        paper, number = record.item.split("/")
        assert paper in PAPERS
        assert re.fullmatch(rf"{item.split('/')[1]}[a-z]?", number)
        assert record.unit in UNITS.split(", ")
        assert record.value is None or math.isfinite(record.value)
    assert read_results(tmp_path).records == found.records
    table = (tmp_path / "table.md").read_text()
    assert "| paper | ours |" in table
    assert "What differs from the paper:" in table
    lines = (tmp_path / "results.csv").read_text().splitlines()
    assert len(lines) == len(found.records) + 1
    drawn = (tmp_path / "figure.svg").exists() and (tmp_path / "figure.png").exists()
    assert drawn == (recipe.draw is not None)


@over_all
def test_plans_need_no_data_and_panels_are_parts_of_the_whole(
    name, tmp_path, monkeypatch
):
    monkeypatch.setenv("TEPUI_DATA", str(tmp_path))
    item, recipe, panels = look_up(name)
    for size in recipe.sizes:
        there = recipe.panels_at(size, panels)
        jobs = merged(recipe.plan(Order(size, there)))
        assert recipe.settings(Order(size, there))
        assert all(job.trial.training.epochs > 0 for job in jobs)
        whole = {job.trial.digest for job in jobs}
        for panel in there:
            assert look_up(f"{item}{panel}")[2] == (panel,)
            part = {job.trial.digest for job in recipe.plan(Order(size, (panel,)))}
            assert part <= whole
        used = {job.trial.training.precision for job in jobs}
        assert used <= {"float32", "bfloat16"}
        said = " ".join(differs(name, size))
        assert "bfloat16" not in used or "trained in bfloat16" in said
    absent = {"paper", "medium", "small", "smoke"} - {*recipe.sizes}
    for size in absent:
        with pytest.raises(ValueError, match="size must be one of"):
            recipe.plan(Order(size, panels))


@over_all
def test_what_differs_from_the_paper_is_told_once_and_by_its_reason(name):
    recipe = load(name)
    for size in recipe.sizes:
        told = differs(name, size)
        assert told
        assert len(told) == len({*told})
        given = recipe.settings(order(name, size))
        changed = given != recipe.settings(order(name, size)._replace(size="paper"))
        by_size = [each for each in told if each.endswith(f"({REASONS[size]})")]
        assert bool(by_size) == (changed and size != "paper")
        assert not any(BY_COMMAND in each for each in told)
        for override in {*LENGTHS} & {*recipe.overrides}:
            asked = differs(name, size, **{override: LENGTHS[override]})
            words = [each for each in asked if BY_COMMAND in each]
            assert words
            assert all(f"{LENGTHS[override]} for " in each for each in words)


@over_all
def test_every_override_that_a_recipe_takes_changes_its_plan(name):
    recipe, usual = load(name), {job.trial.digest for job in plan(name, "smoke")}
    for override in {*recipe.overrides} - {"methods"}:
        value = {**LENGTHS, "ensembles": 1}[override]
        other = plan(name, "smoke", **{override: value})
        assert {job.trial.digest for job in other} != usual, override
        said = recipe.described(order(name, "smoke", **{override: value}))
        assert said["overrides"] == {override: value}
    for override in {*LENGTHS} - {*recipe.overrides}:
        with pytest.raises(ValueError, match=f"{override} must be left out"):
            plan(name, "smoke", **{override: LENGTHS[override]})


def test_what_is_overridden_is_in_the_label_and_said():
    name = "sharpbalance/figure7"
    asked = order(name, "paper", epochs=80, methods=("sam",))
    assert asked.label == "paper+epochs=80+methods=sam"
    by_command = [
        f"{data}: epochs 80 for 200 ({BY_COMMAND})" for data in PROTOCOLS["paper"]
    ]
    told = differs(name, epochs=80, methods=("sam",))
    assert told[-4:] == [*by_command, f"methods: sam ({BY_COMMAND})"]
    jobs = plan(name, epochs=80, methods=("sam",))
    assert {job.trial.training.epochs for job in jobs} == {80}
    assert 3 * len(jobs) < len(plan(name)) + 4
    assert differs(name, "medium", ensembles=5) == differs(name, "medium")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("sharpbalance/figur7", "near: .*sharpbalance/figure7"),
        ("sharpbalance/figure7z", "near: sharpbalance/figure7a, .*sharpbalance/figure"),
        ("sharpbalance/figure1a", "near: sharpbalance/figure1b, sharpbalance/figure1c"),
        ("sed/table2a", "near: sed/table2"),
        ("nothing", "see tepui reproduce --list"),
        ("nowhere.recipe", "No module"),
        ("tepui.nowhere", "No module"),
    ],
)
def test_unknown_names_say_what_may_be_meant(name, said):
    with pytest.raises(ValueError, match=f"got '{name}'.*{said}"):
        look_up(name)


def test_a_recipe_of_ones_own_is_a_file_and_what_it_misses_is_said(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    lines = ["from tepui.papers.recipe import Recipe", "RECIPE = Recipe('x', 1, 1)"]
    (tmp_path / "own_recipe_of_a_test.py").write_text("\n".join(lines))
    item, recipe, panels = look_up("own_recipe_of_a_test")
    assert (item, recipe.title, panels) == ("own_recipe_of_a_test", "x", ())
    (tmp_path / "incomplete_recipe.py").write_text("import a_library_that_is_missing")
    with pytest.raises(ModuleNotFoundError, match="a_library_that_is_missing"):
        look_up("incomplete_recipe")


FIGURE7A = {
    "item": "sharpbalance/figure7a",
    "dataset": "cifar10_c",
    "architecture": "resnet18",
    "method": "deep_ensemble",
    "metric": "ensemble_accuracy",
    "value": 70.0,
    "unit": "percent",
    "n": 3,
    "at": {"ensemble_size": 3},
}


@pytest.mark.parametrize(
    ("change", "joins"),
    [
        ({}, True),
        ({"at": {"ensemble_size": 2}}, False),
        ({"at": {"ensemble_size": 3, "severity": 5}}, False),
        ({"method": "gsam"}, False),
        ({"item": "sharpbalance/figure7d"}, False),
        ({"dataset": "cifar10"}, False),
    ],
)
def test_only_a_number_of_the_same_names_joins_the_papers(change, joins):
    row = printed(Record(**{**FIGURE7A, **change}))
    assert (row is not None and row["value"] == 75.83) == joins


def test_every_printed_number_joins_a_record_of_its_own_names():
    for row in published():
        if row["item"].endswith("/text") or row["metric"] == "tick_range":
            continue
        at = {axis: row[axis] for axis in AXES if axis in row}
        named = {name: row[name] for name in ("item", *NAMES)}
        found = printed(Record(**named, value=0.0, unit="none", n=1, at=at))
        assert found is not None
        assert found["id"] == row["id"]


@pytest.mark.parametrize("dataset", ["cifar10", "cifar100", "tiny_imagenet"])
def test_paper_size_has_the_papers_hyperparameters(dataset):
    protocol = PROTOCOLS["paper"][dataset]
    own = {
        ("sam", "chosen_rho"): protocol.rho,
        ("sharpbalance", "chosen_rho"): protocol.rho,
        ("sharpbalance", "chosen_fraction"): protocol.fraction,
        ("sharpbalance", "chosen_switch_epoch"): protocol.switch * protocol.epochs,
    }
    rows = [row for row in published() if row["item"] == "sharpbalance/table1"]
    assert own == {
        (row["method"], row["metric"]): row["value"]
        for row in rows
        if row["dataset"] == dataset
    }


def test_figure7_follows_the_released_code_where_it_costs_nothing():
    for letter, count in (("d", 45_000), ("e", 45_000), ("f", 100_000)):
        for job in load("sharpbalance/figure7").plan(Order("paper", (letter,))):
            method, data = job.trial.training.method, job.trial.data
            whole = 100_000 if letter == "f" else 50_000
            assert whole * (1 - data.held_out) == count
            assert job.trial.seeds[0] in (0, 1000, 2000)
            assert job.evaluations[0].rule == "probability"
            if isinstance(method, SharpBalance):
                assert method.stratified
                assert not method.off_by_one
            if method != DeepEnsemble():
                base = method.base if isinstance(method, SharpBalance) else method
                assert base.update_statistics
    assert job.trial.model.keywords["stem"] == "64px"
    assert any("statistics False for True" in d for d in differs(FIGURE7, "medium"))


FIGURE7 = "sharpbalance/figure7"


@pytest.mark.parametrize("item", ["sharpbalance/figure7d", "rethinking/table1"])
def test_released_copies_are_taken_where_they_are_installed(
    item, tmp_path, monkeypatch
):
    monkeypatch.setenv("TEPUI_DATA", str(tmp_path))
    _, recipe, panels = look_up(item)
    asked = Order("paper", panels)
    made = recipe.plan(asked)[0].evaluations[0]
    assert made.released is None
    assert "CIFAR10C is not installed" in str(recipe.described(asked)[DIFFERS])
    (tmp_path / CIFAR10C.origin.folders[0]).mkdir()
    read = recipe.plan(asked)[0].evaluations[0]
    assert read.released is CIFAR10C
    assert read.digest != made.digest
    assert "made by tepui" not in str(recipe.described(asked)[DIFFERS])


def test_medium_is_the_papers_data_with_half_the_width_in_less_than_an_hour():
    jobs = plan(FIGURE7, "medium")
    assert len(jobs) == 2 * 4 * 5
    for job in jobs:
        assert job.trial.data.dataset.__name__ in ("CIFAR10", "CIFAR100")
        assert job.trial.model.keywords["width"] == 32
        assert job.trial.training.epochs == 40
        assert job.trial.training.precision == "bfloat16"
        assert job.trial.data.held_out == 0.1
        assert job.evaluations[0].types == STANDARD
    known = {job.trial.digest for job in jobs}
    for more in ("sharpbalance/table2", "sharpbalance/table3"):
        assert {job.trial.digest for job in plan(more, "medium")} <= known


# Names of all that these figures and tables train at small size, and of the tests, as
# stores have them: digests of documents that hold every field and write a class
# as ``{"class": name}``: another form of the document, or a new field, changes them.
STORED = {
    "sharpbalance/figure5": "2becc20d13ad",
    "sharpbalance/table1": "3fa92777901d",
    "sharpbalance/table5": "1bb0b2650035",
    "rethinking/table1": "2facb8ff1cf3",
}


@pytest.mark.parametrize("name", STORED)
def test_what_stores_hold_keeps_its_name(name):
    digests = [
        [job.trial.digest, *(test.digest for test in job.evaluations)]
        for job in plan(name, "small")
    ]
    assert digest(sorted(digests)) == STORED[name]


def test_committed_results_say_what_was_trained_and_name_no_folder_of_a_machine():
    assert COMMITTED.stat().st_size < 2_500_000
    for found in committed():
        told = found.settings
        assert told[DIFFERS]
        assert told.get("seeds") or any("seeds " in each for each in told[DIFFERS])
        assert not re.search(r"--(out|store) /", found.environment["command"])
        if found.size == "small":
            recipe = load(found.item)
            today = recipe.described(Order("small", tuple(told["panels"])))
            today = rounded(json.loads(json.dumps(today)))
            assert {n: v for n, v in told.items() if n != "seen"} == today, found.item


def column(radii):
    named = {n: v for n, v in FIGURE7A.items() if n not in ("value", "n", "at")}
    records = [Record(value=1.0, n=1, at={"rho": rho}, **named) for rho in radii]
    about = ("sharpbalance/figure7", "title", "small", {}, {})
    headings, *lines = rows(Results(*about, tuple(records)))
    return [line[headings.index("rho")] for line in lines]


def test_coordinates_show_no_noise_of_floats_and_close_ones_stay_apart():
    assert column([0.1 + 0.2, 1 / 3, 1e-7, 2.0]) == ["0.3", "0.333333", "1e-07", "2"]
    close = 0.12345678, math.nextafter(0.12345678, 1), 0.12345679
    assert column(close) == ["0.12345678", "0.12345678", "0.12345679"]
    assert column([1234567, "PDS", True]) == ["1234567", "PDS", "True"]


def test_one_file_in_the_way_keeps_all_from_being_written(tmp_path):
    assert free_paths(tmp_path / "new", ["a"]) == [tmp_path / "new/a"]
    assert not (tmp_path / "new").exists()
    (tmp_path / "b").write_bytes(b"old")
    with pytest.raises(FileExistsError, match=r"b exists; pass overwrite=True"):
        write_files(tmp_path, {"a": b"1", "b": b"2"})
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"old"]
    write_files(tmp_path, {"b": b"2"}, overwrite=True)
    assert (tmp_path / "b").read_bytes() == b"2"
    with pytest.raises(ValueError, match="Out of range"):
        as_json({"a": float("nan")})
