"""Sizes mean what they say: as published, or declared with a reason."""

import json
import re
from pathlib import Path

import pytest

from tepui.core.members import hyperparameter_grid
from tepui.data import CIFAR10C, STANDARD
from tepui.methods import SED, DeepEnsemble, SharpBalance
from tepui.papers.recipe import Order, Recipe, load, names
from tepui.papers.sed import protocol as sed
from tepui.papers.sharpbalance import protocol as said
from tepui.studies.departures import departures
from tepui.studies.results import read_results
from tepui.studies.specifications import digest
from tepui.studies.store import Store
from tepui.training.run_folder import RunFolder

NUMBERED = [name for name in names() if isinstance(load(name), Recipe)]
RESULTS = Path(__file__).parents[2] / "docs" / "results"


def order(recipe, size, **changes):
    return Order(size, recipe.panels_at(size, recipe.panels), **changes)


def plan(name, size="paper"):
    recipe = load(name)
    return recipe.plan(order(recipe, size))


def declared(name, size="paper"):
    recipe = load(name)
    return departures(recipe.described(order(recipe, size)))


@pytest.mark.parametrize("name", NUMBERED)
def test_every_departure_has_its_reason_and_is_declared_once(name):
    for size in load(name).sizes:
        found = declared(name, size)
        assert found, size
        assert len({*found}) == len(found)
        assert all(departure.what and departure.why for departure in found)


@pytest.mark.parametrize("name", NUMBERED)
def test_precision_does_not_follow_the_machine_and_bfloat16_is_said(name):
    for size in load(name).sizes:
        used = {job.trial.training.precision for job in plan(name, size)}
        assert used <= {"float32", "bfloat16"}
        words = " ".join(departure.what for departure in declared(name, size))
        assert ("bfloat16" in used) == ("trained in bfloat16" in words)


def test_figure7_follows_the_released_code_where_it_costs_nothing():
    recipe = load("sharpbalance/figure7")
    for letter, count in (("d", 45_000), ("e", 45_000), ("f", 100_000)):
        for job in recipe.plan(Order("paper", (letter,))):
            method, data = job.trial.training.method, job.trial.data
            whole = 100_000 if letter == "f" else 50_000
            assert whole * (1 - data.held_out) == count
            if method != DeepEnsemble():
                base = method.base if isinstance(method, SharpBalance) else method
                assert base.update_statistics
    tiny = recipe.plan(Order("paper", ("f",)))[0].trial
    assert tiny.model.keywords["stem"] == "64px"


def test_what_figure7_does_otherwise_is_what_it_declares():
    jobs = plan("sharpbalance/figure7")
    methods = [job.trial.training.method for job in jobs]
    balanced = [m for m in methods if isinstance(m, SharpBalance)]
    assert all(m.stratified for m in balanced)
    assert not any(m.off_by_one for m in balanced)
    assert said.PUNCTUAL in said.ALWAYS
    assert {test.rule for job in jobs for test in job.evaluations} == {"probability"}
    assert jobs[0].trial.seeds == (0, 1, 2)
    found = declared("sharpbalance/figure7")
    assert {*said.ALWAYS, said.SWITCH, said.SPLIT, said.BFLOAT16} <= {*found}
    assert said.STATISTICS not in found
    assert said.STATISTICS in declared("sharpbalance/figure7", "medium")


def test_pruning_at_once_and_the_search_are_declared():
    pruned = [d for d in declared("sharpbalance/figure5") if "pruned at once" in d.what]
    assert len(pruned) == 1
    # Six radii of SAM and five shares of SharpBalance, on each data set.
    assert len(plan("sharpbalance/table1")) == 3 * 11
    searched = {job.trial.data.source.held_out for job in plan("sharpbalance/table1")}
    assert searched == {0.0}


