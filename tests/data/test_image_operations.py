"""Operations on batches against Pillow's, image by image."""

import platform

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps

from tepui.data.image_operations import (
    ENHANCEMENTS,
    MOVES,
    OPERATIONS,
    TONES,
    enhanced,
    hue_turned,
    moved,
    operated,
    toned,
)

MAGNITUDES = {
    "identity": [0.0],
    "shear_x": [-0.99, -0.3, -0.01, 0.0, 0.15, 0.3, 0.99],
    "shear_y": [-0.99, -0.3, -0.01, 0.0, 0.15, 0.3, 0.99],
    "translate_x": [-32, -14, -1, 0, 1, 5, 31],
    "translate_y": [-32, -14, -1, 0, 1, 5, 31],
    "rotate": [-180, -135, -90, -30, -4.5, 0, 1, 4.5, 17, 45, 90, 135, 180],
    **{key: [0.0, 0.01, 0.1, 0.55, 1.0, 1.3, 1.9, 1.99] for key in ENHANCEMENTS},
    "posterize": [1, 2, 3, 4, 6, 8],
    "solarize": [0, 1, 25.5, 85, 128, 229.5, 255, 256],
    "autocontrast": [0.0],
    "equalize": [0.0],
    "invert": [0.0],
}
ENHANCERS = {
    "brightness": ImageEnhance.Brightness,
    "color": ImageEnhance.Color,
    "contrast": ImageEnhance.Contrast,
    "sharpness": ImageEnhance.Sharpness,
}


def pillow(image, name, magnitude, resample=Image.Resampling.NEAREST):
    """Apply an operation as released implementations do."""
    matrices = {
        "shear_x": (1, magnitude, 0, 0, 1, 0),
        "shear_y": (1, 0, 0, magnitude, 1, 0),
        "translate_x": (1, 0, magnitude, 0, 1, 0),
        "translate_y": (1, 0, 0, 0, 1, magnitude),
    }
    if name in matrices:
        how = (Image.Transform.AFFINE, matrices[name], resample)
        return image.transform(image.size, *how)
    if name in ENHANCERS:
        return ENHANCERS[name](image).enhance(magnitude)
    return {
        "identity": lambda: image,
        "rotate": lambda: image.rotate(magnitude, resample),
        "posterize": lambda: ImageOps.posterize(image, int(magnitude)),
        "solarize": lambda: ImageOps.solarize(image, magnitude),
        "autocontrast": lambda: ImageOps.autocontrast(image),
        "equalize": lambda: ImageOps.equalize(image),
        "invert": lambda: ImageOps.invert(image),
    }[name]()


def to_pillow(image):
    pixels = image.permute(1, 2, 0).numpy()
    return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)


def from_pillow(image):
    pixels = np.atleast_3d(np.array(image))
    return torch.from_numpy(pixels).permute(2, 0, 1)


