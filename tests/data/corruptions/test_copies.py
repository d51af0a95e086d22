import pytest
import torch
from torch.utils.data import TensorDataset

import tepui.data.corruptions.copies
from tepui.data import STANDARD, Arrays, Corrupted, Normalize, corrupt, corrupted


@pytest.fixture(scope="module")
def clean():
    rng = torch.Generator().manual_seed(0)
    images = torch.randint(256, (300, 1, 8, 8), generator=rng, dtype=torch.uint8)
    labels = torch.arange(300) % 10
    return Arrays(images, labels, Normalize((0.5,), (0.3,)), tuple("0123456789"))


def test_keys_are_types_times_severities(clean):
    copies = corrupted(clean)
    assert isinstance(copies, Corrupted)
    assert list(copies) == [(name, s) for name in STANDARD for s in range(1, 6)]
    assert len(copies) == 75
    few = corrupted(clean, types=["contrast"], severities=[5, 1])
    assert list(few) == [("contrast", 5), ("contrast", 1)]


@pytest.mark.parametrize("name", ["shot_noise", "gaussian_blur"])
def test_copy_is_the_corruption_of_all_images(clean, name, monkeypatch):
    monkeypatch.setattr(tepui.data.corruptions.copies, "_ON_CPU", 64 * 40)
    copies = corrupted(clean, types=[name], strength="imagenet", seed=4)
    expected = corrupt(clean.inputs, name, 2, strength="imagenet", seed=4)
    assert torch.equal(copies[name, 2].inputs, expected)


def test_copies_of_floats_are_bytes(clean):
    floats = clean.like(clean.inputs / 255, clean.targets)
    found = corrupted(floats)["fog", 3].inputs
    assert torch.equal(found, corrupted(clean)["fog", 3].inputs)


def test_copy_keeps_everything_else(clean):
    copy = corrupted(clean)["contrast", 5]
    assert copy.targets is clean.targets
    assert copy.normalize == clean.normalize
    assert copy.classes == clean.classes


def test_copies_are_made_when_asked_for(clean, monkeypatch):
    made = []

    def counting(images, name, severity, **options):
        made.append((name, severity))
        return corrupt(images, name, severity, **options)

    monkeypatch.setattr(tepui.data.corruptions.copies, "corrupt", counting)
    copies = corrupted(clean, types=("contrast", "brightness"), severities=(1, 5))
    assert ("contrast", 5) in copies
    assert ("contrast", 4) not in copies
    assert made == []
    values = iter(copies.items())
    next(values)
    assert set(made) == {("contrast", 1)}


def test_other_data_sets_are_converted(clean):
    plain = TensorDataset(clean.inputs, clean.targets)
    found = corrupted(plain)["impulse_noise", 3]
    expected = corrupted(clean)["impulse_noise", 3]
    assert torch.equal(found.inputs, expected.inputs)
    assert torch.equal(found.targets, clean.targets)


def test_unknown_key_lists_the_known(clean):
    with pytest.raises(KeyError, match=r"one of .*'contrast', 1.* got .*'fog', 1"):
        corrupted(clean, types=("contrast",))["fog", 1]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"types": ("fogg",)}, "name must be one of gaussian_noise"),
        ({"severities": (1, 6)}, "severity must be an integer from 1 to 5, got 6"),
        ({"strength": "mnist"}, "strength must be one of cifar"),
        ({"types": ()}, "types and severities must not be empty"),
    ],
)
def test_bad_settings_are_refused_at_once(clean, options, match):
    with pytest.raises(ValueError, match=match):
        corrupted(clean, **options)


@pytest.mark.parametrize(
    ("inputs", "match"),
    [
        (torch.zeros(2, 64), r"dataset must be images of shape .* got \(2, 64\)"),
        ({"tokens": torch.zeros(2, 4)}, "dataset must hold images in one tensor"),
        (torch.full((2, 1, 4, 4), -2.0), "before any normalization"),
    ],
)
def test_what_is_no_image_is_refused_at_once(inputs, match):
    with pytest.raises(ValueError, match=match):
        corrupted(Arrays(inputs, torch.zeros(2)))
