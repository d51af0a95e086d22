import colorsys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy import ndimage

from tepui.data import CORRUPTIONS, Digits, corrupt
from tepui.data.corruptions import PARAMETERS, _box_matrix
from tepui.seeding import generator

SEVERITIES = (1, 2, 3, 4, 5)
NOISES = ("gaussian_noise", "shot_noise", "impulse_noise")
PUBLISHED = {
    ("cifar", "gaussian_noise"): ".04 .06 .08 .09 .10",
    ("cifar", "shot_noise"): "500 250 100 75 50",
    ("cifar", "impulse_noise"): ".01 .02 .03 .05 .07",
    ("cifar", "gaussian_blur"): ".4 .6 .7 .8 1",
    ("cifar", "brightness"): ".05 .1 .15 .2 .3",
    ("cifar", "contrast"): ".75 .5 .4 .3 .15",
    ("cifar", "pixelate"): ".95 .9 .85 .75 .65",
    ("tiny_imagenet", "gaussian_noise"): ".04 .08 .12 .15 .18",
    ("tiny_imagenet", "shot_noise"): "250 100 50 30 15",
    ("tiny_imagenet", "impulse_noise"): ".01 .02 .05 .08 .14",
    ("tiny_imagenet", "gaussian_blur"): ".5 .75 1 1.25 1.5",
    ("tiny_imagenet", "brightness"): ".1 .2 .3 .4 .5",
    ("tiny_imagenet", "contrast"): ".4 .3 .2 .1 .05",
    ("tiny_imagenet", "pixelate"): ".9 .8 .7 .6 .5",
    ("imagenet", "gaussian_noise"): ".08 .12 .18 .26 .38",
    ("imagenet", "shot_noise"): "60 25 12 5 3",
    ("imagenet", "impulse_noise"): ".03 .06 .09 .17 .27",
    ("imagenet", "gaussian_blur"): "1 2 3 4 6",
    ("imagenet", "brightness"): ".1 .2 .3 .4 .5",
    ("imagenet", "contrast"): ".4 .3 .2 .1 .05",
    ("imagenet", "pixelate"): ".6 .5 .4 .3 .25",
}