@pytest.mark.parametrize("size", ["small", "smoke"])
def test_table1_tells_what_it_searches_and_trains_with(size):
    told = [departure.what for departure in declared("sharpbalance/table1", size)]
    assert not any("radius 0.01 for" in what for what in told)
    assert not any("the share of sharp samples" in what for what in told)
    assert not any("begins after half" in what for what in told)
    assert not any("corrupted copies" in what for what in told)
    jobs = plan("sharpbalance/table1", size)
    methods = [job.trial.training.method for job in jobs]
    grid = load("sharpbalance/table1").settings(Order(size))["grid"]["SharpBalance"]
    for field in ("rho", "switch_at"):
        values = {getattr(m, field) for m in methods if isinstance(m, SharpBalance)}
        assert values == {*grid[field]}
    for name in ("cifar10", "cifar100", "tiny_imagenet"):
        recorded = load("sharpbalance/table1").settings(Order(size))[name]
        assert recorded["rho"] == recorded["switch"] == "searched"
        of_epochs = f"epochs {recorded['epochs']} for 200"
        assert any(what.startswith(name) and of_epochs in what for what in told)
        trained = {
            (job.trial.training.epochs, job.trial.data.source.count)
            for job in jobs
            if job.trial.data.source.dataset.__name__ == recorded["trained on"]
        }
        assert (recorded["epochs"], recorded["training samples"]) in trained


def test_table5_names_the_settings_that_the_paper_points_to():
    words = [f"{d.what} {d.why}" for d in declared("sharpbalance/table5")]
    assert any("Appendix D.3" in word for word in words)
    vit = plan("sharpbalance/table5")[0].trial.training
    assert (vit.epochs, vit.batch_size) == (200, 128)


def test_seds_weight_at_small_size_is_the_chosen_one_and_is_declared():
    weights = [d for d in declared("sed/table1", "small") if "weight 3" in d.what]
    assert len(weights) == 1
    methods = [job.trial.training.method for job in plan("sed/table1", "small")]
    assert {m.weight for m in methods if isinstance(m, SED)} == {3.0}
    assert sed.study_of(Order("paper")).weight == 0.1


def test_sed_tells_the_seeds_of_its_trials():
    told = load("sed/table1").settings(Order("small"))
    assert told["seeds"] == {
        "heads": "1000 r + m of member m in repetition r, both from 0",
        "varied hyperparameters": "r",
        "extractor": "1000 r",
        "start that heads share": "r",
        "choice and corruption of images": "r",
    }
    study, r = sed.study_of(Order("small")), 3
    trial = sed.trial(study, "deep_ensemble_varied", r, 5)
    assert trial.seeds[:5] == tuple(1000 * r + m for m in range(5))
    dealt = hyperparameter_grid(len(trial.seeds), seed=r, **sed.GRID)
    assert trial.training.optimizer.lr == dealt["lr"]
    assert trial.model.keywords["start"] == r
    extractor, images = trial.data.extractor, study.images(r)
    assert extractor.seeds == (1000 * r,)
    assert {trial.training.precision, extractor.training.precision} == {
        told["precision"]
    }
    assert images["train"].seed == extractor.data.seed == r
    assert images["imagenet_c1"].seed == images["imagenet_c1"].images.seed == r
    assert {*sed.settings(Order("paper"))["seeds"]} == {
        "heads",
        "varied hyperparameters",
    }


def test_sed_can_be_repeated_and_says_what_its_code_does_otherwise():
    words = " ".join(d.what for d in declared("sed/table1"))
    for word in ("cosine", "augmented", "four", "200 classes"):
        assert word in words
    assert sed.study_of(Order("paper", ensembles=3)).ensembles == 3


