"""Color jitter, grayscale and blur against Pillow, scipy and closed forms."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageEnhance
from scipy.ndimage import gaussian_filter

from data.test_image_operations import from_pillow, pictures, to_pillow
from tepui.core.spec import document, from_document, read, written
from tepui.data import (
    Augmentation,
    ColorJitter,
    GaussianBlur,
    HorizontalFlip,
    Mixup,
    PerMember,
    RandomCrop,
    RandomErasing,
    RandomGrayscale,
    RandomResizedCrop,
)
from tepui.data.augment import augment, policy_of

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


def uniform(samples, columns, seed=0):
    stream = torch.Generator().manual_seed(seed)
    return torch.rand(samples, columns, generator=stream)


def turned(image, share):
    if image.mode == "L" or share == 0:
        return image
    hue, *others = image.convert("HSV").split()
    bytes_ = (np.array(hue).astype(int) + int(share * 255)) % 256
    bands = [Image.fromarray(bytes_.astype(np.uint8)), *others]
    return Image.merge("HSV", bands).convert("RGB")


def jitter_naive(image, u, jitter):
    steps = [
        (ImageEnhance.Brightness, jitter.brightness),
        (ImageEnhance.Contrast, jitter.contrast),
        (ImageEnhance.Color, jitter.saturation),
    ]
    for which in np.argsort(u[4:].numpy(), kind="stable"):
        if which == 3:
            image = turned(image, np.float32(jitter.hue * (2 * float(u[3]) - 1)))
            continue
        enhance, most = steps[which]
        low = max(0, 1 - most)
        factor = low + (1 + most - low) * float(u[which])
        image = enhance(image).enhance(factor)
    return image


@pytest.mark.parametrize("channels", [3, 1])
@pytest.mark.parametrize(
    "jitter",
    [
        ColorJitter(),
        ColorJitter(brightness=0.8, contrast=1.5, saturation=2.0),
        ColorJitter(0, 0, 0, hue=0.5),
        ColorJitter(hue=0.3),
    ],
    ids=str,
)
def test_jitter_is_pillows_in_the_order_drawn(jitter, channels):
    images = pictures(channels).repeat(20, 1, 1, 1)
    draws = uniform(len(images), jitter.draws)
    found = jitter(images, draws)
    expected = torch.stack(
        [
            from_pillow(jitter_naive(to_pillow(image), u, jitter))
            for image, u in zip(images, draws, strict=True)
        ]
    )
    # Factors are float32 here: one blend may be cut off on the other side of a number,
    # which the next ones enlarge.
    assert (found != expected).float().mean() < 1e-3


@pytest.mark.parametrize("channels", [1, 3])
def test_grayscale_is_pillows_with_its_probability(channels):
    images = pictures(channels)
    found = RandomGrayscale(0.3)(images, torch.tensor([[0.1], [0.3]] * 3))
    for row, (image, own) in enumerate(zip(images, found, strict=True)):
        gray = from_pillow(to_pillow(image).convert("L")).expand_as(image)
        assert torch.equal(own, image if row % 2 else gray)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 5, 9)], ids=str)
def test_blur_is_scipys(shape, dtype):
    images = pictures(*shape)
    images = images if dtype == torch.uint8 else images.to(dtype) / 255
    blur, draws = GaussianBlur((0.1, 2.0), 0.8), uniform(6, 2)
    found = blur(images, draws)
    assert found.dtype == dtype
    for image, own, (chance, width) in zip(images, found, draws, strict=True):
        if chance >= 0.8:
            assert torch.equal(own, image)
            continue
        sigma = 0.1 + 1.9 * float(width)
        how = {"mode": "mirror", "radius": 6, "axes": (1, 2)}
        expected = gaussian_filter(image.double().numpy(), sigma, **how)
        tolerance = 0.501 if dtype == torch.uint8 else 1e-5
        assert np.abs(own.double().numpy() - expected).max() < tolerance


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
