import dataclasses
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest
import torch

from study_cases import EXAM, MEASURE, TRIAL
from tepui.core.spec import document
from tepui.data import Digits, HorizontalFlip
from tepui.losses import CrossEntropy
from tepui.methods import SAM
from tepui.models import MLP
from tepui.modules.pruning import Prune
from tepui.studies.derived_data import Features
from tepui.studies.specifications import (
    DataSource,
    EvaluationSpec,
    Samples,
    Trial,
    any_draw,
    digest,
    seeds,
)
from tepui.studies.store import Store
from tepui.studies.sweep import HoldOut
from tepui.training import SGD, Constant, EarlyStopping, TrainingSpec

CHANGES = {
    "data": Samples(Digits, count=63),
    "model": partial(MLP, hidden=(7,)),
    "method": SAM(rho=0.2),
    "seeds": (4, 3),
    "epochs": 3,
    "batch_size": 16,
    "optimizer": SGD(lr=0.2),
    "schedule": Constant(),
    "augment": (HorizontalFlip(),),
    "keep": "best",
    "accumulate": 2,
    "clip_norm": 1.0,
    "ema": 0.9,
    "part_at": 1,
    "loss": CrossEntropy(label_smoothing=0.1),
    "prune": Prune(sparsity=0.5),
    "unlabeled": Samples(Digits),
    "precision": "bfloat16",
    "early_stopping": EarlyStopping(patience=3),
}


def changed(**changes):
    own = {name: changes.pop(name) for name in vars(TRIAL).keys() & changes.keys()}
    return replace(TRIAL, **own).trained_with(**changes)


def test_all_that_weights_depend_on_changes_the_name():
    fields = [*dataclasses.fields(Trial), *dataclasses.fields(TrainingSpec)]
    assert CHANGES.keys() | {"training"} == {field.name for field in fields}
    names = [changed(**{key: value}).digest for key, value in CHANGES.items()]
    assert len({TRIAL.digest, *names}) == len(CHANGES) + 1


def test_equal_descriptions_have_equal_names():
    again = Trial(
        data=Samples(Digits, count=64),
        model=partial(MLP, hidden=(6,)),
        training=TrainingSpec(method=SAM(rho=0.1), epochs=2, batch_size=32),
        seeds=(3, 4),
    )
    assert again.digest == TRIAL.digest


@pytest.mark.slow
def test_names_are_the_same_in_another_process():
    code = "from study_cases import TRIAL, EXAM, MEASURE as M; "
    code += "print(TRIAL.digest, EXAM.digest, M.digest)"
    run = [sys.executable, "-c", code]
    tests = Path(__file__).parents[1]
    found = subprocess.run(run, capture_output=True, text=True, check=True, cwd=tests)
    assert found.stdout.split() == [TRIAL.digest, EXAM.digest, MEASURE.digest]


def test_samples_are_drawn_by_the_seed(tmp_path):
    store = Store(tmp_path)
    first, again = (Samples(Digits, count=50).load(store) for _ in range(2))
    other = Samples(Digits, count=50, seed=1).load(store)
    assert torch.equal(first.inputs, again.inputs)
    assert not torch.equal(first.inputs, other.inputs)
    assert len(Samples(Digits, part="test").load(store)) == len(Digits(train=False))


def test_a_store_reads_a_data_set_once_whatever_is_drawn_from_it(tmp_path, monkeypatch):
    read, original = [], Digits.__init__

    def counted(self, *args, **options):
        read.append(options)
        original(self, *args, **options)

    monkeypatch.setattr(Digits, "__init__", counted)
    store = Store(tmp_path)
    for seed in range(3):
        for part in ("train", "held_out", "test"):
            store.dataset(Samples(Digits, part, 0.5, count=20, seed=seed))
    assert read == [{"train": True}, {"train": False}]