def noisy(samples, channels, height, width, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return torch.rand(
        samples, channels, height, width, generator=rng, dtype=torch.float64
    )


def smooth(samples=8, side=32):
    """RGB images of a few waves, bright and dark."""
    rng = np.random.default_rng(0)
    waves = ndimage.gaussian_filter(
        rng.random((samples, 3, side, side)), (0, 0, 3, 3), mode="wrap"
    )
    low, high = waves.min((1, 2, 3), keepdims=True), waves.max((1, 2, 3), keepdims=True)
    return torch.from_numpy((waves - low) / (high - low)).float()


def gaussian_noise_naive(image, std, rng):
    return image + std * torch.randn(image.shape, generator=rng).double()


def shot_noise_naive(image, photons, rng):
    return torch.poisson(image.float() * photons, generator=rng).double() / photons


def impulse_noise_naive(image, amount, rng):
    hit = torch.rand(image.shape, generator=rng).flatten().tolist()
    salt = torch.rand(image.shape, generator=rng).flatten().tolist()
    values = image.flatten().tolist()
    for i, old in enumerate(values):
        values[i] = (1.0 if salt[i] < 0.5 else 0.0) if hit[i] < amount else old
    return torch.tensor(values, dtype=image.dtype).view(image.shape)


def gaussian_blur_naive(image, sigma, _):
    channels = [
        ndimage.gaussian_filter(channel, sigma, mode="nearest", truncate=4.0)
        for channel in image.numpy()
    ]
    return torch.from_numpy(np.stack(channels))


def brightness_naive(image, shift, _):
    out = torch.empty_like(image)
    for y in range(image.shape[1]):
        for x in range(image.shape[2]):
            h, s, v = colorsys.rgb_to_hsv(*image[:, y, x].tolist())
            rgb = colorsys.hsv_to_rgb(h, s, min(v + shift, 1.0))
            out[:, y, x] = torch.tensor(rgb, dtype=image.dtype)
    return out


def contrast_naive(image, factor, _):
    channels = [(c - c.mean()) * factor + c.mean() for c in image]
    return torch.stack(channels)


def pixelate_naive(image, factor, _):
    _, height, width = image.shape
    small = max(1, int(width * factor)), max(1, int(height * factor))
    out = []
    for channel in image.float().numpy():
        shrunk = Image.fromarray(channel).resize(small, Image.Resampling.BOX)
        out.append(np.asarray(shrunk.resize((width, height), Image.Resampling.BOX)))
    return torch.from_numpy(np.stack(out)).double()


@settings(deadline=None, max_examples=25)
@given(
    st.sampled_from(SEVERITIES),
    st.sampled_from(sorted(PARAMETERS)),
    st.tuples(st.integers(1, 3), st.integers(1, 20), st.integers(1, 20)),
    st.integers(0, 99),
)
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_matches_naive(name, severity, strength, shape, seed):
    samples, height, width = shape
    images = noisy(samples, 3, height, width, seed)
    images[0, :, 0, 0] = 0.0
    found = corrupt(images, name, severity, strength=strength, seed=seed, first=7)
    naive, value = globals()[f"{name}_naive"], PARAMETERS[strength][name][severity - 1]
    expected = [
        naive(image, value, generator(seed, "corrupt", name, severity, 7 + i))
        for i, image in enumerate(images)
    ]
    # Pillow's box filter works in float32.
    tolerance = 1e-6 if name == "pixelate" else 1e-12
    torch.testing.assert_close(
        found, torch.stack(expected).clamp(0, 1), rtol=0, atol=tolerance
    )


@pytest.mark.parametrize("factor", PARAMETERS["cifar"]["pixelate"])
def test_pixelate_bytes_match_pillow(factor):
    image = noisy(1, 3, 32, 32).mul(256).to(torch.uint8)
    severity = PARAMETERS["cifar"]["pixelate"].index(factor) + 1
    pixels = Image.fromarray(image[0].permute(1, 2, 0).numpy())
    small = pixels.resize((int(32 * factor),) * 2, Image.Resampling.BOX)
    expected = np.asarray(small.resize((32, 32), Image.Resampling.BOX)).astype(int)
    found = corrupt(image, "pixelate", severity)[0].permute(1, 2, 0).numpy()
    assert np.abs(found - expected).max() <= 1
    assert np.abs(found - expected).mean() < 0.2


def test_box_filter_is_pillows_at_every_size():
    wrong = []
    for large in range(1, 41):
        for small in range(1, large + 1):
            for side, result in ((large, small), (small, large)):
                units = Image.fromarray(np.eye(side, dtype=np.float32))
                columns = units.resize((result, side), Image.Resampling.BOX)
                gap = _box_matrix(side, result).T.numpy() - np.asarray(columns)
                if np.abs(gap).max() > 1e-6:
                    wrong.append((side, result))
    assert wrong == []


@pytest.mark.parametrize("channels", [1, 2, 5])
def test_brightness_for_any_number_of_channels(channels):
    images = noisy(2, channels, 3, 3)
    images[0, :, 1, 1] = 0
    found = corrupt(images, "brightness", 3)
    for image, result in zip(images.flatten(2).mT, found.flatten(2).mT, strict=True):
        for pixel, new in zip(image.tolist(), result.tolist(), strict=True):
            old = max(pixel)
            goal = min(old + 0.15, 1)
            expected = [v / old * goal for v in pixel] if old else [goal] * channels
            assert new == pytest.approx(expected)


def test_tables_are_the_published_ones():
    rows = {
        (strength, name): values
        for strength, table in PARAMETERS.items()
        for name, values in table.items()
    }
    assert rows == {
        key: tuple(float(number) for number in row.split())
        for key, row in PUBLISHED.items()
    }
    assert all(tuple(table) == CORRUPTIONS for table in PARAMETERS.values())


@pytest.mark.parametrize("kind", ["digits", "smooth"])
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_effect_grows_with_severity(name, kind):
    images = Digits(train=False).inputs if kind == "digits" else smooth()
    effects = [
        (corrupt(images, name, severity) - images).abs().mean().item()
        for severity in SEVERITIES
    ]
    if (name, kind) == ("pixelate", "digits"):
        # Eight pixels shrink to 7, 7, 6, 6 and 5, and 5 happens to hurt less than 6.
        assert effects[0] == effects[1]
        assert effects[2] == effects[3] > effects[4]
        effects = [effects[0], effects[4]]
    assert np.diff([0, *effects]).min() > 0


@pytest.mark.parametrize("strength", sorted(PARAMETERS))
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_bytes_are_floats_cut_off(name, strength):
    images = smooth().mul(255).round().to(torch.uint8)
    found = corrupt(images, name, 4, strength=strength)
    exact = corrupt(images / 255, name, 4, strength=strength) * 255
    assert found.dtype == torch.uint8
    lost = exact - found
    low, high = (-0.501, 0.501) if name == "pixelate" else (-1e-3, 1)
    assert low <= lost.min()
    assert lost.max() < high


@pytest.mark.parametrize("name", ["gaussian_blur", "contrast", "pixelate"])
@pytest.mark.parametrize("severity", SEVERITIES)
def test_flat_bytes_keep_their_level(name, severity):
    flat = torch.arange(256, dtype=torch.uint8).view(256, 1, 1, 1).expand(-1, 1, 9, 7)
    assert torch.equal(corrupt(flat, name, severity), flat)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_floats_keep_type_and_range(name):
    for dtype in (torch.float32, torch.float64):
        found = corrupt(smooth().to(dtype), name, 5, strength="imagenet")
        assert found.dtype == dtype
        assert found.min() >= 0
        assert found.max() <= 1


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_batches_do_not_matter(name):
    images = smooth().mul(255).to(torch.uint8)
    whole = corrupt(images, name, 3, seed=5)
    parts = [
        corrupt(images[:3], name, 3, seed=5),
        corrupt(images[3:], name, 3, seed=5, first=3),
    ]
    assert torch.equal(whole, torch.cat(parts))


@pytest.mark.parametrize("name", NOISES)
def test_every_part_of_the_key_changes_the_noise(name):
    image = torch.full((1, 1, 32, 32), 0.5)
    base = corrupt(image, name, 5, strength="imagenet")
    assert torch.equal(base, corrupt(image, name, 5, strength="imagenet"))
    for key in ({"seed": 1}, {"first": 1}):
        assert not torch.equal(
            base, corrupt(image, name, 5, strength="imagenet", **key)
        )


def test_severities_draw_apart():
    image = torch.full((1, 1, 32, 32), 0.5)
    weak, strong = (corrupt(image, "gaussian_noise", s) - 0.5 for s in (1, 3))
    assert not torch.allclose(2 * weak, strong, atol=1e-3)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_input_and_global_generator_are_left_alone(name):
    images, before = smooth(), torch.get_rng_state()
    kept = images.clone()
    corrupt(images, name, 5)
    assert torch.equal(images, kept)
    assert torch.equal(torch.get_rng_state(), before)


def test_noise_has_its_moments():
    grey = torch.full((20, 1, 64, 64), 0.5)
    gaussian = corrupt(grey, "gaussian_noise", 5)
    assert gaussian.mean() == pytest.approx(0.5, abs=2e-3)
    assert gaussian.std() == pytest.approx(0.1, rel=0.02)
    shot = corrupt(grey, "shot_noise", 5)
    assert shot.mean() == pytest.approx(0.5, abs=2e-3)
    assert shot.var() == pytest.approx(0.5 / 50, rel=0.03)
    impulse = corrupt(grey, "impulse_noise", 5, strength="imagenet")
    assert (impulse == 1).float().mean() == pytest.approx(0.135, abs=5e-3)
    assert (impulse == 0).float().mean() == pytest.approx(0.135, abs=5e-3)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (("fog", 1), "name must be one of gaussian_noise, .*, pixelate, got 'fog'"),
        (("contrast", 0), "severity must be a whole number from 1 to 5, got 0"),
        (("contrast", 6), "severity must be a whole number from 1 to 5, got 6"),
        (("contrast", 1.5), "severity must be a whole number from 1 to 5, got 1.5"),
    ],
)
def test_unknown_corruptions_are_refused(arguments, match):
    with pytest.raises(ValueError, match=match):
        corrupt(torch.zeros(1, 1, 2, 2), *arguments)


