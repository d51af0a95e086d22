"""Choosing hyperparameters: what is trained, on what, and what is chosen."""

import dataclasses
from functools import partial
from itertools import product

import pytest
import torch

import tepui
from tepui.data import Digits, split
from tepui.methods import SAM, SED, DeepEnsemble, SharpBalance
from tepui.models import MLP, ConvNet
from tepui.studies.derived_data import Features
from tepui.studies.specifications import DataSource, Samples, Trial, samples_in
from tepui.studies.store import Store
from tepui.studies.sweep import HoldOut, hyperparameters, outcome_of, search, sweep
from tepui.training import SGD, TrainingDiverged, TrainingSpec

MODEL = partial(MLP, in_features=64, hidden=(4,))


def trial(method, data=None, **changes):
    values = {"model": MODEL, "seeds": (0, 1), "unlabeled": None}
    values |= {name: changes.pop(name) for name in values.keys() & changes.keys()}
    data = Samples(Digits, count=80) if data is None else data
    training = TrainingSpec(method=method, **{"epochs": 2, "batch_size": 32, **changes})
    return Trial(data=data, training=training, **values)


BALANCED, STUDY = (
    [trial(method, seeds=seeds) for seeds in ((0, 1), (10, 11))]
    for method in (SharpBalance(), SAM(rho=0.05))
)


def test_every_combination_is_a_cell_and_differs_in_nothing_else():
    grid = {"rho": [0.1, 0.2], "fraction": [0.2, 0.4, 0.6]}
    found = search(BALANCED, grid)
    assert found.label == "Digits MLP SharpBalance()"
    assert [tuple(cell.values.values()) for cell in found.combinations] == [
        *product([0.1, 0.2], [0.2, 0.4, 0.6])
    ]
    for cell in found.combinations:
        assert [each.seeds for each in cell.trials] == [(0, 1), (10, 11)]
        for each in cell.trials:
            assert each.training.method == dataclasses.replace(
                SharpBalance(), **cell.values
            )
            back = dataclasses.replace(each, data=STUDY[0].data, seeds=(0, 1))
            assert back.trained_with(method=STUDY[0].training.method) == STUDY[0]


def test_no_test_data_is_in_the_plan():
    for work in search(STUDY, {"rho": [0.1, 0.2]}).work:
        asked = [work.trial.data, *(exam.test for exam in work.evaluations)]
        samples = [each for source in asked for each in samples_in(source)]
        assert samples
        assert {each.part for each in samples} == {"train"}
        assert all(not exam.types and not exam.ood for exam in work.evaluations)


def test_held_out_samples_are_the_rest_of_the_training_samples(tmp_path):
    store, whole = Store(tmp_path), Samples(Digits, count=80)
    kept, held_out = (
        store.dataset(HoldOut(whole, part, 0.25)) for part in ("kept", "held_out")
    )
    assert (len(kept), len(held_out)) == (60, 20)
    rows = {tuple(row.flatten().tolist()) for row in store.dataset(whole).inputs}
    parts = [
        {tuple(row.flatten().tolist()) for row in part.inputs}
        for part in (kept, held_out)
    ]
    assert parts[0] | parts[1] == rows
    assert not parts[0] & parts[1]


@dataclasses.dataclass(frozen=True)
class Doubled(DataSource):
    source: DataSource

    def load(self, store):
        data = store.dataset(self.source)
        return dataclasses.replace(data, inputs=2 * data.inputs)


def test_test_data_are_refused_wherever_they_hide():
    test = Samples(Digits, part="test")
    for data in (test, Doubled(test)):
        with pytest.raises(ValueError, match="data must be made from training data"):
            search([trial(SAM(), data)], {"rho": [0.1]})
        with pytest.raises(ValueError, match="unlabeled data must be made from"):
            search([trial(SAM(), unlabeled=data)], {"rho": [0.1]})
    assert search([trial(SAM(), Doubled(Samples(Digits)))], {"rho": [0.1]})


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"rh": [1]}, r"grid must be one of .*rho.* got 'rh' \(did you mean 'rho'\?\)"),
        ({"weight": [1]}, "grid must be one of"),
        ({}, "grid must name at least one hyperparameter"),
        ({"rho": []}, "grid rho must list at least one value"),
        ({"rho": [0.1, 0.1]}, "grid must list each value once"),
        ({"rho": [1, 1.0]}, r"grid must list each value once, got {'rho': \[1, 1.0\]}"),
        ({"rho": [0.1, -1]}, "rho must be non-negative"),
        ({"rho": ["much"]}, "rho must be a finite number, got 'much'"),
        ({"rho": [float("inf")]}, "rho must be a finite number, got inf"),
        ({"rho": [True]}, "rho must be a finite number, got True"),
        ({"select": ["high"]}, "select must be one of highest, lowest, random"),
        ({"base": ["GSAM"]}, "base must be of type SAM or of type GSAM"),
        ({"betas": [0.9]}, "grid must be one of"),
        ({"hidden": [4]}, "hidden must be a sequence"),
        ({"in_features": [4]}, "grid must be one of"),
        ({"switch_at": [7]}, r"switch_at must lie within the run \(2 epochs\)"),
        ({"fraction": [0.2], "adaptive": [True]}, "grid must be one of.*'adaptive'"),
    ],
)
def test_bad_grids_are_refused(grid, message):
    with pytest.raises(ValueError, match=message):
        search(BALANCED, grid)


