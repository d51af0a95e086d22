"""Color jitter, grayscale and blur against Pillow, scipy and closed forms."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance
from scipy.ndimage import gaussian_filter

from data.test_image_operations import from_pillow, pictures, to_pillow
from tepui.data import ColorJitter, GaussianBlur, RandomGrayscale


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
