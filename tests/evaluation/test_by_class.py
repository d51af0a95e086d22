"""What an evaluation says of each class, and of each label."""

import json
import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import precision_recall_fscore_support
from torch import nn

import tepui
from strategies import modest
from tepui import Ensemble, tasks
from tepui.data import Arrays
from tepui.evaluation import ByClass
from tepui.evaluation.by_class import names_of
from tepui.tasks.classes import set_sums

NAMES = ("ham", "spam", "fraud")


def mails(samples, seed=0, shares=(0.6, 0.35, 0.05)):
    """Three classes, of which the last is rare."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.multinomial(
        torch.tensor(shares), samples, replacement=True, generator=generator
    )
    centers = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    inputs = centers[labels] + torch.randn(samples, 2, generator=generator)
    return Arrays(inputs, labels, classes=NAMES)


def linear():
    ensemble = Ensemble.build(lambda: nn.Linear(2, 3), 2, seed=1)
    with torch.no_grad():
        for member in ensemble.members:
            member.weight += torch.tensor([[2.0, 0.0], [-2.0, 0.0], [0.0, 2.0]])
    return ensemble


def reference(truth, predicted, **options):
    precision, recall, f1, samples = precision_recall_fscore_support(
        truth, predicted, zero_division=math.nan, **options
    )
    return {"samples": samples, "recall": recall, "precision": precision, "f1": f1}


def check(found, expected):
    for name, values in expected.items():
        actual = list(getattr(found, name))
        assert actual == pytest.approx(values.tolist(), abs=1e-6, nan_ok=True), name


@pytest.mark.parametrize("rule", ["probability", "logit", "vote"])
def test_each_class_has_the_scores_of_scikit_learn(rule):
    ensemble, test = linear(), mails(400)
    found = tepui.evaluate(ensemble, test, rule=rule).by_class
    assert found.names == NAMES
    predicted = ensemble.predict(test, rule=rule).labels
    check(found, reference(test.targets, predicted, labels=range(3)))
    assert found.mean_recall == pytest.approx(sum(found.recall) / 3)
    assert found.coverage == found.size == ()


def test_sets_are_looked_at_class_by_class():
    ensemble, test = linear(), mails(500, seed=2)
    ensemble.conformal(mails(500, seed=1), 0.8)
    result = tepui.evaluate(ensemble, test)
    sets = ensemble.predict(test).sets
    for number in range(3):
        own = sets[test.targets == number]
        covered = own[:, number].double().mean().item()
        assert result.by_class.coverage[number] == pytest.approx(covered)
        size = own.sum(-1).double().mean().item()
        assert result.by_class.size[number] == pytest.approx(size)
    shares = [n / 500 for n in result.by_class.samples]
    pairs = zip(shares, result.by_class.coverage, strict=True)
    whole = sum(share * held for share, held in pairs)
    assert result.applied.coverage == pytest.approx(whole)
    document = json.loads(json.dumps(result.document()))
    assert ByClass.of(document) == result.by_class
    assert "coverage" not in document["by_class"]
    # Without the sets, their coverage goes, and the rest stays.
    document.pop("applied")
    assert ByClass.of(document) == tepui.evaluate(linear(), test).by_class
    del document["by_class"]
    assert ByClass.of(document) is None


@modest
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(2, 5))
def test_sums_of_sets_follow_their_definition(seed, samples, classes):
    generator = torch.Generator().manual_seed(seed)
    sets = torch.rand(samples, classes, generator=generator) < 0.5
    labels = torch.randint(classes, (samples,), generator=generator)
    expected = [[0] * classes for _ in range(3)]
    for row, label in zip(sets.tolist(), labels.tolist(), strict=True):
        for place, value in enumerate((1, row[label], sum(row))):
            expected[place][label] += value
    assert set_sums(sets, labels).tolist() == expected


MASK = torch.tensor([False, True, False, False, True])


@pytest.mark.parametrize(
    ("classes", "outputs", "mask", "names"),
    [
        (("cat", "dog", "cow", "hen", "pig"), 2, MASK, ("dog", "pig")),
        ((), 2, MASK, ("1", "4")),
        (("cat", "dog"), 2, MASK, ("1", "4")),  # of something else
        (("no", "fraud"), 1, None, ("fraud",)),  # of a yes or no its yes
        ((), 1, None, ("yes",)),
        (("fraud",), 1, None, ("fraud",)),
    ],
)
def test_classes_that_are_left_keep_their_names_or_numbers(
    classes, outputs, mask, names
):
    data = SimpleNamespace(classes=classes)
    assert names_of(data, outputs, mask) == names


@pytest.mark.parametrize("rule", ["probability", "vote"])
def test_each_label_has_the_scores_of_scikit_learn(rule):
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(50, 3, generator=generator)
    targets = (inputs + torch.randn(50, 3, generator=generator) > 0.5).float()
    targets[:, 2] = 0  # a label that no sample has
    test = Arrays(inputs, targets, classes=("dog", "cat", "yeti"))
    ensemble = Ensemble.build(lambda: nn.Linear(3, 3), 2, task=tasks.Labels())
    found = tepui.evaluate(ensemble, test, batch_size=20, rule=rule).by_class
    assert found.names == ("dog", "cat", "yeti")
    predicted = ensemble.predict(test, rule=rule).labels
    check(found, reference(targets, predicted, average=None))


def test_classes_of_pixels_count_those_that_have_one():
    images = torch.randn(8, 3, 4, 5, generator=torch.Generator().manual_seed(0))
    labels = images.argmax(1)
    labels[::2] = 2
    labels[0, 0] = -100
    ensemble = Ensemble.build(lambda: nn.Conv2d(3, 3, 1), 2, task=tasks.Classes())
    found = tepui.evaluate(ensemble, Arrays(images, labels), batch_size=3).by_class
    kept = labels != -100
    predicted = ensemble.predict(images).labels
    check(found, reference(labels[kept], predicted[kept], labels=range(3)))