def test_what_is_held_out_is_not_trained_on_and_comes_from_training(tmp_path):
    store = Store(tmp_path)
    every = Samples(Digits, count=80).load(store)
    parts = [
        Samples(Digits, part=part, held_out=0.25, count=80).load(store)
        for part in ("train", "held_out")
    ]
    assert [len(part) for part in parts] == [60, 20]
    rows = [tuple(x.flatten().tolist()) for part in parts for x in part.inputs]
    assert sorted(rows) == sorted(tuple(x.flatten().tolist()) for x in every.inputs)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"part": "val"}, "part must be one of"),
        ({"held_out": 1.0}, "held_out must lie in"),
        ({"part": "held_out"}, "held_out must be positive"),
    ],
)
def test_bad_samples(change, message):
    with pytest.raises(ValueError, match=message):
        Samples(Digits, **change)


def test_too_many_samples(tmp_path):
    with pytest.raises(ValueError, match="count must be at most 1437"):
        Samples(Digits, count=1438).load(Store(tmp_path))


@pytest.mark.parametrize("change", [{"seeds": ()}, {"epochs": 0}])
def test_bad_trials(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        changed(**change)


def test_seeds_of_repetitions_do_not_overlap_and_nest():
    drawn = [seeds(repetition, 5) for repetition in range(4)]
    assert len({seed for group in drawn for seed in group}) == 20
    assert seeds(2, 5)[:3] == seeds(2, 3)
    with pytest.raises(ValueError, match="members"):
        seeds(0, 1001)


def test_a_trial_and_an_exam_never_share_a_name():
    assert digest(EvaluationSpec(TRIAL.data)) != digest(TRIAL.data)


def made_in(module):
    """Return a class of this name, as if another module had defined it."""
    return type("Numerals", (Digits,), {"__module__": module})


def test_classes_of_the_same_name_are_told_apart():
    mine, other = (made_in(module) for module in ("mine", "other"))
    sources = [Samples(kind) for kind in (Digits, mine, other)]
    sources += [Samples(partial(kind, download=True)) for kind in (Digits, mine, other)]
    assert len({digest(source) for source in sources}) == 6


def test_values_of_classes_of_the_same_name_are_told_apart():
    def method(module):
        kind = type("Twin", (SAM,), {"__module__": module})
        return dataclasses.dataclass(frozen=True, kw_only=True)(kind)(rho=0.1)

    names = {changed(method=method(module)).digest for module in ("mine", "other")}
    assert len({*names, TRIAL.digest}) == 3


def test_positional_arguments_are_told_apart():
    models = [partial(MLP), partial(MLP, 5), partial(MLP, 6)]
    assert len({changed(model=model).digest for model in models}) == 3


def test_a_script_and_its_workers_agree_on_names():
    script, worker = made_in("__main__"), made_in("__mp_main__")
    assert digest(Samples(script)) == digest(Samples(worker))


def test_classes_of_tepui_keep_their_plain_names():
    about = document(TRIAL)
    assert about["class"] == "Trial"
    assert about["data"]["dataset"] == {"class": "Digits"}
    assert about["model"]["class"] == "MLP"


def test_a_name_once_known_is_no_part_of_what_it_names():
    fresh, named = changed(), changed()
    assert named.digest
    assert fresh == named
    assert fresh.about == named.about
    assert replace(named, seeds=(7,)).digest != named.digest
    assert fresh.digest == named.digest
    assert named.digest is named.digest


@dataclass(frozen=True)
class Fold(DataSource):
    """A source whose seed names a file."""

    seed: int

    def load(self, store):
        raise FileNotFoundError(f"fold{self.seed}.pt")


def test_any_draw_is_of_samples_alone_at_any_depth():
    def features(seed, members):
        drawn = Samples(Digits, count=50, seed=seed)
        trained = changed(data=drawn, unlabeled=drawn, seeds=members)
        return HoldOut(Features(trained, drawn), "kept", 0.5, seed=4)

    assert any_draw(features(7, (7, 9))) == features(0, (0, 1))
    assert any_draw(features(7, (7,))) != any_draw(features(7, (7, 9)))
    assert any_draw(Fold(3)) == Fold(3)
