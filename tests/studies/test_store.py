import errno
import fcntl
from dataclasses import dataclass, replace
from functools import partial

import pytest
import torch

import tepui
from study_cases import EXAM, MEASURE, TRIAL
from tepui.core.lease import leased
from tepui.core.storage import same_bits
from tepui.data import (
    Arrays,
    Augmentation,
    Digits,
    UniformNoise,
    corrupted,
    write_corrupted,
)
from tepui.data.corruptions import copies
from tepui.data.corruptions.files import CorruptedFiles
from tepui.ensembles.outputs import dataset_logits
from tepui.models import MLP
from tepui.sharpness import worst_case
from tepui.studies import store as module
from tepui.studies.specifications import (
    DataSource,
    EvaluationSpec,
    Samples,
    SharpnessSpec,
)
from tepui.studies.store import Store
from tepui.training import Run


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("store"), device="cpu")
    store.evaluation(TRIAL, EXAM)
    store.measured(TRIAL, MEASURE)
    return store


def weights(run: Run):
    members = run.ensemble.members
    return {
        f"{number}.{name}": tensor
        for number, member in enumerate(members)
        for name, tensor in member.state_dict().items()
    }


def test_a_trial_is_what_fit_makes_of_it(filled):
    run = filled.run(TRIAL)
    ensemble = tepui.Ensemble.build(TRIAL.model, 2, TRIAL.seeds)
    direct = tepui.fit(
        ensemble,
        TRIAL.data.load(filled),
        method=TRIAL.training.method,
        epochs=2,
        batch_size=32,
        device="cpu",
        progress="none",
    )
    assert same_bits(weights(run), weights(direct))


def test_nothing_is_made_twice(filled, monkeypatch):
    def fail(*_, **__):
        raise AssertionError("made again")

    monkeypatch.setattr(module, "evaluate", fail)
    monkeypatch.setattr(module, "measure", fail)
    epochs = []
    again = Store(filled.path, device="cpu")
    again.run(TRIAL, on_epoch=epochs.append)
    assert not epochs
    assert again.is_trained(TRIAL)
    assert again.has(TRIAL, EXAM)
    assert again.evaluation(TRIAL, EXAM) == filled.evaluation(TRIAL, EXAM)
    assert again.measured(TRIAL, MEASURE) == filled.measured(TRIAL, MEASURE)


def test_what_another_process_made_meanwhile_is_not_made_again(tmp_path, monkeypatch):
    """The other comes between the look whether something is there and the lease."""
    faster, slower = (Store(tmp_path, device="cpu") for _ in range(2))
    faster.run(TRIAL)
    made = []
    for name in ("evaluate", "measure"):
        original = getattr(module, name)

        def counted(*given, name=name, original=original, **options):
            made.append(name)
            return original(*given, **options)

        monkeypatch.setattr(module, name, counted)
    lease = slower._lease

    def after_the_other(folder):
        monkeypatch.setattr(slower, "_lease", lease)
        ask(faster)
        return lease(folder)

    for ask in (
        lambda store: store.evaluation(TRIAL, EXAM),
        lambda store: store.measured(TRIAL, MEASURE),
    ):
        slower.run(TRIAL)
        monkeypatch.setattr(slower, "_lease", after_the_other)
        assert ask(slower) == ask(faster)
    assert made == ["evaluate", "measure"]


def test_answers_are_the_members_logits(filled):
    ensemble = filled.run(TRIAL).ensemble
    test = EXAM.test.load(filled)
    answers = filled.logits(TRIAL, EXAM)
    torch.testing.assert_close(answers.clean[0], dataset_logits(ensemble, test)[0])
    copy = corrupted(test)["contrast", 5]
    expected = dataset_logits(ensemble, copy)[0]
    torch.testing.assert_close(answers.shifted["contrast", 5][0], expected)
    assert set(answers.shifted) == {("contrast", 1), ("contrast", 5)}


def test_copies_that_are_too_large_to_keep_give_the_same(filled, tmp_path, monkeypatch):
    monkeypatch.setattr(copies, "KEPT_BYTES", 0)
    other = Store(tmp_path, device="cpu")
    assert other.evaluation(TRIAL, EXAM) == filled.evaluation(TRIAL, EXAM)


@dataclass(frozen=True)
class Fresh(DataSource):
    number: int

    def load(self, store):
        return Arrays(torch.zeros(1, 1), [self.number])


def test_data_are_loaded_once_while_others_are_few(tmp_path):
    store = Store(tmp_path, device="cpu")
    first, second = store.dataset(Fresh(0)), store.dataset(Fresh(1))
    for number in range(2, 32):
        store.dataset(Fresh(number))
    assert store.dataset(Fresh(0)) is first
    store.dataset(Fresh(32))
    assert store.dataset(Fresh(0)) is first
    assert store.dataset(Fresh(1)) is not second


@dataclass(frozen=True)
class Noise(DataSource):
    samples: int

    def load(self, store):
        like = store.dataset(EXAM.test)
        return UniformNoise(self.samples, like=like, seed=0)


