import pytest
import torch
from torch import nn

from tepui.models import VGG19, VGG19BN


def _parameters(model):
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("kind", "small", "imagenet"),
    [(VGG19, 20_029_514, 143_667_240), (VGG19BN, 20_040_522, 143_678_248)],
)
def test_parameter_counts_of_the_papers(kind, small, imagenet):
    with torch.device("meta"):
        assert _parameters(kind()) == small
        assert _parameters(kind(1000, head="imagenet")) == imagenet


@pytest.mark.parametrize("kind", [VGG19, VGG19BN])
def test_convolutions_are_those_of_configuration_e(kind):
    with torch.device("meta"):
        model = kind()
    shown = []
    for layer in model.layers[:-1]:
        pools = isinstance(layer, nn.MaxPool2d)
        shown.append("M" if pools else layer[0].out_channels)
    stages = ([64] * 2, [128] * 2, [256] * 4, [512] * 4, [512] * 4)
    assert shown == [item for stage in stages for item in [*stage, "M"]]
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    assert len(norms) == (16 if kind is VGG19BN else 0)


@pytest.mark.parametrize("side", [32, 64])
def test_linear_head_averages_what_is_left(side):
    model = VGG19BN(width=2).eval()
    x = torch.randn(2, 3, side, side)
    maps = model.layers[:-1](x)
    assert maps.shape[2:] == (side // 32, side // 32)
    torch.testing.assert_close(model.features(x), maps.mean((2, 3)))


def test_imagenet_head_drops_out_in_training_only():
    torch.manual_seed(0)
    model = VGG19BN(num_classes=5, width=1, head="imagenet").eval()
    x = torch.randn(2, 3, 64, 64)
    assert torch.equal(model(x), model(x))
    assert model.features(x).shape == (2, 64)
    model.train()
    assert not torch.equal(model(x), model(x))


def test_unknown_heads_are_named():
    with pytest.raises(ValueError, match=r"head must be one of linear, imagenet"):
        VGG19(head="small")
