"""Images prepared as a pretrained model expects them: Pillow's way is the reference."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tepui.models import Preprocess

MODES = {"bicubic": Image.Resampling.BICUBIC, "bilinear": Image.Resampling.BILINEAR}


def by_pillow(pixels, size, crop, interpolation):
    """Resize the shorter side and crop the center, as timm and torchvision do."""
    image = Image.fromarray(pixels)
    shorter = int(size / crop)
    sides = [
        shorter if side == min(image.size) else int(shorter * side / min(image.size))
        for side in image.size
    ]
    image = image.resize(sides, MODES[interpolation])
    left, top = (round((side - size) / 2) for side in image.size)
    image = image.crop((left, top, left + size, top + size))
    return torch.from_numpy(np.array(image)).permute(2, 0, 1) / 255


@settings(max_examples=30, deadline=None)
@given(
    height=st.integers(5, 40),
    width=st.integers(5, 40),
    size=st.integers(4, 32),
    crop=st.sampled_from([0.7, 0.875, 0.95, 1.0]),
    interpolation=st.sampled_from(sorted(MODES)),
)
def test_is_what_pillow_does(height, width, size, crop, interpolation):
    pixels = np.random.default_rng(0).integers(64, 192, (height, width, 3), np.uint8)
    layer = Preprocess(size, crop, (0, 0, 0), (1, 1, 1), interpolation)
    images = torch.from_numpy(pixels).permute(2, 0, 1)[None] / 255
    found, expected = layer(images)[0], by_pillow(pixels, size, crop, interpolation)
    # Pillow rounds to bytes after each of two passes, and cuts off what overshoots.
    torch.testing.assert_close(found, expected, rtol=0, atol=2.1 / 255)
