"""Each operation against a naive twin, scipy, Pillow or colorsys."""

import colorsys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy import ndimage

from tepui.data import corrupt
from tepui.data.corruptions import filters
from tepui.data.corruptions.apply import PARAMETERS
from tepui.data.corruptions.draws import Draws
from tepui.data.corruptions.pixels import (
    _sheared_grid,
    copied_from,
    disk_kernel,
    elastic_transform,
)
from tepui.data.corruptions.weather import (
    canny,
    distance_to,
    plasma,
    procedural_frost,
)

CPU = torch.device("cpu")
SHAPES = st.tuples(st.integers(1, 3), st.integers(1, 20), st.integers(1, 20))


def noisy(samples, channels, height, width, seed=0):
    rng = torch.Generator().manual_seed(seed)
    shape = samples, channels, height, width
    return torch.rand(shape, generator=rng, dtype=torch.float64)


def gaussian_blur_naive(image, sigma):
    planes = [
        ndimage.gaussian_filter(plane, sigma, mode="nearest", truncate=4.0)
        for plane in image
    ]
    return np.stack(planes)


def defocus_blur_naive(image, disk):
    kernel = disk_kernel(*disk).numpy()
    return np.stack(
        [ndimage.correlate(plane, kernel, mode="mirror") for plane in image]
    )


def zoom_blur_naive(image, zoom):
    total, factors = image.copy(), np.arange(1, *zoom)
    for factor in factors:
        cut = [int(np.ceil(side / factor)) for side in image.shape[1:]]
        top, left = (
            (side - c) // 2 for side, c in zip(image.shape[1:], cut, strict=True)
        )
        middle = image[:, top : top + cut[0], left : left + cut[1]]
        large = ndimage.zoom(middle, (1, factor, factor), order=1)
        total += large[:, : image.shape[1], : image.shape[2]]
    return total / (len(factors) + 1)


def per_pixel_hsv(image, change):
    out = np.empty_like(image)
    for y in range(image.shape[1]):
        for x in range(image.shape[2]):
            hue, saturation, value = colorsys.rgb_to_hsv(*image[:, y, x])
            out[:, y, x] = colorsys.hsv_to_rgb(hue, *change(saturation, value))
    return out


def brightness_naive(image, shift):
    return per_pixel_hsv(image, lambda s, v: (s, min(v + shift, 1)))


def saturate_naive(image, saturation):
    factor, shift = saturation
    return per_pixel_hsv(image, lambda s, v: (min(s * factor + shift, 1), v))


def contrast_naive(image, factor):
    return np.stack([(c - c.mean()) * factor + c.mean() for c in image])


def pixelate_naive(image, factor):
    height, width = image.shape[1:]
    small = max(1, int(width * factor)), max(1, int(height * factor))
    out = []
    for plane in image.astype(np.float32):
        shrunk = Image.fromarray(plane).resize(small, Image.Resampling.BOX)
        out.append(np.asarray(shrunk.resize((width, height), Image.Resampling.BOX)))
    return np.stack(out)


NAIVE = {
    name.removesuffix("_naive"): twin
    for name, twin in list(globals().items())
    if name.endswith("_naive")
}


@settings(deadline=None, max_examples=20)
@given(
    st.integers(1, 5), st.sampled_from(sorted(PARAMETERS)), SHAPES, st.integers(0, 99)
)
@pytest.mark.parametrize("name", sorted(NAIVE))
def test_matches_naive(name, severity, strength, shape, seed):
    samples, height, width = shape
    if name == "zoom_blur":  # scipy cannot zoom a single pixel
        height, width = height + 12, width + 12
    images = noisy(samples, 3, height, width, seed)
    images[0, :, 0, 0] = 0.0
    images[0, :, -1, -1] = 0.5
    found = corrupt(images, name, severity, strength=strength)
    value = PARAMETERS[strength][name][severity - 1]
    expected = np.stack([NAIVE[name](image, value) for image in images.numpy()])
    # Pillow's box filter works in float32.
    tolerance = 1e-6 if name == "pixelate" else 1e-12
    np.testing.assert_allclose(found, expected.clip(0, 1), rtol=0, atol=tolerance)


