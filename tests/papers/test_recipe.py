import re
from dataclasses import replace

import pytest

from study_cases import EXAM, TRIAL
from tepui.papers.published import AXES, NAMES, printed, published
from tepui.papers.recipe import Diagram, Numbers, Order, Recipe, load, look_up, names
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
        ("overridden: epochs=80, where paper size has 200", "the command says so"),
        ("overridden: methods=sam", "the command says so"),
    ]
    assert {job.trial.training.epochs for job in recipe.plan(order)} == {80}
    assert len(recipe.plan(order)) == 3 < len(recipe.plan(plain))


def test_names_of_methods_are_told_whole_whatever_is_in_them():
    recipe = Recipe("title", lambda order: (), lambda order: {})
    order = Order("smoke", epochs=2, methods=("sam+", "a+b=c"))
    found = recipe.described(order)
    assert [each["what"] for each in found["differs"]] == [
        "overridden: epochs=2",
        "overridden: methods=sam+,a+b=c",
    ]


LONG = {"epochs": 71, "ensembles": 71, "members": 71, "rho": 71.5}


@pytest.mark.parametrize("name", names())
def test_what_is_overridden_stands_beside_what_it_replaces(name):
    recipe = load(name)
    for size in getattr(recipe, "sizes", ()):
        order = Order(size, recipe.panels_at(size, recipe.panels))
        for override in {*LONG} & {*recipe.overrides}:
            asked = order._replace(**{override: LONG[override]})
            (*_, told) = departures(recipe.described(asked))
            given = rf"{override}={LONG[override]}"
            begin = rf"overridden: {given}, where {size} size has [\d.]+"
            assert re.match(begin, told.what)
            assert ("paper size has " in told.what) == ("paper" in recipe.sizes)


@pytest.mark.parametrize(
    ("name", "order", "untrue", "told"),
    [
        (
            "sharpbalance/figure7",
            Order("medium", ("d",), ensembles=7),
            "5 for 3 ensembles",
            "ensembles=7, where medium size has 5 and paper size has 3",
        ),
        (
            "sharpbalance/figure7",
            Order("small", ("d", "e"), epochs=3),
            "for 200 epochs",
            "epochs=3, where small size has 30 and paper size has 200 (cifar10); small "
            "size has 8 and paper size has 200 (cifar100)",
        ),
        (
            "sharpbalance/figure5",
            Order("small", ("a",), epochs=3),
            "10 epochs in this figure",
            "epochs=3, where small size has 10 and paper size has 200",
        ),
        (
            "sharpbalance/table5",
            Order("small", epochs=3),
            "epochs for",
            "epochs=3, where small size has 16 and paper size has 200 (cifar100); "
            "small size has 4 and paper size has 10 (mrpc)",
        ),
        (
            "sharpbalance/table7",
            Order("small", ensembles=6),
            "2 for 3 ensembles",
            "ensembles=6, where small size has 2 and paper size has 3",
        ),
        (
            "sed/table3",
            Order("small", ensembles=650),
            "4 repetitions for one",
            "ensembles=650, where small size has 4 and paper size has 1",
        ),
        (
            "rethinking/table1",
            Order("small", members=50),
            "5 seeds for 10",
            "members=50, where small size has 5 and paper size has 10",
        ),
        (
            "rethinking/table1",
            Order("small", epochs=3),
            "30 epochs for 100",
            "epochs=3, where small size has 30 and paper size has 100",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and "/" in value else "",
)
def test_what_is_overridden_is_not_told_of_the_size(name, order, untrue, told):
    recipe = load(name)
    found = [each.what for each in departures(recipe.described(order))]
    assert found[-1] == f"overridden: {told}"
    assert not any(untrue in what for what in found)
    plain = order._replace(epochs=None, ensembles=None, members=None)
    usual = [each.what for each in departures(recipe.described(plain))]
    assert any(untrue in what for what in usual)


def test_an_override_that_changes_nothing_hides_nothing():
    recipe = load("sharpbalance/figure7")
    plain = Order("medium", ("d",))
    usual = departures(recipe.described(plain))
    *found, told = departures(recipe.described(plain._replace(ensembles=5)))
    assert found == usual
    assert told.what == "overridden: ensembles=5"


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
