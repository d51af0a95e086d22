"""Accuracies against loops, scikit-learn and torchmetrics."""

import math
import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    jaccard_score,
    precision_recall_fscore_support,
)
from torchmetrics.functional.classification import multiclass_accuracy

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
    individual_accuracy,
    mean_iou,
    pixels,
    restrict_classes,
    subset_accuracy,
    subset_vote,
)


@modest
@given(case=labeled_ensembles())
def test_individual_accuracy_matches_naive(case):
    logits, labels = case
    expected = []
    for member in logits.tolist():
        hits = 0
        for row, label in zip(member, labels.tolist(), strict=True):
            hits += row.index(max(row)) == label
        expected.append(hits / len(labels))
    close(individual_accuracy(logits, labels), expected)


@pytest.mark.parametrize("rule", RULES)
@modest
@given(case=labeled_ensembles())
def test_accuracy_matches_references(rule, case):
    logits, labels = case
    predicted = ensemble_predictions(logits, rule=rule)
    close(accuracy(logits, labels, rule=rule), accuracy_score(labels, predicted))
    classes = logits.shape[2]
    micro = multiclass_accuracy(predicted, labels, classes, average="micro")
    assert accuracy(logits, labels, rule=rule).float() == pytest.approx(micro.item())


@modest
@given(case=labeled_ensembles())
def test_ensemble_of_one_is_as_accurate_as_its_member(case):
    logits, labels = case
    for rule in RULES:
        alone = individual_accuracy(logits[:1], labels)[0]
        assert accuracy(logits[:1], labels, rule=rule) == alone


def test_labels_may_have_any_integer_type():
    logits = torch.tensor([[[2.0, 0.0], [2.0, 0.0]]])
    for dtype in (torch.uint8, torch.int32, torch.int64):
        assert accuracy(logits, torch.tensor([0, 1], dtype=dtype)) == 0.5


def test_corruption_accuracy_is_the_mean_of_means():
    cells = {("fog", 1): 0.9, ("fog", 5): 0.5, ("snow", 1): 0.8, ("snow", 5): 0.2}
    assert corruption_accuracy(cells) == pytest.approx((0.7 + 0.5) / 2)


def test_corruption_accuracy_takes_tensors_and_numbers_together():
    half = torch.tensor(0.7, dtype=torch.float16)
    mixed = corruption_accuracy({("fog", 1): half, ("fog", 2): 0.5})
    assert mixed.dtype == torch.float32
    assert mixed == pytest.approx(0.6, abs=1e-3)
    double = {("fog", 1): torch.tensor(1 / 3, dtype=torch.float64)}
    assert corruption_accuracy(double).item() == 1 / 3


def test_corruption_accuracy_names_the_missing_cells():
    cells = {("fog", 1): 0.9, ("snow", 3): 0.8, ("snow", 1): 0.1}
    with pytest.raises(ValueError, match=r"got \"none for \[\('fog', 3\)\]\"$"):
        corruption_accuracy(cells)


def test_corruption_accuracy_rejects_nothing_and_vectors():
    with pytest.raises(ValueError, match="accuracies must hold at least one cell"):
        corruption_accuracy({})
    with pytest.raises(ValueError, match=r"\('fog', 1\)\] must be a scalar.*\(2,\)"):
        corruption_accuracy({("fog", 1): torch.tensor([0.5, 0.5])})


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


def test_balanced_accuracy_is_accuracy_where_classes_are_as_frequent():
    logits = torch.randn(3, 40, 4, generator=torch.Generator().manual_seed(0)).double()
    labels = torch.arange(40) % 4
    close(balanced_accuracy(logits, labels), accuracy(logits, labels))


def test_what_is_a_share_of_nothing_is_no_number():
    logits = torch.tensor([[[9.0, 0, 0, 0], [9.0, 0, 0, 0], [0, 9.0, 0, 0]]])
    found = class_scores(logits, torch.tensor([0, 2, 0]))
    # Classes: found and missed, only predicted, only there, neither.
    nan = math.nan
    expected = [[2, 0, 1, 0], [0.5, nan, 0, nan], [0.5, 0, nan, nan], [0.5, 0, 0, nan]]
    for actual, row in zip(found, expected, strict=True):
        assert actual.tolist() == pytest.approx(row, nan_ok=True)
    assert balanced_accuracy(logits, torch.tensor([0, 2, 0])) == 0.25


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


