import pytest
import torch
from torch import nn

from tepui.models import ResNet18


def _parameters(model):
    return sum(p.numel() for p in model.parameters())


def test_parameter_count_of_the_paper():
    assert _parameters(ResNet18()) == 11_173_962
    assert _parameters(ResNet18(num_classes=100)) == 11_220_132


@pytest.mark.parametrize("side", [32, 64])
def test_stages_halve_the_image_three_times(side):
    model = ResNet18(width=4).eval()
    sizes, x = [], torch.nn.functional.relu(model.stem(torch.zeros(1, 3, side, side)))
    for stage in model.stages:
        x = stage(x)
        sizes.append(tuple(x.shape[1:]))
    assert sizes == [(4 << i, side >> i, side >> i) for i in range(4)]


def test_features_are_the_mean_over_pixels():
    model = ResNet18(width=4).eval()
    x = torch.randn(2, 3, 32, 32)
    maps = model.stages(torch.nn.functional.relu(model.stem(x)))
    pooled = nn.functional.avg_pool2d(maps, 4)[:, :, 0, 0]
    torch.testing.assert_close(model.features(x), pooled)


def test_only_blocks_that_change_shape_project():
    blocks = [block for stage in ResNet18(width=4).stages for block in stage]
    projected = [not isinstance(block.shortcut, nn.Identity) for block in blocks]
    assert projected == [False, False, True, False, True, False, True, False]


def test_block_adds_its_input():
    block = ResNet18(width=4).stages[0][0].eval()
    nn.init.zeros_(block.second[1].weight)
    x = torch.rand(1, 4, 5, 5)
    assert torch.equal(block(x), x)
