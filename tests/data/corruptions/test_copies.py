import pytest
import torch
from torch.utils.data import TensorDataset

import tepui.data.corruptions.copies
from tepui.data import (
    STANDARD,
    Arrays,
    Corrupted,
    Normalize,
    corrupt,
    corrupted,
)


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
    with pytest.raises(KeyError, match=r"one of .*'contrast', 5.* got .*'fog', 1"):
        few["fog", 1]


def test_copies_are_bytes_of_any_data_set_and_keep_all_else(clean):
    copy = corrupted(clean)["impulse_noise", 3]
    assert copy.targets is clean.targets
    assert (copy.normalize, copy.classes) == (clean.normalize, clean.classes)
    floats = clean.like(clean.inputs / 255, clean.targets)
    for other in (floats, TensorDataset(clean.inputs, clean.targets)):
        found = corrupted(other)["impulse_noise", 3]
        assert torch.equal(found.inputs, copy.inputs)
        assert torch.equal(found.targets, clean.targets)


@pytest.mark.parametrize("name", ["shot_noise", "gaussian_blur"])
def test_copy_is_the_corruption_of_all_images(clean, name, monkeypatch):
    monkeypatch.setattr(tepui.data.corruptions.copies, "_ON_CPU", 64 * 40)
    copies = corrupted(clean, types=[name], strength="imagenet", seed=4)
    expected = corrupt(clean.inputs, name, 2, strength="imagenet", seed=4)
    assert torch.equal(copies[name, 2].inputs, expected)


def counted(monkeypatch):
    """Return a list that every call of a corruption goes into."""
    made = []

    def counting(images, name, severity, **options):
        made.append((name, severity))
        return corrupt(images, name, severity, **options)

    monkeypatch.setattr(tepui.data.corruptions.copies, "corrupt", counting)
    return made


def test_copies_are_made_when_asked_for(clean, monkeypatch):
    made = counted(monkeypatch)
    copies = corrupted(clean, types=("contrast", "brightness"), severities=(1, 5))
    assert ("contrast", 5) in copies
    assert ("contrast", 4) not in copies
    assert made == []
    values = iter(copies.items())
    next(values)
    assert set(made) == {("contrast", 1)}


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


def test_kept_copies_are_made_once(clean, monkeypatch):
    made = counted(monkeypatch)
    kinds = {"types": ("contrast", "shot_noise"), "severities": (1, 5)}
    copies = corrupted(clean, **kinds, keep=True)
    assert made == []
    first, second = dict(copies), dict(copies)
    assert made == list(copies)
    for cell, copy in corrupted(clean, **kinds).items():
        assert first[cell] is second[cell]
        assert torch.equal(first[cell].inputs, copy.inputs)


def test_copies_are_kept_only_if_all_of_them_fit(clean, monkeypatch):
    made = counted(monkeypatch)
    room = 2 * clean.inputs.numel()
    copies = {"types": ("contrast",), "severities": (1, 5), "keep": True}
    for kept, times in ((room, 1), (room - 1, 2)):
        monkeypatch.setattr(tepui.data.corruptions.copies, "KEPT_BYTES", kept)
        made.clear()
        several = corrupted(clean, **copies)
        for _ in range(2):
            list(several.values())
        assert len(made) == 2 * times


@pytest.mark.parametrize(("free", "moves"), [(3, True), (2.99, False)])
def test_copies_are_made_on_a_device_with_room(clean, monkeypatch, free, moves):
    """A device without memory stands for a GPU with some."""
    gpu, meta = torch.device("cuda"), torch.device("meta")
    monkeypatch.setattr(Arrays, "to", lambda self, device: moved)
    moved = clean.like(clean.inputs.to(meta), clean.targets.to(meta))
    bytes_free = int(free * clean.inputs.numel())
    monkeypatch.setattr(tepui.data.corruptions.copies, "_free", lambda _: bytes_free)
    copies = corrupted(clean, keep=True)
    found = copies.made_on(gpu)
    assert (found.dataset is moved) == moves
    assert (found is copies) != moves
    assert found.keep
    assert copies.made_on(clean.device) is copies


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_copies_stay_on_the_gpu(clean, monkeypatch):
    made = counted(monkeypatch)
    device = torch.device("cuda", 0)
    copies = corrupted(clean, severities=(2,), keep=True).made_on(device)
    assert copies.made_on(device) is copies
    first, second = dict(copies), dict(copies)
    assert made == list(copies)
    assert all(copy.inputs.device == device for copy in first.values())
    assert all(first[cell] is second[cell] for cell in copies)
    monkeypatch.setattr(tepui.data.corruptions.copies, "KEPT_SHARE", 0)
    passing = corrupted(clean, severities=(2,), keep=True).made_on(device)
    assert passing["fog", 2] is not passing["fog", 2]
