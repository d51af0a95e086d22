import pytest

from tepui.core.spec import document, from_document, read, written
from tepui.data import HorizontalFlip, Mixup, PerMember, RandomCrop
from tepui.data.augment import policy_of

POLICY = PerMember(RandomCrop(2), [HorizontalFlip(), Mixup(0.3)], [])


def test_lists_are_policies_and_augmentations_are_steps():
    steps = (RandomCrop(2), HorizontalFlip())
    assert policy_of(steps) == policy_of([*steps]) == steps
    lists = [[RandomCrop(2)], (HorizontalFlip(), Mixup(0.3)), []]
    assert policy_of(lists) == policy_of([POLICY]) == policy_of(POLICY) == POLICY
    assert policy_of([RandomCrop(2), [HorizontalFlip(), Mixup(0.3)], []]) == POLICY
    assert policy_of([]) == ()


def test_it_is_written_as_it_is_called():
    text = written(POLICY)
    assert text == (
        "PerMember((RandomCrop(padding=2),), (HorizontalFlip(), Mixup(alpha=0.3)), ())"
    )
    assert read(text, "augmentation") == POLICY
    assert from_document(document(POLICY)) == POLICY


def test_what_is_no_augmentation_is_refused():
    rule = "a policy must be an augmentation, or several in order, got 'Mixup'"
    with pytest.raises(ValueError, match=rule):
        PerMember([Mixup()], ["Mixup"])