def test_box_filter_is_pillows_at_every_size():
    wrong = []
    for large in range(1, 41):
        for small in range(1, large + 1):
            for side, result in ((large, small), (small, large)):
                units = Image.fromarray(np.eye(side, dtype=np.float32))
                columns = units.resize((result, side), Image.Resampling.BOX)
                gap = filters.box_matrix(side, result).T.numpy() - np.asarray(columns)
                if np.abs(gap).max() > 1e-6:
                    wrong.append((side, result))
    assert wrong == []


@pytest.mark.parametrize("border", ["nearest", "reflect", "mirror"])
@pytest.mark.parametrize("sigma", [0.4, 3.0, 40.0])
def test_gaussian_at_the_border_is_scipys(border, sigma):
    image = noisy(1, 1, 9, 14)
    found = filters.gaussian(image, sigma, border, 3)
    expected = ndimage.gaussian_filter(image[0, 0], sigma, mode=border, truncate=3)
    np.testing.assert_allclose(found[0, 0], expected, atol=1e-12)


def copied_from_naive(offset, distance):
    _, height, width = offset.shape
    source = np.arange(height * width).reshape(height, width)
    for h in range(height - distance, distance, -1):
        for w in range(width - distance, distance, -1):
            down, right = offset[:, h, w]
            source[h, w] = source[h + down, w + right]
    return source.ravel()


@settings(deadline=None, max_examples=30)
@given(SHAPES, st.integers(1, 4), st.integers(0, 99))
def test_glass_copies_as_one_by_one(shape, distance, seed):
    rng = np.random.default_rng(seed)
    samples, height, width = shape
    offset = rng.integers(-distance, distance, size=(samples, 2, height, width))
    found = copied_from(torch.from_numpy(offset), distance)
    expected = [copied_from_naive(each, distance) for each in offset]
    np.testing.assert_array_equal(found, np.stack(expected))


def along_line_naive(image, radius, sigma, angle):
    _, height, width = image.shape
    steps = np.arange(2 * radius + 1)
    weights = np.exp(-(steps**2) / (2 * sigma**2))
    out = np.zeros_like(image)
    for step, weight in zip(steps, weights / weights.sum(), strict=True):
        down = int(np.ceil(step * np.sin(np.deg2rad(angle)) - 0.5))
        right = int(np.ceil(step * np.cos(np.deg2rad(angle)) - 0.5))
        for y in range(height):
            for x in range(width):
                source = (
                    min(max(y + down, 0), height - 1),
                    min(max(x + right, 0), width - 1),
                )
                out[:, y, x] += weight * image[:, *source]
    return out


@settings(deadline=None, max_examples=10)
@given(SHAPES, st.integers(1, 6), st.floats(0.5, 5), st.integers(0, 99))
def test_motion_matches_naive(shape, radius, sigma, seed):
    samples, height, width = shape
    images = noisy(samples, 2, height, width, seed)
    angles = 360 * torch.rand(samples, generator=torch.Generator().manual_seed(seed))
    found = filters.along_line(images, radius, sigma, angles)
    expected = [
        along_line_naive(image, radius, sigma, angle)
        for image, angle in zip(images.numpy(), angles.double().numpy(), strict=True)
    ]
    np.testing.assert_allclose(found, np.stack(expected), atol=1e-12)


def plasma_naive(wobble, decay):
    side = len(wobble)
    clouds, step, height = np.zeros((side, side)), side, 100.0
    while step >= 2:
        half = step // 2
        for y in range(half, side, step):
            for x in range(half, side, step):
                around = [
                    (y + a * half, x + b * half) for a in (-1, 1) for b in (-1, 1)
                ]
                mean = sum(clouds[r % side, c % side] for r, c in around) / 4
                clouds[y, x] = mean + height**2 * wobble[y, x]
        for y in range(0, side, half):
            for x in range((y + half) % step, side, step):
                around = [(y - half, x), (y + half, x), (y, x - half), (y, x + half)]
                mean = sum(clouds[r % side, c % side] for r, c in around) / 4
                clouds[y, x] = mean + height**2 * wobble[y, x]
        step, height = half, height / decay
    return (clouds - clouds.min()) / (clouds.max() - clouds.min())


