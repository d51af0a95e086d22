"""Images in the form of another set: what Pillow makes of them, and what stays."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Subset, TensorDataset

from tepui.data import Arrays, ImageFiles, Normalize, UnlabeledFolder, prepared_like

NOISE = torch.Generator().manual_seed(0)
GRAY, COLOR = Normalize((0.3,), (0.4,)), Normalize((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))


def images(*shape, normalize=None):
    pixels = torch.randint(256, (3, *shape), generator=NOISE, dtype=torch.uint8)
    return Arrays(pixels, torch.arange(3), normalize)


def pillow(image, size, gray):
    """Scale the shorter side, cut the center, make gray: by Pillow, step by step."""
    array = image.permute(1, 2, 0).numpy()
    picture = Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)
    scale = size / min(picture.size)
    width, height = (round(side * scale) for side in picture.size)
    picture = picture.resize((width, height), Image.Resampling.BILINEAR)
    left, top = (width - size) // 2, (height - size) // 2
    picture = picture.crop((left, top, left + size, top + size))
    pixels = torch.from_numpy(np.array(picture.convert("L" if gray else "RGB")))
    return pixels[None] if gray else pixels.permute(2, 0, 1)


@pytest.mark.parametrize("shape", [(3, 32, 32), (3, 20, 33), (1, 28, 28), (1, 5, 7)])
@pytest.mark.parametrize("channels", [1, 3])
def test_size_and_channels_are_those_that_pillow_makes(shape, channels):
    data = images(*shape, normalize=COLOR if shape[0] == 3 else GRAY)
    like = images(channels, 8, 8, normalize=GRAY if channels == 1 else COLOR)
    found = prepared_like(data, like)
    assert found.normalize == like.normalize
    assert torch.equal(found.targets, data.targets)
    assert found.inputs.dtype == torch.uint8
    for image, original in zip(found.inputs, data.inputs, strict=True):
        expected = pillow(original, 8, channels == 1)
        assert image.shape == expected.shape
        assert (image.int() - expected.int()).abs().max() <= 1


def test_only_the_normalization_changes_where_the_shape_is_right():
    data, like = images(3, 8, 8, normalize=COLOR), images(3, 8, 8)
    found = prepared_like(data, like)
    assert found.inputs is data.inputs
    assert found.normalize is None


def test_what_has_the_form_comes_back_itself():
    data, like = images(3, 8, 8, normalize=COLOR), images(3, 8, 8, normalize=COLOR)
    assert prepared_like(data, like) is data
    half = Subset(data, [0, 2])
    assert prepared_like(half, like) is half


def test_subsets_are_prepared_and_give_their_form():
    data, like = images(3, 16, 16), images(1, 8, 8, normalize=GRAY)
    found = prepared_like(Subset(Subset(data, [2, 0]), [0]), Subset(like, [1]))
    assert len(found) == 1
    assert torch.equal(found[0][0], prepared_like(data, like)[2][0])


def test_floats_stay_floats_in_their_range():
    data = Arrays(torch.rand(3, 3, 16, 16, generator=NOISE), torch.arange(3))
    found = prepared_like(data, images(1, 8, 8)).inputs
    assert found.dtype == torch.float32
    assert 0 <= found.min() < found.max() <= 1


def test_files_are_read_in_the_form(tmp_path):
    pixels = torch.randint(256, (3, 12, 20), generator=NOISE, dtype=torch.uint8)
    Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(tmp_path / "a.png")
    Image.fromarray(pixels[0].numpy()).save(tmp_path / "b.png")
    like = images(1, 8, 8, normalize=GRAY)
    found = prepared_like(UnlabeledFolder(tmp_path), like)
    assert isinstance(found, ImageFiles)
    assert found.held.inputs.shape == (2, 1, 8, 8)
    assert found.normalize == GRAY
    assert found.targets.tolist() == [-1, -1]
    assert prepared_like(found, like) is found
    with pytest.raises(ValueError, match=r"like must hold square images.*\(1, 8, 9\)"):
        prepared_like(UnlabeledFolder(tmp_path), images(1, 8, 9))


def test_other_kinds_are_left_to_their_own_code():
    data, vectors = images(3, 8, 8), Arrays(torch.rand(3, 4), torch.arange(3))
    pairs = TensorDataset(data.inputs, data.targets)
    assert prepared_like(pairs, data) is pairs
    assert prepared_like(data, pairs) is data
    assert prepared_like(vectors, data) is vectors
    assert prepared_like(data, vectors) is data


def test_other_channels_are_refused():
    with pytest.raises(ValueError, match=r"hold images .* of 1 or 3 channels, got 2"):
        prepared_like(images(2, 16, 16), images(3, 8, 8))
