"""JPEG without a file against Pillow's files, byte for byte."""

from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from tepui.data.corruptions.jpeg import through_jpeg
from tepui.data.corruptions.strengths import PARAMETERS

PHOTOGRAPHS = Path(__file__).parents[1] / "fixtures" / "imagecorruptions.npz"
USED = sorted({q for s in PARAMETERS.values() for q in s["jpeg_compression"]})


def by_pillow(images, quality):
    """Write and read each picture."""
    color = images.shape[1] == 3
    pictures = images.permute(0, 2, 3, 1) if color else images.flatten(0, 1)
    read = []
    for picture in pictures.contiguous().numpy():
        file = BytesIO()
        Image.fromarray(picture).save(file, "JPEG", quality=quality)
        read.append(np.array(Image.open(file)))
    found = torch.from_numpy(np.stack(read))
    return found.permute(0, 3, 1, 2) if color else found.view_as(images)


def pictures(kind, shape, seed):
    """Draw pictures: noise, black and white, flat, two close levels, smooth."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randint(256, shape, generator=generator)
    return {
        "noise": noise,
        "extreme": (noise > 127) * 255,
        "flat": noise[..., :1, :1].expand(shape),
        "close": noise // 128 + 127,
        "smooth": F.avg_pool2d(noise.float(), 5, 1, 2, count_include_pad=False),
    }[kind].byte()


KINDS = st.sampled_from(["noise", "extreme", "flat", "close", "smooth"])
SIDES = st.integers(1, 70)


@given(
    KINDS,
    st.sampled_from([1, 2, 3]),
    SIDES,
    SIDES,
    st.integers(1, 100),
    st.integers(0, 9),
)
@example("noise", 3, 1, 1, 50, 0)
@example("noise", 3, 4, 4, 50, 0)  # two columns of chroma, which are not smoothed
@example("noise", 3, 5, 5, 50, 0)
@example("noise", 3, 18, 34, 50, 0)  # rows of chroma are repeated after averaging
def test_bytes_are_pillows(kind, channels, height, width, quality, seed):
    images = pictures(kind, (2, channels, height, width), seed)
    found = through_jpeg(images, quality)
    assert torch.equal(found, by_pillow(images, quality))


@pytest.mark.parametrize("quality", [1, *USED, 95, 100])
def test_bytes_are_pillows_at_every_strength(quality):
    with np.load(PHOTOGRAPHS, allow_pickle=False) as recorded:
        photos = torch.from_numpy(recorded["images"]).permute(0, 3, 1, 2)
    images = torch.cat([photos, pictures("extreme", photos.shape, 0)])
    assert torch.equal(through_jpeg(images, quality), by_pillow(images, quality))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("quality", [1, *USED, 100])
@pytest.mark.parametrize("shape", [(50, 3, 32, 32), (9, 3, 37, 53), (9, 1, 28, 28)])
def test_gpu_gives_the_same_bytes(shape, quality):
    images = torch.cat([pictures(k, shape, 0) for k in ("noise", "extreme", "smooth")])
    # Where float32 products are rounded elsewhere, they still may not be here.
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        found = through_jpeg(images.cuda(), quality)
    finally:
        torch.set_float32_matmul_precision(before)
    assert found.is_cuda
    assert torch.equal(found.cpu(), through_jpeg(images, quality))


@pytest.mark.parametrize(
    ("images", "quality", "match"),
    [
        (torch.zeros(1, 1, 8, 8), 50, "images must be uint8, got torch.float32"),
        (torch.zeros(1, 1, 8, 8).byte(), 0, "quality must .* from 1 to 100, got 0"),
        (torch.zeros(1, 1, 8, 8).byte(), 101, "quality must .*, got 101"),
    ],
)
def test_what_is_no_picture_or_quality_is_refused(images, quality, match):
    with pytest.raises(ValueError, match=match):
        through_jpeg(images, quality)
