"""Data made from other data."""

from dataclasses import dataclass, replace
from functools import partial
from weakref import WeakSet

import pytest
import torch
from torch import nn

from tepui.data import Arrays, ArraysOnDisk, Digits, corrupt
from tepui.methods import DeepEnsemble
from tepui.models import ConvNet
from tepui.papers.reproduce import check_needs
from tepui.studies import derived_data as derived
from tepui.studies.derived_data import (
    Changed,
    Copies,
    Features,
    Misjudged,
    ReleasedCopies,
)
from tepui.studies.job import Job
from tepui.studies.specifications import (
    DataSource,
    EvaluationSpec,
    Samples,
    SharpnessSpec,
    Trial,
)
from tepui.studies.store import MOST_HELD, Store
from tepui.studies.sweep import HoldOut
from tepui.training import TrainingSpec

TRAIN, TEST = Samples(Digits, count=20), Samples(Digits, "test", count=20)
EXTRACTOR = Trial(
    Samples(Digits, count=200),
    partial(ConvNet, width=2),
    TrainingSpec(method=DeepEnsemble(), epochs=12, batch_size=32),
    (3,),
)


@dataclass(frozen=True)
class Held(DataSource):
    """Fixed bytes of another size than digits have."""

    def load(self, store):
        inputs = torch.arange(2 * 12 * 12, dtype=torch.uint8).view(2, 1, 12, 12)
        return Arrays(inputs, torch.tensor([4, 7]))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("store"), device="cpu")


def test_features_are_what_the_classifier_sees(store):
    found = Features(EXTRACTOR, TEST).load(store)
    model = store.run(EXTRACTOR).ensemble.members[0].eval()
    images = TEST.load(store)
    with torch.no_grad():
        own = model.features(images.prepare(images.inputs))
    assert torch.allclose(found.inputs, own, atol=1e-6)
    assert torch.equal(found.targets, images.targets)


def test_features_are_computed_once(store, monkeypatch):
    source = Features(EXTRACTOR, Samples(Digits, "test", count=10))
    first = source.load(store)
    monkeypatch.setattr(derived, "feature_batches", None)
    again = source.load(Store(store.path, device="cpu"))
    assert torch.equal(first.inputs, again.inputs)
    assert torch.equal(first.targets, again.targets)
    with pytest.raises(TypeError):
        Features(EXTRACTOR, Samples(Digits, "test", count=11)).load(store)


def test_features_beyond_memory_stay_on_disk(store, monkeypatch):
    source = Features(EXTRACTOR, Samples(Digits, "test", count=12))
    held = source.load(store)
    monkeypatch.setattr(derived, "HELD", held.inputs.nbytes - 1)
    on_disk = source.load(store)
    assert isinstance(on_disk, ArraysOnDisk)
    assert torch.equal(on_disk.raw(torch.arange(12)), held.inputs)
    assert torch.equal(on_disk.targets, held.targets)


def test_features_of_images_of_another_form(store):
    assert Features(EXTRACTOR, Held()).load(store).inputs.shape == (2, 32)


def test_features_of_a_model_that_comes_trained(store):
    def model():
        layer = nn.Linear(64, 3)
        nn.init.eye_(layer.weight)
        nn.init.zeros_(layer.bias)
        return nn.Sequential(nn.Flatten(), layer, nn.Linear(3, 2))

    found, images = Features(model, TEST).load(store), TEST.load(store)
    seen = images.prepare(images.inputs).flatten(1)
    assert torch.allclose(found.inputs, seen[:, :3])


def test_copies_of_all_types_follow_each_other(store):
    clean = TEST.load(store)
    types = ("contrast", "gaussian_noise")
    found = Copies(TEST, types, 5, seed=2).load(store)
    pixels = (clean.inputs * 255).round().byte()
    for number, name in enumerate(types):
        part = slice(20 * number, 20 * (number + 1))
        assert torch.equal(found.inputs[part], corrupt(pixels, name, 5, seed=2))
        assert torch.equal(found.targets[part], clean.targets)


def test_released_copies_of_all_types_follow_each_other(store):
    def released(types, severities):
        return {
            (name, level): [(name, level)] for name in types for level in severities
        }

    found = ReleasedCopies(released, ("fog", "snow"), 3).load(store)
    assert list(found) == [("fog", 3), ("snow", 3)]


def test_changes_see_floats_and_leave_labels(store):
    whole = Held().load(store).inputs
    found = Changed(Held(), lambda images: 1 - images).load(store)
    assert torch.equal(found.inputs, 255 - whole)
    assert found.targets.tolist() == [4, 7]
    digits = Changed(TEST, lambda images: images / 2).load(store)
    expected = (TEST.load(store).inputs * 127.5).round().byte()
    assert torch.equal(digits.inputs, expected)


def test_changes_beyond_black_and_white_end_there(store):
    for far, byte in ((1.002, 255), (7.0, 255), (-0.002, 0), (-7.0, 0)):
        change = partial(torch.full_like, fill_value=far)
        found = Changed(Held(), change).load(store).inputs
        assert torch.equal(found, torch.full_like(found, byte))


