"""A label that fits nothing is found before work is done for the samples before it."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, Subset, random_split

import tepui
from tepui.data import Arrays
from tepui.data.labels import checked_targets
from tepui.losses import BinaryCrossEntropy
from tepui.methods import DeepEnsemble
from tepui.studies import compare
from training.cases import CLASSES, Plain, fitted, linear, numbers

WRONG = CLASSES + 4


class Foreign(Dataset):
    """Keeps its targets beside inputs that it would have to load."""

    def __init__(self, targets, told=None, name="targets", transform=int):
        self.own, self.transform = list(targets), transform
        setattr(self, name, self.own if told is None else told)

    def __len__(self):
        return len(self.own)

    def __getitem__(self, index):
        return torch.zeros(4), self.transform(self.own[index])


def labels(wrong=None, samples=24):
    found = [index % CLASSES for index in range(samples)]
    if wrong is not None:
        found[17] = wrong
    return found


SAID = rf"labels{{}} must lie in \[0, {CLASSES - 1}\] .* got 'values from 0 to {WRONG}'"


@pytest.mark.parametrize("name", ["targets", "labels"])
@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor])
def test_a_wrong_label_is_found_where_the_data_set_tells_of_it(name, kind):
    data = Foreign(labels(WRONG), kind(labels(WRONG)), name)
    steps = []

    class Counting(nn.Linear):
        def forward(self, inputs):
            steps.extend([1] * self.training)
            return super().forward(inputs)

    with pytest.raises(ValueError, match=SAID.format("")):
        fitted(data, lambda: Counting(4, CLASSES), batch_size=1)
    assert not steps


def test_of_validation_data_too():
    with pytest.raises(ValueError, match=SAID.format(" of validation")):
        fitted(numbers(), linear, validation=Foreign(labels(WRONG)))


@pytest.mark.parametrize(
    ("argument", "given"),
    [("test", {}), (r"shifted\['far'\]", {"shifted": {"far": Foreign(labels(WRONG))}})],
)
def test_a_comparison_finds_them_before_it_trains(tmp_path, argument, given):
    test = numbers() if given else Foreign(labels(WRONG))
    settings = {"members": 2, "epochs": 1, "progress": "none", "out": tmp_path / "run"}
    with pytest.raises(ValueError, match=SAID.format(f" of {argument}")):
        compare([DeepEnsemble()], linear, numbers(), test, **settings, **given)
    assert not (tmp_path / "run").exists()


def test_of_several_labels_the_sample_with_the_worst_is_read():
    several = torch.zeros(24, CLASSES)
    several[17, 1] = 2
    data = Foreign(several, several, transform=torch.clone)
    with pytest.raises(ValueError, match=r"labels of the training .* 'values 0, 2'"):
        fitted(data, linear, loss=BinaryCrossEntropy())


@pytest.mark.parametrize(
    "told",
    [
        labels(WRONG),  # changed on the way, as by target_transform
        [float("nan")] * 24,
        ["cat"] * 24,
        [[0], [1, 2]] * 12,
        labels(WRONG)[:20],
        [],
        "cat",
        None,
    ],
)
@pytest.mark.parametrize("part", [False, True])
def test_what_an_attribute_says_is_not_believed(told, part):
    whole = Foreign(labels(), told)
    data = Subset(whole, range(6, 24)) if part else whole
    assert fitted(data, linear).history
    assert 0 <= int(checked_targets(data).min()) <= int(checked_targets(data).max()) < 3


def test_a_part_is_asked_about_its_own_samples():
    data = Foreign(labels(WRONG))
    assert WRONG not in checked_targets(Subset(data, range(17)))
    assert WRONG in checked_targets(Subset(Subset(data, np.arange(5, 24)), [3, 12, 4]))
    stream = torch.Generator().manual_seed(0)
    parts = random_split(data, [0.5, 0.5], stream)
    assert sorted(WRONG in checked_targets(part) for part in parts) == [False, True]


def test_all_targets_that_are_held_are_looked_at():
    held = Arrays(torch.zeros(24, 4), torch.tensor(labels(WRONG)))
    assert checked_targets(held) is held.targets
    assert checked_targets(Plain(held)).tolist() == [0, 1]
    assert checked_targets(tepui.data.Digits().subset([3])).shape == (1,)