def test_unknown_strength_is_refused():
    with pytest.raises(
        ValueError, match=r"strength must be one of cifar, .*'imagenet'"
    ):
        corrupt(torch.zeros(1, 1, 2, 2), "contrast", 1, strength="imagenett")


@pytest.mark.parametrize(
    ("images", "match"),
    [
        (torch.zeros(3, 8, 8), r"shape \(samples, .*got \(3, 8, 8\)"),
        (torch.zeros(0, 1, 8, 8), r"none of them 0, got \(0, 1, 8, 8\)"),
        (torch.zeros(1, 1, 2, 2, dtype=torch.int64), "be uint8 or floating point"),
        (torch.full((1, 1, 2, 2), 1.5), r"lie in \[0, 1\].* from 1.5 to 1.5"),
        (torch.full((1, 1, 2, 2), -0.5), r"lie in \[0, 1\].* from -0.5 to -0.5"),
        (torch.full((1, 1, 2, 2), torch.nan), r"lie in \[0, 1\].* from nan to nan"),
        (np.zeros((1, 1, 2, 2)), "images must hold images in one tensor, got ndarray"),
    ],
)
def test_what_is_no_image_is_refused(images, match):
    with pytest.raises(ValueError, match=match):
        corrupt(images, "contrast", 1)