def test_misjudged_images_are_all_that_the_judge_gets_wrong(store):
    test, judge = Samples(Digits, "test", count=60), EXTRACTOR.trained_with(epochs=2)
    found, clean = Misjudged(test, judge).load(store), test.load(store)
    model = store.run(judge).ensemble.members[0].eval()
    with torch.no_grad():
        seen = clean.prepare(clean.inputs)
        wrong = model(seen).argmax(1) != clean.targets
    assert 0 < int(wrong.sum()) < 60
    assert torch.equal(found.inputs, clean.inputs[wrong])
    assert torch.equal(found.targets, clean.targets[wrong])


def test_no_misjudged_images_are_an_error(store, monkeypatch):
    monkeypatch.setattr(
        derived,
        "dataset_logits",
        lambda _, data: (torch.eye(10)[data.targets][None], data.targets),
    )
    with pytest.raises(ValueError, match="images must hold at least one that"):
        Misjudged(TEST, EXTRACTOR).load(store)


def test_equal_descriptions_only_where_all_is_equal():
    sources = [
        Features(EXTRACTOR, TEST),
        Features(EXTRACTOR, TEST, layers=2),
        Features(EXTRACTOR, Copies(TEST, ("fog",), 1)),
        Features(EXTRACTOR, Copies(TEST, ("fog",), 5)),
        Features(partial(ConvNet, width=2), TEST),
    ]
    assert len({each.digest for each in sources}) == len(sources)


def test_missing_files_are_found_through_what_is_derived(store):
    def absent(train):
        raise FileNotFoundError("tepui data fetch Absent")

    hidden = replace(EXTRACTOR, data=Samples(absent))
    works = [
        Job(replace(EXTRACTOR, data=Features(hidden, TEST))),
        Job(replace(EXTRACTOR, data=Features(EXTRACTOR, Copies(hidden.data, (), 1)))),
    ]
    for work in works:
        with pytest.raises(FileNotFoundError, match="fetch Absent"):
            check_needs([work], store)


@dataclass(frozen=True)
class Absent(DataSource):
    """Data of any other kind, made from nothing, whose files are not there."""

    name: str

    def load(self, store):
        raise FileNotFoundError(f"place {self.name} by hand")


def test_all_that_is_missing_is_told_before_anything_is_trained(tmp_path):
    exam = EvaluationSpec(
        Absent("test"), ood=(("far", Features(EXTRACTOR, Changed(Absent("ood"), abs))),)
    )
    store = Store(tmp_path / "store", device="cpu")
    work = Job(EXTRACTOR, (exam,), (SharpnessSpec(print, Absent("measured")),))
    missing = r"test by hand\nplace ood by hand\nplace measured by hand"
    with pytest.raises(FileNotFoundError, match=missing):
        check_needs([work, work], store)
    assert not store.path.exists()


def test_missing_weights_are_told_before_anything_is_trained(store, tmp_path):
    def published():
        torch.rand(3)
        raise OSError("weights are not in the cache")

    features = Features(published, TEST)
    state = torch.random.get_rng_state()
    needing = [
        Job(replace(EXTRACTOR, model=published)),
        Job(EXTRACTOR, (EvaluationSpec(features),)),
        Job(replace(EXTRACTOR, data=HoldOut(Features(published, TRAIN), "kept", 0.5))),
    ]
    for work in needing:
        with pytest.raises(OSError, match="weights are not in the cache"):
            check_needs([work], Store(tmp_path, device="cpu"))
    assert torch.equal(torch.random.get_rng_state(), state)


ALIVE, LOADED = WeakSet(), []


@dataclass(frozen=True)
class Drawn(DataSource):
    """Data of one repetition, which are counted while they are held."""

    repetition: int

    def load(self, store):
        data = Held().load(store)
        ALIVE.add(data)
        LOADED.append((self.repetition, len(ALIVE)))
        return data


@pytest.mark.parametrize("repetitions", [40, 120])
def test_checking_many_repetitions_holds_the_data_of_few(tmp_path, repetitions):
    LOADED.clear()
    store = Store(tmp_path / "store", device="cpu")
    jobs = [Job(replace(EXTRACTOR, data=Drawn(n))) for n in range(repetitions)]
    check_needs(jobs, store)
    seen, alive = zip(*LOADED, strict=True)
    assert seen == tuple(range(repetitions))
    assert max(alive) == MOST_HELD + 1


def test_all_draws_from_the_same_files_are_checked_at_once(tmp_path):
    read = []

    def digits(train):
        read.append(train)
        return Digits(train=train)

    store = Store(tmp_path / "store", device="cpu")
    draws = [Samples(digits, "train", 0.5, 200, seed) for seed in range(9)]
    drawn = []
    dataset = store.dataset
    store.dataset = lambda source: drawn.append(source) or dataset(source)
    check_needs([Job(replace(EXTRACTOR, data=draw)) for draw in draws], store)
    assert read == [True]
    assert sum(source.count == 200 for source in drawn) == 1
    too_many = replace(EXTRACTOR, data=replace(draws[0], count=2000, seed=3))
    with pytest.raises(ValueError, match="count must be at most"):
        check_needs([Job(too_many)], store)


calls = []


def counted():
    calls.append(0)
    return ConvNet(width=2)


def test_models_of_what_is_done_are_not_built(store):
    calls.clear()
    trial = replace(EXTRACTOR, model=counted).trained_with(epochs=1)
    check_needs([Job(trial), Job(replace(trial, seeds=(4,)))], store)
    assert len(calls) == 1
    store.run(trial)
    before = len(calls)
    check_needs([Job(trial)], store)
    assert len(calls) == before
