"""Against recorded results of the package ``imagecorruptions``, see ``fixtures``."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tepui.data import CORRUPTIONS, corrupt
from tepui.data.corruptions.draws import Draws
from tepui.data.corruptions.pixels import elastic_transform

SEVERITIES = (1, 2, 3, 4, 5)
DETERMINISTIC = (
    "brightness",
    "contrast",
    "saturate",
    "pixelate",
    "jpeg_compression",
    "defocus_blur",
    "gaussian_blur",
    "zoom_blur",
)
RANDOM = sorted(set(CORRUPTIONS) - {*DETERMINISTIC, "frost", "elastic_transform"})
REPETITIONS = 100
# What the package calls alpha, over the side: it departs from the published scripts,
# with smaller displacements and no shear.
ELASTIC = [250 * share * 0.005 for share in (0.05, 0.065, 0.085, 0.1, 0.12)]


@pytest.fixture(scope="module")
def recorded():
    file = Path(__file__).parents[1] / "fixtures" / "imagecorruptions.npz"
    with np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def images(recorded):
    return torch.from_numpy(recorded["images"]).permute(0, 3, 1, 2).contiguous()


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("name", DETERMINISTIC)
def test_results_agree_where_nothing_is_drawn(recorded, images, name, severity):
    found = corrupt(images, name, severity, strength="imagenet")
    expected = torch.from_numpy(recorded[name][severity - 1]).permute(0, 3, 1, 2)
    gap = (found.int() - expected.int()).abs().float()
    assert gap.mean() < 2


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("name", RANDOM)
def test_change_agrees_where_something_is_drawn(recorded, images, name, severity):
    many = images.repeat(REPETITIONS, 1, 1, 1)
    found = corrupt(many, name, severity, strength="imagenet")
    assert_same_change(found.float() - many, recorded[name][severity - 1])


@pytest.mark.parametrize("severity", SEVERITIES)
def test_elastic_change_agrees_with_the_same_parameters(recorded, images, severity):
    many = images.repeat(REPETITIONS, 1, 1, 1) / 255
    draws = Draws((severity,), 0, len(many), torch.device("cpu"))
    moved = elastic_transform(many, (ELASTIC[severity - 1], 0.01, 0), draws)
    change = (moved * 255).floor() - (many * 255).round()
    assert_same_change(change, recorded["elastic_transform"][severity - 1])


def assert_same_change(change, expected):
    """Per channel, over all photographs: the spread within 10 % of itself, the mean
    within 10 % of the root mean square.
    """
    mean, square = (
        change.double().mean((0, 2, 3)),
        change.double().square().mean((0, 2, 3)),
    )
    means, stds = expected.astype(float).swapaxes(0, 1)
    expected_mean, expected_square = means.mean(0), (means**2 + stds**2).mean(0)
    std, expected_std = (
        (square - mean**2).sqrt(),
        (expected_square - expected_mean**2) ** 0.5,
    )
    np.testing.assert_allclose(std, expected_std, rtol=0.1)
    size = expected_square**0.5
    assert (np.abs(mean.numpy() - expected_mean) / size).max() < 0.1