@pytest.fixture
def installed(tmp_path, monkeypatch):
    monkeypatch.setenv("TEPUI_DATA", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("item", ["sharpbalance/figure7d", "rethinking/table1"])
def test_released_copies_are_taken_where_they_are_installed(item, installed):
    name, letters = item.rstrip("d"), tuple("d" if item.endswith("d") else "")
    recipe, asked = load(name), Order("paper", letters)
    made = recipe.plan(asked)[0].evaluations[0]
    assert made.released is None
    words = " ".join(map(str, departures(recipe.described(asked))))
    assert "CIFAR10C is not installed" in words
    (installed / CIFAR10C.origin.folders[0]).mkdir()
    read = recipe.plan(asked)[0].evaluations[0]
    assert read.released is CIFAR10C
    assert read.digest != made.digest
    assert "made by tepui" not in str(departures(recipe.described(asked)))


def test_medium_is_the_papers_data_with_half_the_width_in_less_than_an_hour(installed):
    jobs = plan("sharpbalance/figure7", "medium")
    assert len(jobs) == 2 * 4 * 5
    for job in jobs:
        assert job.trial.data.dataset.__name__ in ("CIFAR10", "CIFAR100")
        assert job.trial.model.keywords["width"] == 32
        assert job.trial.training.epochs == 40
        assert job.trial.training.precision == "bfloat16"
        assert job.evaluations[0].types == STANDARD
    others = [plan(f"sharpbalance/table{n}", "medium") for n in (2, 3)]
    known = {job.trial.digest for job in jobs}
    assert all(job.trial.digest in known for more in others for job in more)


@pytest.mark.parametrize("name", NUMBERED)
def test_medium_has_what_it_says(name):
    recipe = load(name)
    if "medium" not in recipe.sizes:
        with pytest.raises(ValueError, match="size must be one of paper, small, smoke"):
            recipe.plan(Order("medium", recipe.panels))
        return
    jobs = plan(name, "medium")
    assert {len({*job.trial.seeds}) for job in jobs} <= {1, 2, 3, 4, 5}
    assert {job.trial.data.held_out for job in jobs} == {0.1}


def test_a_short_result_is_not_of_its_size():
    recipe = load("sharpbalance/figure7")
    asked = order(recipe, "paper", epochs=80, ensembles=1)
    assert asked.label == "paper+epochs=80+ensembles=1"
    words = [d.what for d in departures(recipe.described(asked))]
    assert "cifar10: ensembles 1 for 3, epochs 80 for 200" in words


# Names of all that these figures and tables train at small size, and of the tests, as
# stores have them: digests of documents that hold every field and write a class
# as ``{"class": name}``: another form of the document, or a new field, changes them.
STORED = {
    "sharpbalance/figure5": "9e64d4871b8c",
    "sharpbalance/table1": "f9e56bcea921",
    "sharpbalance/table5": "c35cb210f654",
    "rethinking/table1": "d3f5d0b1c141",
}


@pytest.mark.parametrize("name", STORED)
def test_what_stores_hold_keeps_its_name(name):
    jobs = plan(name, "small")
    digests = [
        [job.trial.digest, *(test.digest for test in job.evaluations)] for job in jobs
    ]
    assert digest(sorted(digests)) == STORED[name]


def test_committed_results_hold_departures():
    for file in RESULTS.glob("*/*/*/results.json"):
        found = departures(read_results(file.parent).settings)
        assert found
        assert all(departure.what and departure.why for departure in found)


def test_committed_results_tell_seeds_and_precision():
    files = sorted(RESULTS.rglob("results.json"))
    assert files
    for file in files:
        found = read_results(file.parent)
        told = found.settings
        words = [each.what for each in departures(told)]
        by_words = any(what.startswith("seeds ") for what in words)
        assert told.get("seeds") or by_words, file
        blocks = [each for each in told.values() if isinstance(each, dict)]
        of_data = [each for each in blocks if "trained on" in each] or [told]
        used = {each.get("precision") for each in of_data}
        on_gpu = "NVIDIA" in str(found.environment)
        auto = set() if on_gpu else {"auto"}  # on a CPU that was float32
        assert used <= {"float32", "float64", "bfloat16", *auto}, file


SMALL = [
    file.parent
    for file in sorted(RESULTS.glob("small/*/*/results.json"))
    if "made_by" not in read_results(file.parent).settings
]


@pytest.mark.parametrize("folder", SMALL, ids=lambda each: "/".join(each.parts[-2:]))
def test_committed_results_say_what_their_recipes_do_today(folder):
    recorded = read_results(folder).settings
    recipe = load("/".join(folder.parts[-2:]))
    asked = Order("small", tuple(recorded["panels"]))
    today = {"panels": list(asked.panels), **recipe.described(asked)}
    assert as_stored(recorded) == as_stored(today)


def as_stored(settings):
    """Settings as files have them: a class by its name, and float32 for "auto"."""
    text = json.dumps(settings).replace('"auto"', '"float32"')
    return json.loads(re.sub(r'{"class": ("\w+")}', r"\1", text))


def test_precision_of_a_trial_is_that_of_its_run(tmp_path):
    trial = plan("sharpbalance/figure7", "smoke")[0].trial
    store = Store(tmp_path, device="cpu")
    for name in ("float32", "tf32"):
        of_its_own = trial.trained_with(precision=name, epochs=1)
        store.run(of_its_own)
        recorded = RunFolder(store.folder(of_its_own)).recorded()
        assert recorded["config"]["precision"] == name
    assert len([*tmp_path.glob("*/run.json")]) == 2