@pytest.mark.parametrize("side", [2, 4, 32])
def test_plasma_matches_naive(side):
    wobble = 2 * noisy(3, 1, side, side)[:, 0] - 1
    expected = np.stack([plasma_naive(each, 1.7) for each in wobble.numpy()])
    np.testing.assert_allclose(plasma(wobble, 1.7), expected, atol=1e-12)


def test_shear_moves_three_points_as_told():
    corners = 6 * noisy(4, 1, 3, 2)[:, 0] - 3
    found = _sheared_grid(corners, 30, 30)
    reach, center = 10, 15
    old = center + reach * np.array([[1, 1], [1, -1], [-1, -1]])
    y, x = np.meshgrid(np.arange(30), np.arange(30), indexing="ij")
    for grid, moves in zip(found, corners.numpy(), strict=True):
        # Solve for the affine map from the moved points to the old ones.
        moved = np.hstack([old + moves, np.ones((3, 1))])
        affine = np.linalg.solve(moved, old)
        expected = np.stack([x, y, np.ones_like(x)], axis=2) @ affine
        np.testing.assert_allclose(grid, expected, atol=1e-9)


def test_elastic_reads_where_noise_points():
    images = noisy(2, 3, 20, 26)
    draws = Draws(("test",), 0, 2, CPU)
    found = elastic_transform(images, (0.4, 0.05, 0.0), draws)
    noise = 2 * draws.uniform(2, 20, 26).double().numpy() - 1
    for image, (down, right), result in zip(images, noise, found, strict=True):
        moves = [
            8 * ndimage.gaussian_filter(part, 1.0, mode="reflect", truncate=3)
            for part in (down, right)
        ]
        places = np.indices((20, 26)) + np.stack(moves)
        for plane, moved in zip(image.numpy(), result, strict=True):
            expected = ndimage.map_coordinates(plane, places, order=1, mode="reflect")
            np.testing.assert_allclose(moved, expected, atol=1e-5)


def test_distance_is_scipys():
    marked = noisy(20, 1, 17, 30) < 0.01
    found = distance_to(marked, limit=9)
    for mask, result in zip(marked.numpy(), found.numpy(), strict=True):
        if mask.any():
            exact = ndimage.distance_transform_edt(~mask[0])
            np.testing.assert_allclose(result[0], exact.clip(max=9), atol=1e-5)
        else:
            assert (result == 9).all()


def test_canny_finds_the_outline_of_a_disk():
    y, x = np.indices((40, 40))
    radius = np.hypot(y - 20, x - 20)
    disk = torch.from_numpy((radius < 10) * 200.0)[None, None]
    edges = canny(disk, 50, 150)[0, 0].numpy()
    assert (np.abs(radius[edges] - 10) < 1.5).all()
    holes, count = ndimage.label(~edges)
    assert count == 2, "the outline is closed"
    assert holes[20, 20] != holes[0, 0]
    assert not canny(disk * 0.1, 50, 150).any()
    # A weak edge counts where it continues a strong one, not alone.
    step = torch.zeros(1, 1, 9, 20)
    step[..., 5:, :] = 20
    assert not canny(step, 50, 150).any()
    step[..., 5:, 10:] = 60
    assert canny(step, 50, 150).any(dim=2).all()


def test_procedural_frost_is_fixed_bright_and_different():
    textures = procedural_frost()
    assert len(textures) == 5
    for number, texture in enumerate(textures):
        assert texture.shape == (3, 512, 512)
        assert 0.3 < texture.mean() < 0.85
        assert 0.05 < texture.std() < 0.25
        for other in textures[:number]:
            pair = torch.stack([texture[0].flatten(), other[0].flatten()])
            assert torch.corrcoef(pair)[0, 1].abs() < 0.25
