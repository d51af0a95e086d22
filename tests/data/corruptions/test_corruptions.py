from pathlib import Path

import numpy as np
import pytest
import torch

from tepui.data import CORRUPTIONS, STANDARD, corrupt
from tepui.data.corruptions.apply import PARAMETERS

SEVERITIES = (1, 2, 3, 4, 5)
EXTRA = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
RANDOM = (
    "gaussian_noise",
    "shot_noise",
    "impulse_noise",
    "glass_blur",
    "motion_blur",
    "snow",
    "frost",
    "fog",
    "elastic_transform",
    "speckle_noise",
    "spatter",
)
# From one severity to the next, frost darkens and spatter turns from water to mud.
NOT_MONOTONE = ("glass_blur", "snow", "frost", "elastic_transform", "spatter")
SNOW = (
    "(.1,.2,1,.6,8,3,{})(.1,.2,1,.5,10,4,{})(.15,.3,1.75,.55,10,4,{})"
    "(.25,.3,2.25,.6,12,6,{})(.3,.3,1.25,.65,14,12,{})"
)
ZOOM = "(1.06,.01)(1.11,.01)(1.16,.01)(1.21,.01)(1.26,.01)"
PUBLISHED = {
    "cifar": {
        "gaussian_noise": ".04 .06 .08 .09 .10",
        "shot_noise": "500 250 100 75 50",
        "impulse_noise": ".01 .02 .03 .05 .07",
        "defocus_blur": "(.3,.4)(.4,.5)(.5,.6)(1,.2)(1.5,.1)",
        "glass_blur": "(.05,1,1)(.25,1,1)(.4,1,1)(.25,1,2)(.4,1,2)",
        "motion_blur": "(6,1)(6,1.5)(6,2)(8,2)(9,2.5)",
        "zoom_blur": ZOOM,
        "snow": SNOW.format(0.95, 0.9, 0.9, 0.85, 0.8),
        "frost": "(1,.2,.2)(1,.3,.2)(.9,.4,.2)(.85,.4,.2)(.75,.45,.2)",
        "fog": "(.2,3)(.5,3)(.75,2.5)(1,2)(1.5,1.75)",
        "brightness": ".05 .1 .15 .2 .3",
        "contrast": ".75 .5 .4 .3 .15",
        "elastic_transform": "(0,0,.08)(.05,.2,.07)(.08,.06,.06)(.1,.04,.05)"
        "(.1,.03,.03)",
        "pixelate": ".95 .9 .85 .75 .65",
        "jpeg_compression": "80 65 58 50 40",
        "speckle_noise": ".06 .1 .12 .16 .2",
        "gaussian_blur": ".4 .6 .7 .8 1",
        "spatter": "(.62,.1,.7,.7,.5,0)(.65,.1,.8,.7,.5,0)(.65,.3,1,.69,.5,0)"
        "(.65,.1,.7,.69,.6,1)(.65,.1,.5,.68,.6,1)",
        "saturate": "(.3,0)(.1,0)(1.5,0)(2,.1)(2.5,.2)",
    },
    "tiny_imagenet": {
        "gaussian_noise": ".04 .08 .12 .15 .18",
        "shot_noise": "250 100 50 30 15",
        "impulse_noise": ".01 .02 .05 .08 .14",
        "defocus_blur": "(.5,.6)(1,.1)(1.5,.1)(2.5,.01)(3,.1)",
        "glass_blur": "(.1,1,1)(.5,1,1)(.6,1,2)(.7,2,1)(.9,2,2)",
        "motion_blur": "(10,1)(10,1.5)(10,2)(10,2.5)(12,3)",
        "zoom_blur": ZOOM,
        "snow": SNOW.format(0.8, 0.8, 0.7, 0.65, 0.6),
        "frost": "(1,.3,.3)(.9,.4,.3)(.8,.45,.3)(.75,.5,.3)(.7,.55,.3)",
        "fog": "(.4,3)(.7,3)(1,2.5)(1.5,2)(2,1.75)",
        "brightness": ".1 .2 .3 .4 .5",
        "contrast": ".4 .3 .2 .1 .05",
        "elastic_transform": "(0,0,.08)(.05,.3,.06)(.1,.08,.06)(.1,.03,.03)"
        "(.16,.03,.02)",
        "pixelate": ".9 .8 .7 .6 .5",
        "jpeg_compression": "65 58 50 40 25",
        "speckle_noise": ".15 .2 .25 .3 .35",
        "gaussian_blur": ".5 .75 1 1.25 1.5",
        "spatter": "(.62,.1,.7,.7,.6,0)(.65,.1,.8,.7,.6,0)(.65,.3,1,.69,.6,0)"
        "(.65,.1,.7,.68,.6,1)(.65,.1,.5,.67,.6,1)",
        "saturate": "(.3,0)(.1,0)(2,0)(5,.1)(30,.2)",
    },
}


