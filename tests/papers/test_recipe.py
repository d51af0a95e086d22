from dataclasses import replace

import pytest

from study_cases import EXAM, TRIAL
from tepui.papers.published import AXES, NAMES, printed, published
from tepui.papers.recipe import (
    REASONS,
    Diagram,
    Numbers,
    Order,
    Recipe,
    load,
    look_up,
    names,
)
from tepui.papers.sharpbalance.protocol import PROTOCOLS
from tepui.studies import Job, Record
from tepui.studies.departures import departures

FIGURE7A = {
    "item": "sharpbalance/figure7a",
    "dataset": "cifar10_c",
    "architecture": "resnet18",
    "method": "deep_ensemble",
    "metric": "ensemble_accuracy",
    "value": 70.0,
    "unit": "percent",
    "n": 3,
}


def test_names_are_in_the_order_of_their_numbers():
    figures = [name for name in names() if name.startswith("sharpbalance/figure")]
    numbers = [int(name.removeprefix("sharpbalance/figure")) for name in figures]
    assert numbers == sorted(numbers)


def test_a_panel_is_found_and_the_whole_has_all():
    item, recipe, panels = look_up("sharpbalance/figure7b")
    assert (item, panels) == ("sharpbalance/figure7", ("b",))
    assert isinstance(recipe, Recipe)
    assert look_up("sharpbalance/figure7")[2] == recipe.panels


def test_the_plan_and_the_records_come_from_one_loop():
    asked = []

    def numbers(order):
        for number in range(2):
            job = Job(replace(TRIAL, seeds=(number,)), (EXAM,))
            asked.append(number)
            yield Numbers([job, job], lambda store, number=number: [(store, number)])

    recipe = Recipe("title", numbers, lambda order: {})
    plan = recipe.plan(Order("smoke"))
    assert [(job.trial.seeds, job.evaluations) for job in plan] == [
        ((0,), (EXAM,)),
        ((1,), (EXAM,)),
    ]
    assert [*recipe.records("store", Order("smoke"))] == [("store", 0), ("store", 1)]
    assert asked == [0, 1] * 2


def test_what_is_overridden_is_in_the_label_and_in_the_settings():
    recipe = load("sharpbalance/figure7")
    plain = Order("paper", ("a",))
    order = plain._replace(epochs=80, methods=("sam",))
    assert plain.label == "paper"
    assert "overrides" not in recipe.described(plain)
    assert order.label == "paper+epochs=80+methods=sam"
    found = recipe.described(order)
    assert found["overrides"] == {"epochs": 80, "methods": ("sam",)}
    assert departures(found)[-2:] == [
        ("cifar10: epochs 80 for 200", "the command says so"),
        ("methods: sam", "the command says so"),
    ]
    assert {job.trial.training.epochs for job in recipe.plan(order)} == {80}
    assert len(recipe.plan(order)) == 3 < len(recipe.plan(plain))


BY_COMMAND = "the command says so"
LONG = {"epochs": 71, "ensembles": 71, "members": 71, "rho": 71.5}


@pytest.mark.parametrize("name", names())
def test_what_differs_from_the_paper_is_told_once_and_by_its_reason(name):
    recipe = load(name)
    for size in getattr(recipe, "sizes", ()):
        order = Order(size, recipe.panels_at(size, recipe.panels))
        usual = departures(recipe.described(order))
        reasons = {each.why for each in usual} & {*REASONS.values(), BY_COMMAND}
        assert reasons <= {REASONS[size]} - {REASONS["paper"]}
        changed = recipe.settings(order) != recipe.settings(
            order._replace(size="paper")
        )
        assert bool(reasons) == changed
        for override in {*LONG} & {*recipe.overrides}:
            asked = order._replace(**{override: LONG[override]})
            told = departures(recipe.described(asked))
            words = [each.what for each in told if each.why == BY_COMMAND]
            assert words
            assert all(f"{LONG[override]} for " in what for what in words)
            of_size = " ".join(each.what for each in told if each.why == REASONS[size])
            name_of = words[0].split(": ")[-1].split(f" {LONG[override]}")[0]
            assert f"{name_of} " not in of_size or override == "rho"


def test_an_override_that_changes_nothing_hides_nothing():
    recipe = load("sharpbalance/figure7")
    plain = Order("medium", ("d",))
    usual = departures(recipe.described(plain))
    assert departures(recipe.described(plain._replace(ensembles=5))) == usual


