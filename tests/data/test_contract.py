"""One contract for every kind of data set: what its items are, all else returns.

The naive twin of everything that reads batches, parts or tensors is a loop over items.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, Subset, TensorDataset

from data_layouts import picture
from stored_cases import KINDS, in_memory, stored
from table_files import rows, written
from tepui.data import (
    ArrayFile,
    Arrays,
    Digits,
    ImageFiles,
    ImageFolder,
    Normalize,
    Table,
    Texts,
    split,
    split_at,
    to_arrays,
)
from tepui.data.identity import data_identity, fingerprint, same_data
from tepui.data.labels import class_names, relabel, unlabeled
from tepui.data.loading import as_arrays, at_rows, in_order, split_rows
from tepui.data.preparation import preparation_of
from tepui.testing import check_dataset

CPU = torch.device("cpu")
LABELS = torch.arange(20) % 3


class Items(Dataset):
    """Pairs that only their own code can read."""

    def __init__(self, *items, classes=()):
        self.items, self.classes = items, classes

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


def floats(samples=20):
    return torch.rand(samples, 5, generator=torch.Generator().manual_seed(0))


def pictures(folder):
    for number in range(20):
        picture(folder / "ab"[number % 2] / f"{number}.png", (5 * number,) * 3, (4, 4))
    return folder


def array_file(folder):
    x = np.random.default_rng(0).integers(0, 256, (20, 6, 4, 3), dtype=np.uint8)
    np.savez(folder / "x.npz", x_train=x, y_train=LABELS.numpy())
    return ArrayFile(folder / "x.npz", mean=(0.5,) * 3, std=(0.2,) * 3)


def texts(_):
    words = [
        f"a {'good' if label else 'bad'} day {n}" for n, label in enumerate(LABELS)
    ]
    return Texts(words, LABELS, length=6, classes=("bad", "good", "best"))


def named(_):
    inputs = {"a": floats(), "b": torch.arange(20)}
    return Arrays(inputs, LABELS)


DATA = {
    "bytes": lambda _: in_memory(20),
    "vectors": lambda _: Arrays(floats(), LABELS, Normalize((0.5,) * 5, (2.0,) * 5)),
    "named inputs": named,
    "tensors": lambda _: TensorDataset(floats(), LABELS),
    "pairs": lambda _: Items(*zip(floats(), LABELS, strict=True)),
    "part": lambda _: Subset(in_memory(30), range(25, 5, -1)),
    "part of pairs": lambda f: Subset(DATA["pairs"](f), range(19, -1, -1)),
    "digits": lambda _: Digits(train=False),
    "array file": array_file,
    "table": lambda folder: Table(written(folder / "t.csv", rows()), "sold"),
    "numbers": lambda folder: Table(written(folder / "t.csv", rows()), "price"),
    "texts": texts,
    "image folder": lambda folder: ImageFolder(pictures(folder), part="all", size=3),
    **{kind: lambda f, kind=kind: stored(kind, in_memory(20), f) for kind in KINDS},
}


@pytest.fixture(params=DATA)
def make(request, tmp_path):
    return lambda: DATA[request.param](tmp_path)


def stacked(items):
    """Return the inputs of items by name, and their targets."""
    inputs, targets = zip(*items, strict=True)
    if isinstance(inputs[0], torch.Tensor):
        inputs = [{"": each} for each in inputs]
    parts = {name: torch.stack([each[name] for each in inputs]) for name in inputs[0]}
    return {**parts, "targets": torch.stack([*map(torch.as_tensor, targets)])}


def held(inputs, targets):
    named = {"": inputs} if isinstance(inputs, torch.Tensor) else inputs
    return {**named, "targets": targets}


def read_by(data):
    """Return how new samples are read; images that are held have a shape for it."""
    known = preparation_of(data)
    return None if known is None else replace(known, frame=None)


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor.to(found[name])), name


def test_batches_and_tensors_are_the_items(make):
    data = make()
    items = [data[row] for row in range(len(data))]
    order = torch.tensor([3, 0, len(data) - 1])
    batches = [*in_order(data, 7, device=CPU)]
    inputs = [held(b.inputs, b.targets) for b in batches]
    together = {name: torch.cat([each[name] for each in inputs]) for name in inputs[0]}
    assert_same(together, stacked(items))
    (batch,) = at_rows(data, [order], device=CPU)
    assert_same(held(batch.inputs, batch.targets), stacked([items[r] for r in order]))
    assert torch.equal(batch.index, order)
    if not isinstance(data, ImageFiles):  # which may be too many to hold
        arrays = to_arrays(data)
        read = arrays.prepare(arrays.inputs)
        assert_same(held(read, arrays.targets), stacked(items))


def test_parts_are_a_partition_that_remembers_the_whole(make):
    data = make()
    cuts = split_rows(len(data), 0.3, seed=5)
    named = [7, 2, 11]
    others = [row for row in range(len(data)) if row not in named]
    known = read_by(data)
    pairs = zip(split(data, 0.3, seed=5), [rows.tolist() for rows in cuts], strict=True)
    more = zip(split_at(data, named), [others, sorted(named)], strict=True)
    for part, places in [*pairs, *more]:
        items = [part[row] for row in range(len(part))]
        assert_same(stacked(items), stacked([data[row] for row in places]))
        assert class_names(part) == class_names(data)
        assert read_by(part) == known


def test_samples_without_labels_are_the_same_samples(make):
    data = make()
    found, expected = unlabeled(data), data[4][0]
    assert len(found) == len(data)
    inputs, label = found[4]
    assert int(label) == -1
    assert_same(held(inputs, torch.zeros(1)), held(expected, torch.zeros(1)))


def test_equal_data_are_known_as_equal_and_parts_as_parts(make):
    data, again = make(), make()
    first, _ = split(data, 0.5, seed=0)
    if as_arrays(data) is not None or hasattr(data, "identity"):
        assert data_identity(data) == data_identity(again)
        assert data_identity(data) != data_identity(first)
    assert fingerprint(data) == fingerprint(again)
    assert same_data(fingerprint(first), fingerprint(data)) == (len(data) <= 64)


@pytest.mark.parametrize("name", sorted({*DATA} - {"numbers", "named inputs", "part"}))
def test_it_behaves_as_the_library_expects(name, tmp_path):
    check_dataset(DATA[name](tmp_path))


# What each kind refuses -----------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "first"),
    [
        ((torch.zeros(1, 9, 8), 1), False),
        ((object(), 1), True),
        ((torch.zeros(1, 8, 8), 1, 2), False),
        ({"x": "text", "y": 1}, True),
        ((torch.zeros(1, 8, 8), "text"), True),
        (([torch.zeros(1)], 1), True),
    ],
)
def test_items_that_are_not_pairs_of_tensors_are_refused(other, first):
    items = [other] * 3 if first else [(torch.zeros(1, 8, 8), 0), other]
    with pytest.raises(ValueError, match=r"hold pairs \(x, y\) of tensors that stack"):
        to_arrays(Items(*items))


def test_subset_of_pairs_reads_only_its_items():
    broken = Items((torch.zeros(1), 0), "never read", (torch.ones(1), 1))
    assert to_arrays(Subset(broken, [0, 2])).targets.tolist() == [0, 1]


def test_empty_and_endless_are_refused():
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(())

    for use in (to_arrays, lambda data: split(data, 0.5, seed=0)):
        with pytest.raises(ValueError, match="hold at least one sample, got 0"):
            use(Items())
        with pytest.raises(ValueError, match=r"must be map-style .* got Stream"):
            use(Stream())


# Labels by names ------------------------------------------------------------------

ALL = ("ant", "bee", "cow")


def test_labels_go_by_names_and_the_absence_of_one_stays(tmp_path):
    labels = torch.tensor([0, 1, -1], dtype=torch.int32)
    data = Arrays(torch.zeros(3, 2), labels, classes=("cow", "ant"))
    found = relabel(data, ALL)
    assert found.targets.tolist() == [2, 0, -1]
    assert (found.targets.dtype, found.classes) == (torch.int32, ALL)
    assert data.targets.tolist() == [0, 1, -1]
    for name in ("bee", "cow"):
        picture(tmp_path / name / "0.png")
    images = ImageFolder(tmp_path, part="all")
    assert images.held.targets.tolist() == [0, 1]
    again = relabel(images, ALL)
    assert again.targets.tolist() == again.held.targets.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([0, 1], ("bee", "wasp")),
        ([0, 1], ()),
        ([0, 1], ALL),
        ([[0, 1], [1, 1]], ("bee", "ant")),
        ([0.5, 1.0], ("bee", "ant")),
        ([0, 2], ("bee", "ant")),
    ],
)
def test_what_names_cannot_number_stays(labels, classes):
    data = Arrays(torch.zeros(2, 2), torch.tensor(labels), classes=classes)
    assert relabel(data, ALL) is data