@pytest.mark.parametrize(
    ("name", "value", "field", "read"),
    [
        ("width", 5, "model", lambda model: model().config["width"]),
        ("lr", 0.3, "optimizer", lambda optimizer: optimizer.lr),
        ("weight_decay", 0, "optimizer", lambda optimizer: optimizer.weight_decay),
        ("label_smoothing", 0.5, "loss", lambda loss: loss.label_smoothing),
        ("sparsity", 0.8, "prune", lambda prune: prune.sparsity),
        ("members", 5, "seeds", len),
        ("epochs", 7, "epochs", int),
        ("batch_size", 16, "batch_size", int),
        ("average", 0.5, "method", lambda method: method.average),
    ],
)
def test_all_of_a_trial_can_be_varied(name, value, field, read):
    before = trial(SAM(), model=ConvNet)
    found = search([before], {name: [value]})
    (after,) = found.combinations[0].trials
    holder = after if hasattr(after, field) else after.training
    assert read(getattr(holder, field)) == value
    if holder is after:
        back = dataclasses.replace(after, **{field: getattr(before, field)})
    else:
        back = after.trained_with(**{field: getattr(before.training, field)})
    assert dataclasses.replace(back, data=before.data) == before


def test_a_dense_trial_has_one_description():
    dense = trial(SAM(), model=ConvNet)
    found = search([dense], {"sparsity": [0, 0.5]})
    without = search([dense], {"epochs": [dense.training.epochs]})
    assert found.combinations[0].trials == without.combinations[0].trials


def head(start: int, width: int):
    return MLP(in_features=64, hidden=(width,))


def repeated(number, method):
    """One repetition with data, an extractor and a first head of its own."""
    extractor = trial(
        DeepEnsemble(), Samples(Digits, count=80, seed=number), seeds=(100 * number,)
    )
    images = Samples(Digits, count=90, seed=number)
    model = partial(head, start=number, width=4)
    own = tuple(100 * number + member for member in range(2))
    return trial(method, Features(extractor, images), model=model, seeds=own)


def test_repetitions_have_data_of_their_own():
    study = [repeated(number, SED(weight=0.1)) for number in (0, 1)]
    found = search(study, {"weight": [1, 2]})
    assert found.label == "Digits head SED()"
    for cell in found.combinations:
        assert [each.seeds for each in cell.trials] == [(0, 1), (100, 101)]
        for work, base in zip(cell.work, study, strict=True):
            assert work.trial.data == HoldOut(base.data, "kept", 0.1)
            assert [exam.test for exam in work.evaluations] == [
                HoldOut(base.data, "held_out", 0.1)
            ]


def test_the_first_model_of_heads_is_no_hyperparameter():
    known = hyperparameters(repeated(0, SAM()))
    assert "width" in known
    assert "start" not in known


def test_members_with_values_of_their_own_have_one_number():
    dealt = trial(SAM(), optimizer=SGD(lr=(0.1, 0.2)))
    assert "members" not in hyperparameters(dealt)
    found = search([trial(SAM(), seeds=(10, 11))], {"members": [1, 3]})
    assert [[each.seeds for each in cell.trials] for cell in found.combinations] == [
        [(10,)],
        [(10, 11, 12)],
    ]


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"width": [0]}, "width must be positive"),
        ({"width": [2.5]}, "width must be an integer, got 2.5"),
        ({"members": [0]}, "members must be positive"),
        ({"epochs": [0]}, "epochs must be positive"),
        ({"batch_size": [0]}, "batch_size must be positive"),
        ({"sparsity": [1.0]}, "sparsity must be a share"),
        ({"label_smoothing": [2.0]}, "label_smoothing must lie in"),
        ({"lr": [-1.0]}, "lr must be"),
        ({"num_classes": [3]}, "grid must be one of"),
    ],
)
def test_what_a_part_refuses_is_refused_before_training(grid, message):
    with pytest.raises(ValueError, match=message):
        search([trial(SAM(), model=ConvNet)], grid)


def test_a_sub_ensemble_larger_than_the_ensemble_is_refused():
    with pytest.raises(ValueError, match="active"):
        search([trial(SED(active=2))], {"active": [2, 3]})