def test_shapes_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match=r"labels must have shape \(5, 8\) to match"):
        pixels(torch.zeros(2, 5, 3, 8), torch.zeros(5, 7).long())
    with pytest.raises(ValueError, match=r"outputs must have shape \(members, samp"):
        pixels(torch.zeros(5, 3), torch.zeros(5).long())


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


def test_the_usual_protocol_is_accuracy_on_restricted_logits():
    logits, labels, mask = drawn(0)
    expected = accuracy(*restrict_classes(logits, labels, mask), rule="logit")
    assert torch.equal(subset_accuracy(logits, labels, mask), expected)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("members", [1, 2, 50])
def test_identical_members_are_one(protocol, members):
    logits, labels, mask = drawn(1, members=1)
    one = subset_accuracy(logits, labels, mask, protocol=protocol)
    many = subset_accuracy(
        logits.repeat(members, 1, 1), labels, mask, protocol=protocol
    )
    assert torch.equal(one, many)


def test_votes_outside_are_free_and_favor_many_members():
    """Members that are right once in five and else err outside, each on its own."""
    classes, members, samples = 10, 50, 200
    stream = torch.Generator().manual_seed(0)
    mask = torch.arange(classes) < 5
    labels = torch.randint(5, (samples,), generator=stream)
    correct = torch.rand(members, samples, generator=stream) < 0.2
    chosen = torch.where(correct, labels, 5 + labels)
    logits = torch.eye(classes)[chosen]
    assert subset_accuracy(logits, labels, mask, protocol="subset_vote") == 1
    assert subset_accuracy(logits, labels, mask, protocol="unrestricted") == 0
    assert subset_accuracy(logits[:1], labels, mask, protocol="subset_vote") < 0.3


def test_no_vote_inside_is_wrong_whatever_the_label():
    logits = torch.eye(3)[[2, 2]][:, None]
    mask = torch.tensor([True, True, False])
    assert subset_vote(logits, mask).tolist() == [-1]
    for label in (0, 1):
        actual = subset_accuracy(
            logits, torch.tensor([label]), mask, protocol="subset_vote"
        )
        assert actual == 0


def test_of_equal_votes_the_first_class_wins():
    logits = torch.eye(3)[[2, 1]][:, None]
    assert subset_vote(logits, torch.ones(3, dtype=torch.bool)).tolist() == [1]


def test_with_all_classes_the_first_two_protocols_agree():
    logits, labels, _ = drawn(2)
    mask = torch.ones(8, dtype=torch.bool)
    first, second = (
        subset_accuracy(logits, labels, mask, protocol=p) for p in PROTOCOLS[:2]
    )
    assert torch.equal(first, second)
    assert torch.equal(first, accuracy(logits, labels, rule="logit"))


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


def test_an_unknown_protocol_is_refused():
    with pytest.raises(ValueError, match=r"protocol must be one of .* mean 'subset_"):
        subset_accuracy(*drawn(4), protocol="subset_votes")


def test_restricted_logits_and_labels_agree_with_a_loop():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 6, 5, generator=generator)
    mask = torch.tensor([False, True, False, True, True])
    labels = torch.tensor([1, 3, 4, 4, 1, 3])
    actual, renumbered = restrict_classes(logits, labels, mask)
    kept = [index for index in range(5) if mask[index]]
    assert torch.equal(actual, torch.stack([logits[..., i] for i in kept], dim=-1))
    assert renumbered.tolist() == [kept.index(label) for label in labels.tolist()]


@pytest.mark.parametrize(
    ("mask", "labels", "message"),
    [
        (
            torch.ones(4, dtype=torch.bool),
            [0, 1],
            r"mask must be boolean of shape \(5,",
        ),
        (torch.ones(5), [0, 1], "mask must be boolean"),
        (torch.tensor([True, False, True, True, True]), [0, 1], "got '1 outside'"),
        (torch.ones(5, dtype=torch.bool), [0, 5], r"lie in \[0, 4\]"),
    ],
)
def test_masks_that_do_not_fit_are_refused(mask, labels, message):
    with pytest.raises(ValueError, match=message):
        restrict_classes(torch.zeros(2, 5), torch.tensor(labels), mask)
