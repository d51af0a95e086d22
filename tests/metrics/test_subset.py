"""Some of the classes: three protocols, each against its definition."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strategies import modest
from tepui.metrics import accuracy, restrict_classes, subset_accuracy, subset_vote

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