@pytest.mark.parametrize(
    ("method", "grid", "held"),
    [
        (SAM(), {"rho": [1]}, 1.0),
        (SharpBalance(), {"switch_at": [1]}, 1),
        (SharpBalance(), {"refresh_every": [None]}, None),
        (SharpBalance(), {"select": ["highest"]}, "highest"),
        (SED(active=2), {"alpha": ["none"]}, "none"),
    ],
)
def test_values_have_the_type_of_their_field(method, grid, held):
    found = search([trial(method)], grid)
    (name,) = grid
    value = getattr(found.combinations[0].trials[0].training.method, name)
    assert value == held
    assert type(value) is type(held)


def test_scores_are_those_of_training_without_the_held_out_samples(tmp_path):
    planned = search(STUDY[:1], {"rho": [0.05, 0.5]}, held_out=0.25)
    outcome = sweep(planned, Store(tmp_path, device="cpu"))
    data = Store(tmp_path).dataset(STUDY[0].data)
    kept, held_out = split(data, 0.25, seed=0)
    for row in outcome.rows:
        ensemble = tepui.Ensemble.build(MODEL, 2, (0, 1))
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        options = {"epochs": 2, "batch_size": 32, "progress": "none", "device": "cpu"}
        tepui.fit(ensemble, kept, method=SAM(rho=row.values["rho"]), **options)
        scores = tepui.evaluate(ensemble, held_out).clean
        torch.set_num_threads(before)
        assert row.scores["accuracy"] == (scores.accuracy,)
        assert row.scores["nll"] == (pytest.approx(scores.nll),)
    best = max(
        outcome.rows, key=lambda row: (row.scores["accuracy"], -row.scores["nll"][0])
    )
    assert outcome.chosen is best


class Written:
    """A store whose ensembles scored what a test says."""

    def __init__(self, scores):
        self.scores = scores

    def evaluation(self, trial, exam):
        accuracy, nll = self.scores[trial.training.method.rho, trial.seeds[0]]
        return {"clean": {"accuracy": accuracy, "nll": nll, "individual_accuracy": 0.5}}


@pytest.mark.parametrize(
    ("scores", "chosen"),
    [
        ({0.1: [(0.9, 1.0), (0.7, 1.0)], 0.2: [(0.8, 9.0), (0.9, 9.0)]}, 0.2),
        ({0.1: [(0.9, 1.0), (0.7, 1.0)], 0.2: [(0.7, 0.8), (0.9, 0.9)]}, 0.2),
        ({0.1: [(0.9, 1.0), (0.7, 1.0)], 0.2: [(0.9, 1.0), (0.7, 1.0)]}, 0.1),
        ({0.1: [(0.9, None), (0.7, 1.0)], 0.2: [(0.9, 5.0), (0.7, 5.0)]}, 0.2),
    ],
)
def test_accuracy_decides_then_likelihood_then_order(scores, chosen):
    planned = search(STUDY, {"rho": [0.1, 0.2]})
    flat = {
        (rho, seed): pair
        for rho, pairs in scores.items()
        for seed, pair in zip((0, 10), pairs, strict=True)
    }
    outcome = outcome_of(planned, Written(flat))
    assert outcome.chosen.values == {"rho": chosen}
    losses = [[nll for _, nll in pairs] for pairs in scores.values()]
    assert [list(row.scores["nll"]) for row in outcome.rows] == losses


def test_what_is_trained_is_not_trained_again(tmp_path):
    store = Store(tmp_path, device="cpu")
    first = search(STUDY[:1], {"rho": [0.05]})
    sweep(first, store)
    times = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.safetensors")}
    assert times
    second = search(STUDY[:1], {"rho": [0.05, 0.1]})
    steps = []
    sweep(second, store, advance=steps.append)
    assert sum(steps) == 2 * (2 * 2 + 1)  # two members: two epochs of SAM and one test
    assert {file: file.stat().st_mtime_ns for file in times} == times


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_search_goes_on_where_training_diverges(workers, tmp_path):
    study = [trial(SAM(), seeds=(0, 1)), trial(SAM(), seeds=(10, 11))]
    planned = search(study, {"lr": [1e30, 0.1, 1e20]})
    store = Store(tmp_path, device="cpu")
    left, steps = sum(each.steps_left(store) for each in planned.work), []
    outcome = sweep(planned, store, workers=workers, advance=steps.append)
    assert [row.diverged for row in outcome.rows] == [True, False, True]
    found = [len(row.scores.get("accuracy", ())) for row in outcome.rows]
    assert found == [0, 2, 0]
    assert outcome.chosen is outcome.rows[1]
    assert sum(steps) == left
    assert sweep(planned, store) == outcome  # a second start goes on, too


def test_a_search_in_which_all_diverges_says_so(tmp_path):
    found = search([trial(SAM())], {"lr": [1e30, 1e20]})
    message = "diverged at all values of the grid: .* must stay finite"
    with pytest.raises(TrainingDiverged, match=message):
        sweep(found, Store(tmp_path, device="cpu"))