def test_unfamiliar_data_are_scored(filled):
    exam = EvaluationSpec(EXAM.test, ood=(("noise", Noise(20)),))
    found = filled.evaluation(TRIAL, exam)
    assert 0 <= found["ood"]["noise"]["pds"]["auroc"] <= 1


def test_an_interrupted_trial_goes_on_to_the_same_weights(filled, tmp_path):
    def stop(record):
        raise InterruptedError

    store = Store(tmp_path, device="cpu")
    with pytest.raises(InterruptedError):
        store.run(TRIAL, on_epoch=stop)
    assert not store.is_trained(TRIAL)
    epochs = []
    run = store.run(TRIAL, on_epoch=lambda record: epochs.append(record.epoch))
    assert same_bits(weights(run), weights(filled.run(TRIAL)))
    assert epochs[-1] == 1


def local():
    """Return a function that shares its path with the next one made here."""

    def inner(*_, **__):
        return None

    return inner


def local_augmentation():
    class Inner(Augmentation):
        draws = 0

        def __call__(self, images, uniform):
            return images

    return Inner()


@pytest.mark.parametrize(
    ("trial", "place"),
    [
        (replace(TRIAL, model=lambda: MLP(hidden=(6,))), "trial.model"),
        (replace(TRIAL, model=partial(local(), hidden=(6,))), "trial.model"),
        (replace(TRIAL, data=Samples(local())), "trial.data.dataset"),
        (
            TRIAL.trained_with(augment=(local_augmentation(),)),
            "trial.training.augment.0",
        ),
    ],
)
def test_trials_that_cannot_be_told_apart_are_refused(trial, place, tmp_path):
    store = Store(tmp_path, device="cpu")
    rule = f"{place} must be a class or function at the top of a module"
    for ask in (
        lambda: store.run(trial),
        lambda: store.evaluation(trial, EXAM),
        lambda: store.measured(trial, MEASURE),
    ):
        with pytest.raises(ValueError, match=rule):
            ask()
    assert not [*tmp_path.iterdir()]


def test_requests_that_cannot_be_told_apart_are_refused(filled):
    rule = "must be a class or function at the top of a module"
    with pytest.raises(ValueError, match=f"evaluation.test.dataset {rule}"):
        filled.evaluation(TRIAL, EvaluationSpec(Samples(lambda train: Digits())))
    noise = (("noise", Samples(local())),)
    with pytest.raises(ValueError, match=f"evaluation.ood.0.1.dataset {rule}"):
        filled.logits(TRIAL, EvaluationSpec(EXAM.test, ood=noise))
    with pytest.raises(ValueError, match=f"measure.function {rule}"):
        filled.measured(TRIAL, SharpnessSpec(lambda *_: worst_case))


def test_values_of_local_classes_are_refused(filled):
    @dataclass(frozen=True)
    class Local(Noise):
        pass

    exam = EvaluationSpec(EXAM.test, ood=(("noise", Local(20)),))
    with pytest.raises(ValueError, match=r"evaluation\.ood\.0\.1 must be a class"):
        filled.evaluation(TRIAL, exam)


def test_no_lock_of_the_file_system_is_asked_for(tmp_path, monkeypatch):
    """Some have none, and then say so."""

    def refused(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    for name in ("flock", "lockf", "fcntl"):
        monkeypatch.setattr(fcntl, name, refused)
    store = Store(tmp_path, device="cpu")
    assert store.evaluation(TRIAL, EXAM)["members"] == 2
    with leased(store.lease(TRIAL), 60):
        pass


def released_digits(types, severities, folder):
    """Corrupted copies of digits, as somebody released them."""
    clean = Digits(train=False)
    return CorruptedFiles(
        folder, clean.classes, clean.normalize, types=types, severities=severities
    )


def test_released_copies_are_read_and_named_apart(filled, tmp_path):
    test = filled.dataset(EXAM.test)
    write_corrupted(corrupted(test, types=EXAM.types), tmp_path / "released")
    folder = str(tmp_path / "released")
    spec = replace(EXAM, released=partial(released_digits, folder=folder))
    assert spec.digest != EXAM.digest
    made, read = (filled.evaluation(TRIAL, each) for each in (EXAM, spec))
    assert read["shifted"] == made["shifted"]
    # Copies of other images are not taken for those of the test.
    other = corrupted(Samples(Digits, "test", count=29).load(filled), types=EXAM.types)
    write_corrupted(other, tmp_path / "other")
    wrong = partial(released_digits, folder=str(tmp_path / "other"))
    with pytest.raises(ValueError, match="other"):
        filled.evaluation(TRIAL, replace(EXAM, released=wrong))


@pytest.mark.parametrize("rule", ["logit", "vote"])
def test_members_are_joined_by_the_rule_of_the_test(filled, rule):
    spec = replace(EXAM, rule=rule)
    assert spec.digest != EXAM.digest
    found = filled.evaluation(TRIAL, spec)
    ensemble, test = filled.run(TRIAL).ensemble, filled.dataset(EXAM.test)
    direct = tepui.evaluate(ensemble, test, rule=rule)
    assert found["rule"] == rule
    assert found["clean"]["accuracy"] == direct.clean.accuracy
    with pytest.raises(ValueError, match="rule must be one of"):
        replace(EXAM, rule="mean")
