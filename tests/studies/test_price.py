import shutil
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from weakref import WeakSet

import pytest
import torch
from torch import nn

from study_cases import EXAM, TRIAL
from tepui.core.storage import read_document, write_document
from tepui.data import CIFAR10, Arrays, Digits, FashionMNIST
from tepui.methods import SAM, SED, DeepEnsemble, SharpBalance
from tepui.models import MLP, ConvNet, ResNet18
from tepui.studies import EvaluationSpec, Job, Samples, Store, Trial
from tepui.studies import price as pricing_module
from tepui.studies.beginnings import pieces
from tepui.studies.blank_data import FORMS, blank
from tepui.studies.derived_data import Features
from tepui.studies.given import Given
from tepui.studies.loaded_data import MOST_HELD
from tepui.studies.member_cost import gradients_per_step, member_cost, module_cost
from tepui.studies.price import H200_STEP, RESNET18_OPERATIONS, TARGET, Price, Pricing
from tepui.studies.specifications import DataSource, Form
from tepui.studies.speeds import Speeds
from tepui.studies.sweep import HoldOut
from tepui.training import AdamW

IMAGES = Arrays(torch.zeros(2, 3, 32, 32), torch.tensor([0, 1]))
WIDE = replace(TRIAL, model=partial(MLP, hidden=(500,)))


def test_a_layer_costs_what_one_counts_by_hand(tmp_path):
    cost = member_cost(TRIAL, Store(tmp_path).dataset(TRIAL.data))
    assert cost.operations == 2 * (64 * 6 + 6 * 10)
    assert cost.weights == 4 * (64 * 6 + 6 + 6 * 10 + 10)
    assert cost.outputs == 10


