from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tepui.data import (
    Arrays,
    ArraysOnDisk,
    Digits,
    ImageFiles,
    Normalize,
    split,
    split_at,
)


def _bytes():
    images = torch.arange(3 * 2 * 4).view(3, 2, 2, 2).to(torch.uint8)
    return Arrays(images, torch.tensor([4, 5, 6]), classes=("a", "b"))


def test_item_is_scaled_image_and_label():
    image, label = _bytes()[1]
    assert torch.equal(image, torch.arange(8, 16).view(2, 2, 2) / 255)
    assert label == 5


def test_item_is_normalized_channel_by_channel():
    data = Arrays(torch.ones(2, 2, 1, 1), torch.zeros(2), Normalize((0, 3), (1, 4)))
    assert data[0][0].flatten().tolist() == [1.0, -0.5]


@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: {"tokens": x}])
def test_to_moves_inputs_and_targets(wrap):
    moved = Arrays(wrap(torch.zeros(2, 3)), torch.zeros(2)).to("meta")
    inputs = moved.inputs if isinstance(moved.inputs, torch.Tensor) else None
    inputs = moved.inputs["tokens"] if inputs is None else inputs
    assert inputs.device.type == moved.device.type == "meta"


def test_lengths_must_match():
    with pytest.raises(ValueError, match=r"inputs must have as many .* \(3\), got 2"):
        Arrays(torch.zeros(2, 1), torch.zeros(3))
    with pytest.raises(ValueError, match=r"inputs\['mask'\] must have as many"):
        Arrays({"x": torch.zeros(3), "mask": torch.zeros(4)}, torch.zeros(3))


@pytest.mark.parametrize("kind", ["arrays", "disk", "files"])
def test_two_classes_of_one_name_are_refused(kind, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((3, 2)))
    make = {
        "arrays": partial(Arrays, torch.zeros(3, 2)),
        "disk": partial(ArraysOnDisk, tmp_path / "x.npy"),
        "files": partial(ImageFiles, [tmp_path / "x.png"] * 3),
    }[kind]
    assert make(torch.arange(3), classes=("a", "b", "c")).classes == ("a", "b", "c")
    rule = "classes must have a name for each class that no other has, got 'a' for 0 a"
    with pytest.raises(ValueError, match=rule):
        make(torch.arange(3), classes=("a", "b", "a"))


def test_normalize_checks_its_numbers():
    with pytest.raises(ValueError, match=r"std must have one entry per mean \(2\)"):
        Normalize((0.0, 0.0), (1.0,))
    with pytest.raises(ValueError, match="std must be positive"):
        Normalize((0.0,), (0.0,))


def test_a_data_set_is_shown_in_a_line():
    digits = Digits(train=False)
    shown = f"Digits({len(digits)} samples, inputs (1, 8, 8), 10 classes)"
    assert repr(digits) == shown
    several = Arrays(torch.zeros(4, 2), torch.zeros(4, 3))
    assert repr(several) == "Arrays(4 samples, inputs (2,), targets float32 (3,))"


WORDS = ["dog", "cat", "dog"]


@pytest.mark.parametrize(
    "given",
    [WORDS, tuple(WORDS), np.array(WORDS), np.array(WORDS, object)],
    ids=["list", "tuple", "array", "objects"],
)
def test_targets_in_words_become_classes(given):
    data = Arrays(torch.zeros(3, 2), given)
    assert data.targets.tolist() == [1, 0, 1]
    assert data.classes == ("cat", "dog")
    named = Arrays(torch.zeros(3, 2), given, classes=("dog", "cow", "cat"))
    assert named.targets.tolist() == [0, 2, 0]
    assert named.classes == ("dog", "cow", "cat")
    rule = r"targets must be one of dogs, cat, got 'dog' \(did you mean 'dogs'\?\)"
    with pytest.raises(ValueError, match=rule):
        Arrays(torch.zeros(3, 2), given, classes=("dogs", "cat"))


def _arrays(samples):
    rows = torch.arange(samples)
    return Arrays(rows.float()[:, None, None, None], rows, Normalize((0,), (2,)))


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 60), st.floats(0.01, 0.99), st.integers(0, 5))
def test_parts_are_a_partition_in_order(samples, fraction, seed):
    assume(0 < round(fraction * samples) < samples)
    first, second = split(_arrays(samples), fraction, seed=seed)
    assert len(second) == round(fraction * samples)
    assert torch.equal(
        split(_arrays(samples), fraction, seed=seed)[1].targets, second.targets
    )
    both = first.targets.tolist() + second.targets.tolist()
    assert sorted(both) == list(range(samples))
    for part in (first, second):
        assert part.targets.tolist() == sorted(part.targets.tolist())
        assert torch.equal(part.inputs[:, 0, 0, 0], part.targets.float())


@pytest.mark.parametrize("fraction", [0, 1, -0.1, 1.5, float("nan"), 0.01, 0.99])
def test_a_fraction_that_leaves_a_side_empty_is_refused(fraction):
    with pytest.raises(ValueError, match=rf"fraction must .*, got {fraction}"):
        split(_arrays(10), fraction, seed=0)


def test_names_may_lie_in_a_file(tmp_path):
    np.save(tmp_path / "rows.npy", np.array([4, 1]))
    for path in (tmp_path / "rows.npy", str(tmp_path / "rows.npy")):
        assert split_at(_arrays(6), path)[1].targets.tolist() == [1, 4]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (torch.tensor([], dtype=torch.int64), "held_out must hold distinct indices"),
        ([0, 0], "held_out must hold distinct indices"),
        ([4], r"of range\(4\)"),
        ([-1], r"of range\(4\)"),
        ([0, 1, 2, 3], "proper subset"),
        ([0.5], "held_out must be a one-dimensional list of integers"),
        ([[0, 1]], "one-dimensional list of integers"),
    ],
)
def test_names_that_do_not_fit_are_refused(rows, message):
    with pytest.raises(ValueError, match=message):
        split_at(_arrays(4), rows)