def photographs():
    """Four photographs of 48 pixels, bytes."""
    file = Path(__file__).parents[1] / "fixtures" / "imagecorruptions.npz"
    with np.load(file, allow_pickle=False) as recorded:
        return torch.from_numpy(recorded["images"]).permute(0, 3, 1, 2).contiguous()


@pytest.fixture(scope="module")
def photos():
    return photographs()


def rows(text):
    """The numbers of five severities."""
    groups = text.strip("()").split(")(") if "(" in text else text.split()
    return np.array([[float(number) for number in g.split(",")] for g in groups])


def test_types_are_the_published_ones():
    assert len(STANDARD) == 15
    assert (*STANDARD, *EXTRA) == CORRUPTIONS
    assert all(tuple(table) == CORRUPTIONS for table in PARAMETERS.values())


@pytest.mark.parametrize("name", CORRUPTIONS)
@pytest.mark.parametrize("strength", PUBLISHED)
def test_tables_are_the_published_ones(strength, name):
    expected = rows(PUBLISHED[strength][name])
    found = np.array(PARAMETERS[strength][name], dtype=float).reshape(5, -1)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(
    "name", sorted({*CORRUPTIONS} - {*NOT_MONOTONE, "motion_blur", "saturate"})
)
def test_effect_grows_with_severity(photos, name):
    images = photos.repeat(32 if name in RANDOM else 1, 1, 1, 1)
    changed = (corrupt(images, name, each).float() - images for each in SEVERITIES)
    effects = [0, *(change.abs().mean().item() for change in changed)]
    assert effects == sorted({*effects})


@pytest.mark.parametrize("strength", sorted(PARAMETERS))
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_bytes_are_floats_cut_off(photos, name, strength):
    found = corrupt(photos, name, 4, strength=strength)
    exact = corrupt(photos / 255, name, 4, strength=strength) * 255
    assert found.dtype == torch.uint8
    lost = exact - found
    low, high = (-0.501, 0.501) if name == "pixelate" else (-1e-3, 1)
    assert low <= lost.min()
    assert lost.max() < high


@pytest.mark.parametrize(
    "name", ["gaussian_blur", "contrast", "pixelate", "defocus_blur", "zoom_blur"]
)
@pytest.mark.parametrize("severity", SEVERITIES)
def test_flat_bytes_keep_their_level(name, severity):
    flat = torch.arange(256, dtype=torch.uint8).view(256, 1, 1, 1).expand(-1, 1, 9, 7)
    assert torch.equal(corrupt(flat, name, severity), flat)


