"""The six controls: one start, one order of data, seven metrics."""

import hashlib
from collections import defaultdict
from dataclasses import fields, replace

import pytest
import torch

from tepui.data import Arrays, HorizontalFlip, RandomCrop
from tepui.evaluation.stored_logits import StoredLogits
from tepui.metrics import pairwise_disagreement
from tepui.papers.published import printed, published
from tepui.papers.recipe import Order, load, names
from tepui.papers.rethinking import figure1
from tepui.papers.rethinking.protocol import STUDIES, WEIGHT_DECAY
from tepui.papers.rethinking.six_controls import member_scores
from tepui.studies import estimate_pairs
from tepui.studies import store as stores
from tepui.studies.derived_data import Augmented
from tepui.studies.results import Results
from tepui.studies.specifications import DataSource
from tepui.studies.store import Store
from tepui.tasks import Classes
from tepui.training.batches import TensorSource

CONTROLS = [
    "baseline",
    "baseline_sam",
    "augmentation",
    "augmentation_sam",
    "weight_decay",
    "weight_decay_sam",
]
TABLES = [name for name in names() if name.startswith("rethinking/table")]
SMOKE = STUDIES["smoke"]["cifar10", "resnet18"]


def sha(tensors):
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Train every control; note the first weights, the order of data, the last ones."""
    first, order, last = defaultdict(dict), defaultdict(dict), defaultdict(dict)
    seen = []
    train, batches = stores.train, TensorSource.batches

    def noting_train(ensemble, *args, **options):
        seen.append([sha(member.state_dict().values()) for member in ensemble.members])
        return train(ensemble, *args, **options)

    def noting_batches(self, rows, seed, epoch):
        streams[seed, epoch] = sha([rows])
        for number, batch in enumerate(batches(self, rows, seed, epoch)):
            assert torch.equal(batch.index, rows[number])
            yield batch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stores, "train", noting_train)
        patch.setattr(TensorSource, "batches", noting_batches)
        store = Store(tmp_path_factory.mktemp("store"), device="cpu")
        for name, trial in SMOKE.controls().items():
            streams = order[name]
            run = store.run(trial)
            first[name] = seen[-1]
            last[name] = sha(p for m in run.ensemble.members for p in m.parameters())
    return first, order, last


def test_a_seed_means_the_same_first_weights_in_all_controls(trained):
    first, _, last = trained
    assert list(first) == CONTROLS
    assert all(hashes == first["baseline"] for hashes in first.values())
    assert len(set(first["baseline"])) == SMOKE.members
    assert len(set(last.values())) == len(CONTROLS)


def test_a_seed_means_the_same_order_of_data_in_all_controls(trained):
    _, order, _ = trained
    expected = {(s, e) for s in range(SMOKE.members) for e in range(SMOKE.epochs)}
    assert set(order["baseline"]) == expected
    assert all(streams == order["baseline"] for streams in order.values())
    assert len(set(order["baseline"].values())) == len(expected)


@pytest.mark.parametrize("size", ["paper", "small", "smoke"])
def test_controls_differ_only_in_what_they_apply(size):
    for study in STUDIES[size].values():
        found = study.controls()
        baseline = found["baseline"]
        assert baseline.training.augment == ()
        assert baseline.training.optimizer.weight_decay == 0
        changed = {
            name: {
                field.name
                for field in fields(trial.training)
                if getattr(trial.training, field.name)
                != getattr(baseline.training, field.name)
            }
            for name, trial in found.items()
        }
        for trial in found.values():
            assert replace(trial, training=baseline.training) == baseline
        assert changed == {
            "baseline": set(),
            "baseline_sam": {"method"},
            "augmentation": {"augment"},
            "augmentation_sam": {"augment", "method"},
            "weight_decay": {"optimizer"},
            "weight_decay_sam": {"optimizer", "method"},
        }
        decayed = found["weight_decay"].training.optimizer
        assert decayed.weight_decay == WEIGHT_DECAY
        assert decayed.lr == baseline.training.optimizer.lr


def logits_of(networks=3, samples=40, cells=(("fog", 1), ("fog", 2), ("snow", 1))):
    stream = torch.Generator().manual_seed(0)
    cells = {*cells, ("snow", 2)}

    def drawn():
        logits = torch.randn(networks, samples, 4, generator=stream)
        return 3 * logits, torch.randint(4, (samples,), generator=stream)

    shifted = {cell: drawn() for cell in cells}
    return StoredLogits("probability", drawn(), shifted, {}, Classes())


def accuracy_naive(logits, labels):
    hits = [int(row.argmax()) == int(y) for row, y in zip(logits, labels, strict=True)]
    return sum(hits) / len(hits)


def ece_naive(logits, labels):
    bins = defaultdict(list)
    for row, label in zip(logits, labels.tolist(), strict=True):
        probs = torch.softmax(row, 0)
        confidence = float(probs.max())
        bins[int(confidence * 15)].append((int(probs.argmax()) == label, confidence))
    gaps = [abs(sum(right - conf for right, conf in each)) for each in bins.values()]
    return sum(gaps) / len(labels)


def test_scores_match_naive():
    stored = logits_of()
    found = member_scores(stored)
    logits, labels = stored.clean
    for n, own in enumerate(logits):
        assert found["accuracy"][n] == pytest.approx(accuracy_naive(own, labels))
        assert found["ece"][n] == pytest.approx(ece_naive(own, labels), abs=1e-6)
        cells = [accuracy_naive(many[n], y) for many, y in stored.shifted.values()]
        mean = 100 * sum(cells) / len(cells)
        assert found["corruption_accuracy"][n] == pytest.approx(mean, abs=1e-4)


class Made:
    """A store whose answers are made up, so that records need no training."""

    def __init__(self):
        self.stored = logits_of()

    def logits(self, trial, exam):
        return self.stored

    def measured(self, trial, question):
        augmented = isinstance(question.data, Augmented)
        function = getattr(question.function, "func", question.function)
        base = 5.0 if augmented else 0.5
        members = [{"value": base + 0.1 * n} for n in range(3)]
        return {function.__name__: {"members": members}}


def made(name, size="small"):
    recipe, order = load(name), Order(size, ())
    records = tuple(recipe.records(Made(), order))
    return Results(name, recipe.title, size, recipe.described(order), {}, records)


@pytest.mark.parametrize("name", TABLES)
def test_every_number_of_the_paper_meets_one_of_ours(name):
    found = [printed(record) for record in made(name).records]
    met = [row["id"] for row in found if row is not None]
    assert len(met) == len(set(met))
    assert set(met) == {row["id"] for row in published() if row["item"] == name}


def test_disagreement_has_the_error_over_networks():
    record = made("rethinking/table1").one(method="baseline", metric="disagreement")
    logits, _ = Made().stored.clean
    expected = estimate_pairs(pairwise_disagreement(logits))
    assert record.value == pytest.approx(expected.mean)
    assert record.sem == pytest.approx(expected.error)
    assert record.n == 3


class Held(DataSource):
    """Data at hand."""

    def __init__(self, data):
        self.data = data

    def load(self, store):
        return self.data


def test_an_augmented_copy_is_the_training_augmentation(tmp_path):
    images = torch.rand(7, 1, 6, 6, generator=torch.Generator().manual_seed(1))
    data = Arrays(images, torch.arange(7), classes=("a", "b"))
    steps = (RandomCrop(padding=1), HorizontalFlip())
    copy = Augmented(Held(data), steps).load(Store(tmp_path))
    again = Augmented(Held(data), steps).load(Store(tmp_path))
    other = Augmented(Held(data), steps, seed=1).load(Store(tmp_path))
    assert torch.equal(copy.inputs, again.inputs)
    assert not torch.equal(copy.inputs, other.inputs)
    assert torch.equal(copy.targets, data.targets)
    assert copy.classes == data.classes
    padded = torch.nn.functional.pad(images, (1, 1, 1, 1))
    for before, after in zip(padded, copy.inputs, strict=True):
        windows = [before[:, i : i + 6, j : j + 6] for i in range(3) for j in range(3)]
        views = [*windows, *(window.flip(-1) for window in windows)]
        assert any(torch.equal(view, after) for view in views)


def test_only_images_in_tensors_can_be_augmented(tmp_path):
    texts = Arrays({"ids": torch.zeros(3, 2)}, torch.zeros(3))
    with pytest.raises(ValueError, match="of must give images held in tensors"):
        Augmented(Held(texts), (HorizontalFlip(),)).load(Store(tmp_path))
    with pytest.raises(ValueError, match="augment must hold at least one"):
        Augmented(Held(texts), ())


def test_figure_1_shows_every_corruption(tmp_path):
    order = Order("smoke", ())
    assert figure1.RECIPE.plan(order) == []
    records = tuple(figure1.RECIPE.records(Store(tmp_path), order))
    assert len(records) == 15 * 5
    assert all(record.value > 0 for record in records)
    found = Results("rethinking/figure1", "", "smoke", {}, {}, records)
    figure = figure1.draw(found)
    assert len(figure.axes) == 16
    clean, *others = [axis.images[0].get_array() for axis in figure.axes]
    for kind, other in zip(figure1.STANDARD, others, strict=True):
        change = abs(other.astype(float) - clean.astype(float)).mean() / 255
        shown = found.one(corruption=kind, severity=figure1.SHOWN)
        assert change == pytest.approx(shown.value)
