"""Operations of policies against those of torchvision on tensors of bytes."""

import math

import pytest
import torch

from data.test_image_operations import MAGNITUDES, SHAPES, each, pictures
from tepui.data import GaussianBlur, HorizontalFlip, RandomGrayscale
from tepui.data.image_operations import MOVES, hue_turned, operated

transforms = pytest.importorskip(
    "torchvision.transforms.v2.functional",
    reason="torchvision does not load here",
    exc_type=Exception,
)

# The others are rounded elsewhere on the way, or compute positions in other floats.
EXACT = ("identity", "translate_x", "translate_y", "brightness", "equalize")
EXACT += ("posterize", "solarize", "invert")
LARGER = SHAPES[:-1]
PAIRS = {
    "brightness": transforms.adjust_brightness,
    "color": transforms.adjust_saturation,
    "contrast": transforms.adjust_contrast,
    "sharpness": transforms.adjust_sharpness,
    "equalize": lambda images, _: transforms.equalize(images),
    "posterize": lambda images, bits: transforms.posterize(images, int(bits)),
    "solarize": transforms.solarize,
    "autocontrast": lambda images, _: transforms.autocontrast(images),
    "invert": lambda images, _: transforms.invert(images),
    "identity": lambda images, _: images,
}


def theirs(name, images, amount):
    """Return images after torchvision's operation; it moves them the other way."""
    if name == "rotate":
        return transforms.rotate(images, float(amount))
    if name not in MOVES:
        return PAIRS[name](images, amount)
    along = [0.0, 0.0]
    along["xy".index(name[-1])] = float(amount)
    how = {"angle": 0.0, "scale": 1.0}
    if name.startswith("translate"):
        back = [-int(part) for part in along]
        return transforms.affine(images, translate=back, shear=[0.0, 0.0], **how)
    shear = [math.degrees(math.atan(part)) for part in along]
    how |= {"translate": [0, 0], "center": [0, 0]}
    return transforms.affine(images, shear=shear, **how)


def gaps(name, shape):
    """Return by how many levels pixels differ, for every magnitude."""
    images = pictures(*shape)
    for amount in MAGNITUDES[name]:
        if name != "solarize" or amount <= 255:  # torchvision refuses more
            own = operated(*each(name, [amount], images))
            yield (own.int() - theirs(name, images, amount).int()).abs()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", EXACT)
def test_operations_are_bit_identical(name, shape):
    assert max(int(gap.max()) for gap in gaps(name, shape)) == 0


@pytest.mark.parametrize("shape", LARGER, ids=str)
@pytest.mark.parametrize("name", ["color", "contrast", "sharpness", "autocontrast"])
def test_operations_agree_within_a_level(name, shape):
    assert max(int(gap.max()) for gap in gaps(name, shape)) <= 1


@pytest.mark.parametrize("shape", LARGER, ids=str)
@pytest.mark.parametrize("name", ["shear_x", "shear_y", "rotate"])
def test_nearly_all_pixels_come_from_the_same_place(name, shape):
    assert max(float((gap > 0).float().mean()) for gap in gaps(name, shape)) < 0.03


@pytest.mark.parametrize("turn", [-0.5, -0.2, 0.0, 0.1, 0.3])
def test_hue_turns_to_nearly_the_same_colors(turn):
    """Pillow and tepui have 256 hues, torchvision floats."""
    images = pictures()
    found = hue_turned(images, torch.full((len(images),), turn)).int()
    gap = (found - transforms.adjust_hue(images, turn).int()).abs()
    assert float(gap.float().mean()) < 0.5


@pytest.mark.parametrize("sigma", [0.3, 1.0, 2.0])
def test_blur_is_the_same_within_a_level(sigma):
    images = pictures()
    radius = math.ceil(3 * sigma)
    blurred = GaussianBlur((sigma, sigma), 1.0)(images, torch.zeros(len(images), 2))
    theirs = transforms.gaussian_blur(images, [2 * radius + 1] * 2, [sigma] * 2)
    assert int((blurred.int() - theirs.int()).abs().max()) <= 1


def test_mirrored_and_gray_images_are_the_same():
    images, first = pictures(), torch.zeros(6, 1)
    mirrored = HorizontalFlip(1.0)(images, first)
    assert torch.equal(mirrored, transforms.horizontal_flip(images))
    gray = RandomGrayscale(1.0)(images, first).int()
    theirs = transforms.rgb_to_grayscale(images, num_output_channels=3).int()
    assert int((gray - theirs).abs().max()) <= 1
