import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tepui.data import (
    Augmentation,
    HorizontalFlip,
    RandomCrop,
    RandomErasing,
    RandomResizedCrop,
)
from tepui.data.augment import augment

EDGES = torch.tensor([0.0, 0.5, math.nextafter(1, 0)], dtype=torch.float64)
quickly = settings(deadline=None, max_examples=60)


@st.composite
def batches(draw, draws, min_side=1):
    """Images with distinct pixels, and uniform numbers with the extremes among them."""
    samples, channels = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    height, width = draw(st.integers(min_side, 11)), draw(st.integers(min_side, 11))
    rng = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    images = torch.rand(
        samples, channels, height, width, generator=rng, dtype=torch.float64
    )
    if draw(st.booleans()):
        images = images.mul(256).to(torch.uint8)
    uniform = torch.rand(samples, draws, generator=rng, dtype=torch.float64)
    extreme = torch.rand(samples, draws, generator=rng) < 0.3
    which = torch.randint(3, (samples, draws), generator=rng)
    return images, torch.where(extreme, EDGES[which], uniform)


def crop_naive(image, padding, fill, u):
    channels, height, width = image.shape
    fill = round(fill * 255) if image.dtype == torch.uint8 else fill
    top, left = (math.floor(float(v) * (2 * padding + 1)) for v in u)
    out = torch.full_like(image, fill)
    for c in range(channels):
        for y in range(height):
            for x in range(width):
                row, column = y + top - padding, x + left - padding
                if 0 <= row < height and 0 <= column < width:
                    out[c, y, x] = image[c, row, column]
    return out


def flip_naive(image, probability, u):
    return (
        torch.from_numpy(image.numpy()[:, :, ::-1].copy()) if u < probability else image
    )


def sides_naive(image, scale, ratio, u):
    _, height, width = image.shape
    area = height * width * (scale[0] + (scale[1] - scale[0]) * float(u[0]))
    low, high = math.log(ratio[0]), math.log(ratio[1])
    aspect = math.exp(low + (high - low) * float(u[1]))
    return math.sqrt(area / aspect), math.sqrt(area * aspect)


def window_naive(image, scale, ratio, u):
    _, height, width = image.shape
    tall, wide = sides_naive(image, scale, ratio, u)
    # A tie is left to rounding error.
    assume(min(abs(tall % 1 - 0.5), abs(wide % 1 - 0.5)) > 1e-9)
    tall, wide = min(max(round(tall), 1), height), min(max(round(wide), 1), width)
    top = math.floor(float(u[2]) * (height - tall + 1))
    left = math.floor(float(u[3]) * (width - wide + 1))
    return slice(top, top + tall), slice(left, left + wide)


def resized_crop_naive(image, size, scale, ratio, u):
    _, height, width = image.shape
    rows, columns = window_naive(image, scale, ratio, u)
    window = image[None, :, rows, columns].double()
    out = (size, size) if size else (height, width)
    return F.interpolate(window, out, mode="bilinear", align_corners=False)[0]


@quickly
@given(batches(2), st.integers(1, 5), st.sampled_from([0.0, 128 / 255, 1.0]))
def test_crop_matches_naive(batch, padding, fill):
    images, uniform = batch
    found = RandomCrop(padding, fill)(images, uniform)
    pairs = zip(images, uniform, strict=True)
    expected = [crop_naive(image, padding, fill, u) for image, u in pairs]
    assert found.dtype == images.dtype
    assert torch.equal(found, torch.stack(expected))


@quickly
@given(batches(1), st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_flip_matches_naive(batch, probability):
    images, uniform = batch
    found = HorizontalFlip(probability)(images, uniform)
    pairs = zip(images, uniform, strict=True)
    expected = [flip_naive(image, probability, u) for image, u in pairs]
    assert found.dtype == images.dtype
    assert torch.equal(found, torch.stack(expected))


@quickly
@given(
    batches(4),
    st.sampled_from([None, 1, 5, 13]),
    st.sampled_from([(0.08, 1.0), (0.5, 0.5), (0.01, 0.3)]),
    st.sampled_from([(3 / 4, 4 / 3), (0.2, 6.0)]),
)
def test_resized_crop_matches_naive(batch, size, scale, ratio):
    images, uniform = batch
    found = RandomResizedCrop(size, scale, ratio)(images, uniform)
    pairs = zip(images, uniform, strict=True)
    expected = torch.stack(
        [resized_crop_naive(image, size, scale, ratio, u) for image, u in pairs]
    )
    assert found.dtype == images.dtype
    # Bytes are rounded, after arithmetic in float32.
    tolerance = 0.501 if images.dtype == torch.uint8 else 1e-9
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=tolerance)


@quickly
@given(
    batches(5),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.sampled_from([(0.02, 0.33), (0.5, 0.5), (0.9, 1.0)]),
    st.sampled_from([(0.3, 3.3), (1.0, 1.0)]),
    st.sampled_from([0.0, 128 / 255, 1.0]),
)
def test_erasing_matches_naive(batch, probability, scale, ratio, fill):
    images, uniform = batch
    found = RandomErasing(probability, scale, ratio, fill)(images, uniform)
    value = round(fill * 255) if images.dtype == torch.uint8 else fill
    expected = images.clone()
    for image, u in zip(expected, uniform, strict=True):
        if u[0] < probability:
            image[:, *window_naive(image, scale, ratio, u[1:])] = value
    assert found.dtype == images.dtype
    assert torch.equal(found, expected)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.bfloat16])
def test_full_window_is_the_image(dtype):
    images = torch.arange(2 * 3 * 7 * 5).view(2, 3, 7, 5).to(dtype)
    whole = RandomResizedCrop(scale=(1.0, 1.0), ratio=(5 / 7, 5 / 7))
    found = whole(images, torch.rand(2, 4))
    torch.testing.assert_close(found, images, rtol=1e-5, atol=1e-4)


def test_no_augmentation_is_the_identity():
    images = torch.rand(3, 1, 4, 4)
    assert augment(images, [], torch.empty(3, 0)) is images


def test_own_augmentation_joins_in():
    class Shift(Augmentation):
        draws = 1

        def __call__(self, images, uniform):
            return images + uniform[:, :, None, None]

    found = augment(torch.zeros(2, 1, 2, 2), [Shift()], torch.tensor([[0.1], [0.2]]))
    assert found[:, 0, 0, 0].tolist() == pytest.approx([0.1, 0.2])