@pytest.mark.parametrize("name", names())
def test_every_override_that_a_recipe_takes_changes_its_plan(name):
    recipe = load(name)
    if isinstance(recipe, Diagram):
        return
    order = Order("smoke", recipe.panels)
    usual = {job.trial.digest for job in recipe.plan(order)}
    values = {"epochs": 7, "ensembles": 1, "members": 3, "rho": 0.3}
    for override in recipe.overrides:
        if override == "methods":
            continue
        other = order._replace(**{override: values[override]})
        assert {job.trial.digest for job in recipe.plan(other)} != usual, override
        assert recipe.described(other)["overrides"] == {override: values[override]}
    for override in {*values} - {*recipe.overrides}:
        with pytest.raises(ValueError, match=f"{override} must be left out"):
            recipe.plan(order._replace(**{override: values[override]}))


def test_a_diagram_says_so():
    assert isinstance(load("sharpbalance/figure6"), Diagram)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("sharpbalance/figur7", "sharpbalance/figure7"),
        ("sharpbalance/figure7z", "sharpbalance/figure7a"),
    ],
)
def test_unknown_names_list_near_ones(name, near):
    with pytest.raises(ValueError, match=f"got '{name}'; near: .*{near}"):
        look_up(name)


@pytest.mark.parametrize("name", ["nothing", "this", "mine/x", "json"])
def test_where_nothing_is_near_the_list_is_named(name):
    with pytest.raises(ValueError, match=f"got '{name}'; see tepui reproduce --list"):
        look_up(name)


def test_a_file_in_the_folder_is_named_without_a_dot(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    lines = ["from tepui.papers.recipe import Recipe", "RECIPE = Recipe('x', 1, 1)"]
    (tmp_path / "own_recipe_of_a_test.py").write_text("\n".join(lines))
    item, recipe, panels = look_up("own_recipe_of_a_test")
    assert (item, recipe.title, panels) == ("own_recipe_of_a_test", "x", ())


def test_a_module_that_is_missing_and_one_that_it_misses(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "incomplete_recipe.py").write_text("import a_library_that_is_missing")
    for name in ("nowhere.recipe", "tepui.nowhere"):
        message = f"item must name a module with a recipe, got '{name}' \\(No module"
        with pytest.raises(ValueError, match=message):
            look_up(name)
    with pytest.raises(ModuleNotFoundError, match="a_library_that_is_missing"):
        look_up("incomplete_recipe")


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("figure7", ["sharpbalance/figure7"]),
        ("Figure7", ["sharpbalance/figure7"]),
        ("SED/Table2", ["sed/table2"]),
        ("figure3", ["sharpbalance/figure3", "sed/figure3"]),
        ("sharpbalance/figure7ad", [f"sharpbalance/figure7{c}" for c in "abcdef"]),
        ("figure7a", [f"sharpbalance/figure7{c}" for c in "abcdef"]),
        ("sed/table2a", ["sed/table2"]),
        ("sharpbalance/figure6a", ["sharpbalance/figure6"]),
    ],
)
def test_names_without_paper_or_with_strange_panels_say_what_is_meant(name, near):
    with pytest.raises(ValueError, match="must name a figure or table") as error:
        look_up(name)
    assert str(error.value).endswith(f"got {name!r}; near: {', '.join(near)}")


def test_a_panel_that_is_a_diagram_says_so():
    with pytest.raises(ValueError, match="it is a diagram") as error:
        look_up("sharpbalance/figure1a")
    assert str(error.value).endswith("sharpbalance/figure1b, sharpbalance/figure1c")


def test_the_papers_numbers_join_ours():
    row = printed(Record(**FIGURE7A, at={"ensemble_size": 3}))
    assert row is not None
    assert row["value"] == 75.83


@pytest.mark.parametrize(
    "change",
    [
        {"at": {"ensemble_size": 2}},
        {"at": {"ensemble_size": 3, "severity": 5}},
        {"method": "gsam"},
        {"item": "sharpbalance/figure7d"},
        {"dataset": "cifar10"},
    ],
)
def test_another_number_does_not_join(change):
    assert printed(Record(**{**FIGURE7A, "at": {"ensemble_size": 3}, **change})) is None


def test_every_printed_number_joins_a_record_of_its_own_names():
    numbered = [row for row in published() if not row["item"].endswith("/text")]
    for row in numbered:
        if row["metric"] == "tick_range":
            continue
        at = {axis: row[axis] for axis in AXES if axis in row}
        names = {name: row[name] for name in ("item", *NAMES)}
        found = printed(Record(**names, value=0.0, unit="none", n=1, at=at))
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
    chosen = {
        (row["method"], row["metric"]): row["value"]
        for row in rows
        if row["dataset"] == dataset
    }
    assert own == chosen
