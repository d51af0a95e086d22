"""Accuracies against loops, scikit-learn and torchmetrics."""

import math
import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import (
    balanced_accuracy_score,
    jaccard_score,
    precision_recall_fscore_support,
)

from strategies import RULES, close, labeled_ensembles, modest
from tepui.metrics import (
    ECE,
    Accuracy,
    MeanIoU,
    accuracy,
    balanced_accuracy,
    class_scores,
    corruption_accuracy,
    ece,
    ensemble_predictions,
    mean_iou,
    pixels,
    subset_accuracy,
    subset_vote,
)


def test_corruption_accuracy_names_the_missing_cells():
    cells = {("fog", 1): 0.9, ("snow", 3): 0.8, ("snow", 1): 0.1}
    with pytest.raises(ValueError, match=r"got \"none for \[\('fog', 3\)\]\"$"):
        corruption_accuracy(cells)


rules = st.sampled_from(RULES)


@modest
@given(labeled_ensembles(), rules)
def test_scores_of_each_class_are_those_of_scikit_learn(case, rule):
    logits, labels = case
    predicted = ensemble_predictions(logits, rule=rule)
    precision, recall, f1, samples = precision_recall_fscore_support(
        labels, predicted, labels=range(logits.shape[2]), zero_division=math.nan
    )
    found = class_scores(logits, labels, rule=rule)
    assert found.samples.tolist() == samples.tolist()
    close(found.recall, recall)
    close(found.precision, precision)
    close(found.f1, f1)


@modest
@given(labeled_ensembles(), rules)
def test_balanced_accuracy_is_that_of_scikit_learn(case, rule):
    logits, labels = case
    predicted = ensemble_predictions(logits, rule=rule)
    with warnings.catch_warnings():
        # A class that is predicted and does not occur.
        warnings.simplefilter("ignore", UserWarning)
        expected = balanced_accuracy_score(labels, predicted)
    close(balanced_accuracy(logits, labels, rule=rule), expected)


@modest
@given(labeled_ensembles())
def test_mean_iou_is_that_of_scikit_learn(case):
    logits, labels = case
    predicted = logits.softmax(-1).mean(0).argmax(-1)
    occurring = sorted({*labels.tolist(), *predicted.tolist()})
    reference = jaccard_score(
        labels, predicted, labels=occurring, average="macro", zero_division=0
    )
    close(mean_iou(logits, labels), reference)


def test_images_are_streamed_pixel_by_pixel():
    generator = torch.Generator().manual_seed(0)
    outputs = torch.randn(2, 6, 4, 5, 3, generator=generator).double()
    labels = torch.randint(4, (6, 5, 3), generator=generator)
    whole = pixels(outputs, labels)
    # One pixel, found again where it must be: sample 2, row 4, column 1.
    place = (2 * 5 + 4) * 3 + 1
    assert torch.equal(whole[0][:, place], outputs[:, 2, :, 4, 1])
    assert whole[1][place] == labels[2, 4, 1]
    for stream, function in (
        (Accuracy(), accuracy),
        (ECE(), ece),
        (MeanIoU(), mean_iou),
    ):
        for rows in torch.arange(6).split(4):
            stream.update(*pixels(outputs[:, rows], labels[rows]))
        close(stream.compute(), function(*whole))


def test_ignored_pixels_do_not_count():
    outputs = torch.tensor([9.0, 0.0]).view(1, 1, 2, 1).expand(1, 1, 2, 3)
    labels = torch.tensor([[0, 255, 1]])
    logits, answers = pixels(outputs, labels, ignored=255)
    assert logits.shape == (1, 2, 2)
    assert answers.tolist() == [0, 1]
    with pytest.raises(ValueError, match="labels must hold a pixel that is not"):
        pixels(outputs, torch.full((1, 3), 255), ignored=255)


PROTOCOLS = ["restricted", "unrestricted", "subset_vote"]


def drawn(seed, members=5, samples=30, classes=8, inside=3):
    stream = torch.Generator().manual_seed(seed)
    logits = torch.randn(members, samples, classes, generator=stream)
    mask = torch.zeros(classes, dtype=torch.bool)
    mask[torch.randperm(classes, generator=stream)[:inside]] = True
    inner = mask.nonzero()[:, 0]
    labels = inner[torch.randint(inside, (samples,), generator=stream)]
    return logits, labels, mask


def vote_naive(logits, mask):
    """Each member's choice as a row of zeros and ones, cut to the subset, averaged."""
    actual = []
    for sample in range(logits.shape[1]):
        total = [0.0] * int(mask.sum())
        inner = mask.nonzero()[:, 0].tolist()
        for member in range(logits.shape[0]):
            choice = int(logits[member, sample].argmax())
            if choice in inner:
                total[inner.index(choice)] += 1 / logits.shape[0]
        best = max(total)
        actual.append(inner[total.index(best)] if best > 0 else -1)
    return torch.tensor(actual)


def accuracy_naive(logits, labels, mask, protocol):
    if protocol == "subset_vote":
        chosen = vote_naive(logits, mask)
    else:
        mean = logits.mean(0)
        if protocol == "restricted":
            mean = mean.masked_fill(~mask, -float("inf"))
        chosen = mean.argmax(-1)
    return (chosen == labels).float().mean()


@modest
@given(st.integers(0, 999), st.integers(1, 7))
def test_matches_naive(seed, members):
    logits, labels, mask = drawn(seed, members)
    assert torch.equal(subset_vote(logits, mask), vote_naive(logits, mask))
    for protocol in PROTOCOLS:
        actual = subset_accuracy(logits, labels, mask, protocol=protocol)
        torch.testing.assert_close(
            actual, accuracy_naive(logits, labels, mask, protocol), rtol=0, atol=1e-6
        )


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_bad_masks_and_labels_are_refused(protocol):
    logits, labels, mask = drawn(3)
    for wrong in (mask[:-1], mask.long(), mask[None]):
        with pytest.raises(ValueError, match=r"mask must be boolean of shape \(8,\)"):
            subset_accuracy(logits, labels, wrong, protocol=protocol)
        with pytest.raises(ValueError, match=r"mask must be boolean of shape \(8,\)"):
            subset_vote(logits, wrong)
    outside = (~mask).nonzero()[0].expand(len(labels))
    with pytest.raises(ValueError, match="labels must belong to classes in the mask"):
        subset_accuracy(logits, outside, mask, protocol=protocol)
