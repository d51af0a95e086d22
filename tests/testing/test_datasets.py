"""Every promise of a data set is noticed when it is broken."""

import itertools

import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, Subset, TensorDataset

from tepui.data import Arrays, Digits, Normalize
from tepui.testing import check_dataset

POINTS = torch.arange(24.0).reshape(12, 2)
LABELS = torch.arange(12) % 3


class Pairs(Dataset):
    """Points and labels, in a way that can be broken."""

    classes = ("a", "b", "c")

    def __len__(self):
        return len(LABELS)

    def __getitem__(self, index):
        return POINTS[index], int(LABELS[index])


class Stream(IterableDataset):
    def __iter__(self):
        return iter(zip(POINTS, LABELS, strict=True))


class Empty(Pairs):
    def __len__(self):
        return 0


class Triples(Pairs):
    def __getitem__(self, index):
        return *super().__getitem__(index), index


class Ragged(Pairs):
    def __getitem__(self, index):
        return torch.zeros(index + 1), 0


class Restless(Pairs):
    counter = itertools.count()

    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return x + next(self.counter), y


class Undefined(Pairs):
    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return x / 0, y


class FromOne(Pairs):
    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return x, y + 1


class Below(Pairs):
    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return x, y - 1


class Real(Pairs):
    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return x, float(y)


class Twins(Pairs):
    classes = ("a", "a", "b")


class Named(Pairs):
    classes = "abc"


class Unprepared(Arrays):
    def __getitem__(self, index):
        return self.inputs[index], self.targets[index]


class Whole(Pairs):
    """Integers, which no layer takes."""

    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        return x.long(), y


BROKEN = {
    Stream: "be map-style",
    Empty: "hold at least two samples, got 0",
    Triples: r"give a pair \(x, y\) at index 0",
    Ragged: "hold pairs of tensors that stack",
    Restless: "give the same samples whenever it is read",
    Undefined: "hold finite inputs",
    FromOne: "have labels below its 3 classes, got 3",
    Below: "count labels from 0, got -1",
    Real: r"label each sample with one whole number \(int64\), got torch.float64",
    Twins: "give classes different names",
    Named: "name classes in a tuple or list",
}


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_a_broken_promise_is_named(kind):
    with pytest.raises(AssertionError, match=BROKEN[kind]) as raised:
        check_dataset(kind())
    assert str(raised.value).startswith(f"{kind.__name__} must ")


def test_items_are_prepared():
    images = torch.rand(8, 1, 4, 4)
    normalize = Normalize((0.5,), (0.2,))
    check_dataset(Arrays(images, torch.arange(8) % 2, normalize))
    with pytest.raises(AssertionError, match="give items as prepare does"):
        check_dataset(Unprepared(images, torch.arange(8) % 2, normalize))


def test_a_model_that_does_not_fit_is_told():
    with pytest.raises(AssertionError, match="train and evaluate members"):
        check_dataset(Pairs(), factory=lambda: torch.nn.Linear(5, 3))


@pytest.mark.parametrize(
    "dataset",
    [
        Pairs(),
        Whole(),
        Digits(),
        Digits(train=False),
        TensorDataset(POINTS, LABELS),
        Subset(TensorDataset(POINTS, LABELS), range(6)),
        Arrays({"left": POINTS, "right": POINTS.flip(0)}, LABELS),
    ],
    ids=lambda dataset: type(dataset).__name__,
)
def test_kept_promises_pass(dataset):
    check_dataset(dataset)