@pytest.mark.parametrize("name", CORRUPTIONS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_floats_keep_type_and_range(photos, name, dtype):
    found = corrupt((photos / 255).to(dtype), name, 5, strength="imagenet")
    assert found.dtype == dtype
    assert found.shape == photos.shape
    assert found.min() >= 0
    assert found.max() <= 1


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 8, 8), (3, 5, 12), (4, 33, 2)])
@pytest.mark.parametrize("strength", ["cifar", "imagenet"])
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_any_size_and_any_number_of_channels(name, strength, shape):
    rng = torch.Generator().manual_seed(0)
    images = torch.randint(256, (2, *shape), generator=rng, dtype=torch.uint8)
    for severity in SEVERITIES:
        found = corrupt(images / 255, name, severity, strength=strength)
        assert found.shape == images.shape
        assert found.isfinite().all()


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_gray_is_corrupted_as_equal_channels(photos, name):
    """Noise, which differs between channels, and the red tint of saturate apart."""
    gray = photos[:, :1]
    one = corrupt(gray, name, 2, strength="imagenet").int()
    three = corrupt(gray.repeat(1, 3, 1, 1), name, 2, strength="imagenet").int()
    if "noise" in name:
        assert (three - one).abs().max() > 0
    elif name in ("frost", "spatter"):
        assert (three.float().mean(1, keepdim=True) - one).abs().max() < 60
    else:
        tolerance = 8 if name == "jpeg_compression" else 1
        assert (three - one).abs().max() <= tolerance


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_batches_do_not_matter(photos, name):
    images = photos.repeat(3, 1, 1, 1)
    whole = corrupt(images, name, 3, seed=5)
    parts = [
        corrupt(images[:5], name, 3, seed=5),
        corrupt(images[5:6], name, 3, seed=5, first=5),
        corrupt(images[6:], name, 3, seed=5, first=6),
    ]
    gap = (whole.int() - torch.cat(parts).int()).abs()
    # The last bit of a product of matrices may depend on their size.
    assert gap.max() <= 1
    assert gap.float().mean() < 1e-4


@pytest.mark.parametrize("name", RANDOM)
def test_every_part_of_the_key_changes_the_draws(photos, name):
    options = {"strength": "imagenet"}
    base = corrupt(photos[:1], name, 5, **options)
    assert torch.equal(base, corrupt(photos[:1], name, 5, **options))
    for key in ({"seed": 1}, {"first": 1}):
        assert not torch.equal(base, corrupt(photos[:1], name, 5, **options, **key))


@pytest.mark.parametrize("name", sorted(set(CORRUPTIONS) - set(RANDOM)))
def test_other_types_draw_nothing(photos, name):
    base = corrupt(photos, name, 5)
    assert torch.equal(base, corrupt(photos, name, 5, seed=1, first=9))


def test_severities_draw_apart():
    image = torch.full((1, 1, 32, 32), 0.5)
    weak, strong = (corrupt(image, "gaussian_noise", s) - 0.5 for s in (1, 3))
    assert not torch.allclose(2 * weak, strong, atol=1e-3)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_input_and_global_generator_are_left_alone(photos, name):
    images, before = photos / 255, torch.get_rng_state()
    kept = images.clone()
    for severity in (1, 5):
        corrupt(images, name, severity)
    assert torch.equal(images, kept)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_gpu_makes_the_same_images(photos, name, severity):
    for strength in PARAMETERS:
        host = corrupt(photos, name, severity, strength=strength).int()
        device = corrupt(photos.cuda(), name, severity, strength=strength).cpu().int()
        gap = (host - device).abs()
        # A last bit moves a value over a threshold now and then, most in spatter.
        assert (gap > 1).float().mean() < (0.02 if name == "spatter" else 1e-3)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (("fogg", 1), "name must be one of gaussian_noise, .*, got 'fogg'.*'fog'"),
        (("contrast", 0), "severity must be an integer from 1 to 5, got 0"),
        (("contrast", 6), "severity must be an integer from 1 to 5, got 6"),
        (("contrast", 1.5), "severity must be an integer, got 1.5"),
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
        (torch.zeros(0, 1, 8, 8), r"each at least 1, got \(0, 1, 8, 8\)"),
        (torch.zeros(1, 1, 2, 2, dtype=torch.int64), "be uint8 or floating point"),
        (torch.full((1, 1, 2, 2), 1.5), r"lie in \[0, 1\].* from 1.5 to 1.5"),
        (torch.full((1, 1, 2, 2), -0.5), r"lie in \[0, 1\].* from -0.5 to -0.5"),
        (torch.full((1, 1, 2, 2), torch.nan), r"lie in \[0, 1\].* from nan to nan"),
        (np.zeros((1, 1, 2, 2)), "images must be a tensor, got .*ndarray"),
    ],
)
def test_what_is_no_image_is_refused(images, match):
    with pytest.raises(ValueError, match=match):
        corrupt(images, "contrast", 1)
