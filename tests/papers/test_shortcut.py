"""The shortcut study, quickly; at full size in the slow test."""

import pytest
import torch

from tepui.data import Digits
from tepui.papers.ours.shortcut import (
    RECIPE,
    Painted,
    PaintedDigits,
    colors_of,
    painted,
    scores,
)
from tepui.papers.recipe import Order
from tepui.papers.reproduce import reproduce
from tepui.studies.store import Store


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shortcut")
    store = Store(folder / "store", device="cpu")
    return reproduce("ours/shortcut", RECIPE, Order("smoke"), store, folder / "out")


def data(seed):
    return [Painted(part, seed).load(None) for part in ("labeled", "unlabeled", "test")]


@pytest.mark.parametrize("seed", range(5))
def test_the_shortcut_is_perfect_in_training_only(seed):
    train, unlabeled, test = data(seed)
    assert torch.equal(colors_of(train.inputs), train.targets)
    assert 0 < train.targets.float().mean() < 1
    # A 2x2 table of independent draws: chi-squared with one degree of freedom, of
    # which 10.83 is the 0.999 quantile.
    table = torch.zeros(2, 2).index_put(
        (unlabeled.targets, colors_of(unlabeled.inputs)),
        torch.ones(()),
        accumulate=True,
    )
    expected = table.sum(1, keepdim=True) * table.sum(0) / table.sum()
    assert float(((table - expected).square() / expected).sum()) < 10.83
    assert table.min() > 100
    for label in (0, 1):
        colors = colors_of(test.inputs)[test.targets == label]
        assert colors.float().mean() == 0.5


def test_no_image_is_in_two_parts():
    shapes = []
    for part in data(0):
        gray = part.inputs.sum(1).flatten(1)
        shapes.append({tuple(image) for image in gray.tolist()})
    assert [len(part) for part in shapes] == [719, 718, 360]
    assert len(set.union(*shapes)) == len(Digits()) + 360


def test_colors_of_unlabeled_images_differ_by_seed_and_repeat():
    digits = Digits(train=False)
    first, again, other = (PaintedDigits(digits, "random", s) for s in (0, 0, 1))
    assert torch.equal(first.inputs, again.inputs)
    assert not torch.equal(first.inputs, other.inputs)


def test_painting_keeps_the_image_and_blackens_the_other_channel():
    images = torch.rand(6, 1, 3, 3)
    colors = torch.tensor([0, 1, 1, 0, 1, 0])
    found = painted(images, colors)
    for image, color, two in zip(images, colors, found, strict=True):
        assert torch.equal(two[color], image[0])
        assert not two[1 - color].any()


def test_an_unknown_color_is_refused():
    with pytest.raises(ValueError, match="color must be one of"):
        PaintedDigits(Digits(train=False), "green")


@pytest.mark.slow
def test_a_member_that_follows_the_color_is_right_on_half(smoke):
    for member in ("best", "worst"):
        names = {"method": "deep_ensemble", "member": member}
        assert smoke.one(metric="predicts_color", **names).values == (1.0, 1.0)
        assert smoke.one(metric="accuracy", **names).values == (0.5, 0.5)


def test_scores_match_naive():
    stream = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 30, 2, generator=stream)
    classes, colors = (torch.randint(2, (30,), generator=stream) for _ in range(2))
    labels = torch.randint(2, (30,), generator=stream)
    stored = type(
        "Stored", (), {"clean": (logits, classes), "ood": {"labeled": logits}}
    )
    found = scores(stored, colors, labels)

    def share(member, truth, rows=range(30)):
        said = [int(logits[member, row].argmax()) == int(truth[row]) for row in rows]
        return sum(said) / len(said)

    right = [share(member, classes) for member in (0, 1)]
    best = right.index(max(right))
    intact = [row for row in range(30) if colors[row] == classes[row]]
    broken = [row for row in range(30) if colors[row] != classes[row]]
    lean = [share(member, torch.ones(30), broken) for member in (0, 1)]
    expected = {
        ("accuracy", "best"): max(right),
        ("accuracy", "worst"): min(right),
        ("one_sidedness", ""): max(lean) - min(lean),
        ("accuracy_shortcut_intact", "best"): max(
            share(member, classes, intact) for member in (0, 1)
        ),
        ("accuracy_labeled_images", "worst"): min(
            share(member, labels) for member in (0, 1)
        ),
        ("predicts_color", "best"): share(best, colors),
        ("predicts_color", "worst"): share(1 - best, colors),
    }
    for name, value in expected.items():
        assert found[name] == pytest.approx(value), name


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:member . may not have learned")  # the labels' side
def test_a2d_and_divdis_find_the_second_hypothesis(tmp_path):
    store = Store(tmp_path / "store", device="cpu")
    found = reproduce("ours/shortcut", RECIPE, Order("small"), store, tmp_path / "out")
    best = {
        record.method: record.values
        for record in found.find(metric="accuracy", member="best")
    }
    assert max(best["deep_ensemble"]) < 0.6
    assert min(best["a2d"]) > 0.8
    assert min(best["divdis"]) > 0.8