class OfMappings(nn.Module):
    """As models of Hugging Face: named inputs, outputs with a name."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, values, mask):
        return {"logits": self.layer(values * mask)}


def test_a_member_with_named_inputs_has_a_price():
    inputs = {"values": torch.ones(4, 3), "mask": torch.ones(4, 3)}
    data = Arrays(inputs, torch.zeros(4, dtype=torch.long))
    cost = module_cost(OfMappings(), data)
    assert (cost.operations, cost.outputs) == (2 * 3 * 2, 2)


def test_the_measured_network_is_the_unit():
    cost = member_cost(replace(TRIAL, model=ResNet18), IMAGES)
    assert cost.operations == RESNET18_OPERATIONS


@pytest.mark.parametrize(
    ("method", "gradients"),
    [
        (DeepEnsemble(), 1),
        (SAM(), 2),
        (SharpBalance(), 2),
        (SED(active=None), 1),
        (SED(active=2), 2 / 5),
        (SED(base=SAM(), active=2), 4 / 5),
    ],
    ids=["plain", "sam", "sharpbalance", "all", "pairs", "flat pairs"],
)
def test_gradients_of_a_step(method, gradients):
    assert gradients_per_step(method, 5) == pytest.approx(gradients)


class Counting(Store):
    """Counts the sets that are held, by itself or by who asked for them."""

    def __init__(self, path):
        super().__init__(path, device="cpu")
        self.alive, self.most = WeakSet(), 0

    def dataset(self, source):
        data = super().dataset(source)
        self.alive.add(data)
        self.most = max(self.most, len(self.alive))
        return data


def test_pricing_many_repetitions_holds_the_data_of_few(tmp_path):
    data = [replace(TRIAL.data, seed=seed) for seed in range(3 * MOST_HELD)]
    jobs = [Job(replace(TRIAL, data=each)) for each in data]
    store = Counting(tmp_path)
    price = Pricing(store).price(jobs)
    assert store.most <= MOST_HELD + 1
    one = Pricing(store).price(jobs[:1])
    digits = 64 * (64 * 4 + TARGET)
    assert price.host_bytes - one.host_bytes == (MOST_HELD - 1) * digits
    assert price.hours_on_h200 == pytest.approx(len(jobs) * one.hours_on_h200)


def test_an_hour_is_the_measured_step_times_operations(tmp_path):
    """In closed form: two members, two epochs, 64 samples, two gradients each."""
    price = Pricing(Store(tmp_path, device="cpu")).price([Job(TRIAL)])
    operations = member_cost(TRIAL, Store(tmp_path).dataset(TRIAL.data)).operations
    step = H200_STEP * operations / RESNET18_OPERATIONS
    assert price.hours_on_h200 == pytest.approx(2 * 2 * 64 * 2 * step / 3600)
    assert price.hours_here is None


def test_what_trials_share_counts_once(tmp_path):
    flat = TRIAL.trained_with(epochs=8)
    after_sam = SharpBalance(rho=0.1, switch_at=0.5, before="sam")
    late = flat.trained_with(method=after_sam)
    pricing = Pricing(Store(tmp_path, device="cpu"))
    whole = pricing.price([Job(flat)]).hours_on_h200
    both = pricing.price([Job(flat), Job(late)]).hours_on_h200
    assert both == pytest.approx(1.5 * whole)
    assert sum(piece.epochs for piece in pieces([flat, late])) == 12


def test_plain_beginnings_cost_half(tmp_path):
    late = SharpBalance(rho=0.1, switch_at=0.5)
    pricing = Pricing(Store(tmp_path, device="cpu"))
    flat, begins_plain = (
        pricing.price([Job(TRIAL.trained_with(epochs=8, method=method))])
        for method in (SAM(rho=0.1), late)
    )
    ratio = begins_plain.hours_on_h200 / flat.hours_on_h200
    assert ratio == pytest.approx(0.75)


def test_tests_cost_their_forward_passes(tmp_path):
    pricing = Pricing(Store(tmp_path, device="cpu"))
    alone = pricing.price([Job(TRIAL)])
    tested = pricing.price([Job(TRIAL, (EXAM,))])
    samples = 30 * 3  # clean, and one type at two severities
    share = (tested.hours_on_h200 - alone.hours_on_h200) / alone.hours_on_h200
    assert share == pytest.approx(samples / 3 / (2 * 64 * 2))
    assert tested.disk_bytes - alone.disk_bytes == 2 * samples * 10 * 4


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("trained"), device="cpu")
    wide = WIDE.trained_with(epochs=3)
    store.evaluation(wide, EXAM)
    return store, wide


def test_disk_is_what_files_take(trained):
    store, trial = trained
    fresh = Pricing(Store(store.path / "empty", device="cpu"))
    price = fresh.price([Job(trial, (EXAM,))])
    files = [path for path in store.path.rglob("*") if path.is_file()]
    taken = sum(path.stat().st_size for path in files)
    assert price.disk_bytes == pytest.approx(taken, rel=0.15)


def test_hours_here_are_those_of_earlier_runs(trained):
    store, trial = trained
    longer = trial.trained_with(epochs=30)
    history = store.run(trial).history
    seconds = sum(record.seconds for record in history)
    price = Pricing(store).price([Job(longer)])
    assert price.hours_here == pytest.approx(10 * seconds / 3600)
    other = longer.trained_with(batch_size=16)
    assert Pricing(store).price([Job(other)]).hours_here is None
    assert Speeds(store.path, store.device).of(trial, {"model": "other"}) is None


def test_runs_that_name_no_hardware_tell_no_speed(trained, tmp_path):
    store, trial = trained
    copied = tmp_path / "run"
    shutil.copytree(store.folder(trial), copied)
    recorded = read_document(copied / "run.json", "run")
    del recorded["environment"]["hardware"]
    write_document(copied / "run.json", "run", recorded)
    assert Speeds(store.path, store.device)._found
    assert not Speeds(tmp_path, store.device)._found


def test_what_is_stored_costs_nothing(trained):
    store, trial = trained
    assert Pricing(store).price([Job(trial, (EXAM,))]) == Price()


def test_memory_grows_with_members_batch_and_optimizer(tmp_path):
    pricing = Pricing(Store(tmp_path, device="cpu"))

    def memory(trial):
        return pricing.price([Job(trial)]).device_bytes

    images = replace(TRIAL, model=partial(ConvNet, width=4))
    small = memory(images)
    assert memory(replace(images, seeds=(1, 2, 3, 4))) > 1.8 * small
    assert memory(images.trained_with(batch_size=64)) > small
    assert memory(images.trained_with(optimizer=AdamW())) > small


@dataclass(frozen=True)
class Elsewhere(DataSource):
    def load(self, store):
        raise AssertionError("loaded")


def missing(train=True):
    raise FileNotFoundError("no such data")


@pytest.mark.parametrize("data", [Elsewhere(), Samples(missing)], ids=["made", "gone"])
def test_data_that_are_not_there_are_counted_not_loaded(data, tmp_path):
    pricing = Pricing(Store(tmp_path, device="cpu"))
    unknown = Job(replace(TRIAL, data=data), (EvaluationSpec(data),))
    price = pricing.price([unknown, Job(TRIAL)])
    assert price.unpriced == 1
    assert price.hours_on_h200 == pricing.price([Job(TRIAL)]).hours_on_h200


def absent(train=True):
    raise FileNotFoundError("not fetched yet")


def test_published_data_that_are_not_there_yet_are_priced(tmp_path, monkeypatch):
    """As if all images were there: time follows from their number and shape."""
    monkeypatch.setitem(FORMS, absent, Form((1, 8, 8), 100, 20))
    pricing = Pricing(Store(tmp_path, device="cpu"))
    there = replace(TRIAL, data=Samples(Digits, count=90))
    gone = replace(TRIAL, data=Samples(absent, held_out=0.1))
    prices = [pricing.price([Job(trial)]) for trial in (there, gone)]
    assert prices[1].unpriced == 0
    assert prices[1].hours_on_h200 == pytest.approx(prices[0].hours_on_h200)
    held_out = HoldOut(Samples(absent), "held_out", 0.2)
    assert len(blank(held_out)) == 20
    assert len(blank(Samples(absent, part="test"))) == 20
    assert len(blank(Samples(absent, part="held_out", held_out=0.1, count=50))) == 5


@pytest.mark.parametrize("kind", [CIFAR10, FashionMNIST])
def test_blank_images_have_the_form_of_the_real_ones(kind):
    try:
        sets = kind(train=True), kind(train=False)
    except FileNotFoundError as error:
        pytest.skip(str(error))
    for real, part in zip(sets, ("train", "test"), strict=True):
        assert blank(Samples(kind, part=part)).inputs.shape == real.inputs.shape


def repetitions(count):
    """Return heads on features of an extractor, both of their own draws of samples."""
    for number in range(count):
        data = Samples(Digits, "train", 0.5, 400, number)
        extractor = replace(TRIAL, data=data, model=ConvNet, seeds=(number,))
        of_test = Samples(Digits, "test", count=200, seed=number)
        heads = Trial(
            Features(extractor, data),
            partial(MLP, in_features=128),
            TRIAL.training,
            seeds=(number, 50),
        )
        yield Job(extractor)
        yield Job(heads, (EvaluationSpec(Features(extractor, of_test)),))


def test_repetitions_cost_what_one_does_and_are_looked_at_once(tmp_path, monkeypatch):
    looked, prices = [], {}

    def counted(owner, name):
        whole = getattr(owner, name)
        monkeypatch.setattr(
            owner, name, lambda *words: looked.append(name) or whole(*words)
        )

    counted(Store, "dataset")
    for name in ("member_cost", "module_cost"):
        counted(pricing_module, name)
    for count in (1, 12):
        looked.clear()
        store = Store(tmp_path / "store", device="cpu")
        found = Pricing(store).price([*repetitions(count)])
        prices[count] = found, Counter(looked)
    (one, looked_for_one), (many, looked_for_many) = prices.values()
    assert one.hours_on_h200 > 0
    assert many.hours_on_h200 == pytest.approx(12 * one.hours_on_h200)
    assert many.disk_bytes == 12 * one.disk_bytes
    assert many.device_bytes == one.device_bytes
    assert many.unpriced == one.unpriced == 0
    assert set(looked_for_one) == {"dataset", "member_cost", "module_cost"}
    assert looked_for_many == looked_for_one


def test_an_extractor_costs_what_its_images_ask_for_in_any_order(tmp_path):
    jobs = []
    for pixels in (8, 32):
        blank_images = torch.zeros(8, 1, pixels, pixels, dtype=torch.uint8)
        images = Given.of(Arrays(blank_images, torch.arange(8) % 2))
        body = replace(TRIAL, data=images, model=ConvNet)
        features = Features(body, images)
        heads = replace(TRIAL, data=features, model=partial(MLP, in_features=128))
        jobs.append(Job(heads))
    hours = [
        Pricing(Store(tmp_path, device="cpu")).price(plan).hours_on_h200
        for plan in (jobs[:1], jobs[1:], jobs, jobs[::-1])
    ]
    assert hours[1] > 2 * hours[0] > 0
    assert hours[2:] == [pytest.approx(hours[0] + hours[1])] * 2