def pictures(channels=3, height=32, width=32):
    """Noise, noise of few values, a slope, all of one value, and a dark corner."""
    stream = torch.Generator().manual_seed(channels * height + width)
    shape = (6, channels, height, width)
    images = torch.randint(256, shape, generator=stream, dtype=torch.uint8)
    images[1] = images[1] // 16 + 100
    images[2] = torch.arange(width) * 7 + torch.arange(height)[:, None] * 3
    images[3] = 77
    images[4, :, : height // 2] = 0
    images[5, :] = (torch.arange(width) > 2) * torch.tensor(255, dtype=torch.uint8)
    return images


def each(name, magnitudes, images):
    """Return every image with every magnitude, and places of the operation."""
    repeated = images.repeat(len(magnitudes), 1, 1, 1)
    amount = torch.tensor(magnitudes, dtype=torch.float64)
    amount = amount.repeat_interleave(len(images))
    return repeated, torch.full((len(repeated),), OPERATIONS.index(name)), amount


SHAPES = [(3, 32, 32), (1, 32, 32), (3, 9, 17), (1, 28, 20), (3, 64, 64), (3, 2, 5)]


READING = {False: Image.Resampling.NEAREST, True: Image.Resampling.BILINEAR}
CASES = [(name, False) for name in OPERATIONS] + [(name, True) for name in MOVES]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("name", "bilinear"), CASES)
def test_operation_is_pillows(name, bilinear, shape):
    images, operation, amount = each(name, MAGNITUDES[name], pictures(*shape))
    found = operated(images, operation, amount, bilinear=bilinear)
    expected = torch.stack(
        [
            from_pillow(pillow(to_pillow(image), name, float(much), READING[bilinear]))
            for image, much in zip(images, amount, strict=True)
        ]
    )
    assert (found.dtype, found.shape) == (torch.uint8, images.shape)
    # Elsewhere Pillow may be compiled to round once where two roundings are written,
    # and a cosine that differs in its last digit may change what is cut off.
    if platform.machine() == "x86_64" and (name, bilinear) != ("rotate", True):
        assert torch.equal(found, expected)
    assert (found.int() - expected.int()).abs().max() <= 1
    assert (found != expected).float().mean() < 1e-3


def test_each_sample_takes_its_own_operation():
    stream = torch.Generator().manual_seed(0)
    images = pictures().repeat(40, 1, 1, 1)
    operation = torch.randint(len(OPERATIONS), (len(images),), generator=stream)
    pick = torch.rand(len(images), generator=stream)
    amount = torch.tensor(
        [
            MAGNITUDES[OPERATIONS[o]][int(u * len(MAGNITUDES[OPERATIONS[o]]))]
            for o, u in zip(operation.tolist(), pick.tolist(), strict=True)
        ],
        dtype=torch.float64,
    )
    together = operated(images, operation, amount)
    for row, place in enumerate(operation.tolist()):
        own = slice(row, row + 1)
        alone = operated(images[own], operation[own], amount[own])
        assert torch.equal(together[own], alone)
        much = float(amount[row])
        expected = pillow(to_pillow(images[row]), OPERATIONS[place], much)
        assert torch.equal(together[row], from_pillow(expected))


@pytest.mark.parametrize("part", [moved, enhanced, toned])
def test_other_operations_change_nothing(part):
    own = {moved: MOVES, enhanced: ENHANCEMENTS, toned: TONES}[part]
    for name in set(OPERATIONS) - {*own}:
        images, operation, amount = each(name, MAGNITUDES[name], pictures())
        assert torch.equal(part(images, operation, amount), images), name


@pytest.mark.parametrize("turn", [-0.5, -0.25, -0.1, -0.001, 0, 0.01, 0.2, 1 / 3, 0.5])
def test_hue_is_turned_as_in_pillows_bytes(turn):
    stream = torch.Generator().manual_seed(0)
    images = torch.randint(256, (4, 3, 64, 64), generator=stream, dtype=torch.uint8)
    images = torch.cat([images, images // 60 * 60, pictures(height=64, width=64)])
    found = hue_turned(images, torch.full((len(images),), turn))
    for image, own in zip(images, found, strict=True):
        hue, *others = to_pillow(image).convert("HSV").split()
        turned = (np.array(hue).astype(int) + int(turn * 255)) % 256
        bands = [Image.fromarray(turned.astype(np.uint8)), *others]
        expected = Image.merge("HSV", bands).convert("RGB")
        assert torch.equal(own, from_pillow(expected))


def test_images_are_bytes_gray_or_in_color():
    one = torch.zeros(1)
    with pytest.raises(ValueError, match=r"images must be bytes .* got torch.float32"):
        operated(torch.zeros(1, 3, 4, 4), one.long(), one)
    images = torch.zeros(1, 4, 4, 4, dtype=torch.uint8)
    with pytest.raises(ValueError, match="images must have 1 or 3 channels, got 4"):
        operated(images, one.long(), one)
