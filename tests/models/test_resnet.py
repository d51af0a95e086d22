import pytest
import torch
from torch import nn

from tepui.models import ResNet18


def _parameters(model):
    return sum(p.numel() for p in model.parameters())


def _stages(model):
    blocks = list(model.layers)[1:-1]
    return [blocks[i : i + 2] for i in range(0, 8, 2)]


def test_parameter_counts_of_the_papers():
    assert _parameters(ResNet18()) == 11_173_962
    assert _parameters(ResNet18(num_classes=100)) == 11_220_132
    with torch.device("meta"):
        assert _parameters(ResNet18(1000, stem="imagenet")) == 11_689_512


@pytest.mark.parametrize("width", [8, 16, 128])
def test_features_are_eight_times_as_wide(width):
    with torch.device("meta"):
        assert ResNet18(width=width).classifier.in_features == 8 * width


@pytest.mark.parametrize(
    ("stem", "factor"), [("32px", 1), ("64px", 1), ("imagenet", 4)]
)
@pytest.mark.parametrize("side", [32, 64])
def test_stages_halve_the_image_three_times(stem, factor, side):
    model = ResNet18(width=4, stem=stem).eval()
    sizes, x = [], model.layers[0](torch.zeros(1, 3, side, side))
    for first, second in _stages(model):
        x = second(first(x))
        sizes.append(tuple(x.shape[1:]))
    side //= factor
    assert sizes == [(4 << i, side >> i, side >> i) for i in range(4)]


def test_features_are_the_mean_over_pixels():
    model = ResNet18(width=4).eval()
    x = torch.randn(2, 3, 32, 32)
    pooled = nn.functional.avg_pool2d(model.layers[:-1](x), 4)[:, :, 0, 0]
    torch.testing.assert_close(model.features(x), pooled)


def test_only_blocks_that_change_shape_project():
    blocks = [block for stage in _stages(ResNet18(width=4)) for block in stage]
    projected = [not isinstance(block.shortcut, nn.Identity) for block in blocks]
    assert projected == [False, False, True, False, True, False, True, False]


def test_block_adds_its_input():
    block = ResNet18(width=4).layers[1].eval()
    nn.init.zeros_(block.second[1].weight)
    x = torch.rand(1, 4, 5, 5)
    assert torch.equal(block(x), x)


@pytest.mark.parametrize("stem", ["32px", "64px", "imagenet"])
def test_scaled_shortcuts_start_as_plain_ones(stem):
    torch.manual_seed(0)
    scaled = ResNet18(width=4, stem=stem, scaled_shortcut=True).eval()
    plain = ResNet18(width=4, stem=stem).eval()
    state = {k: v for k, v in scaled.state_dict().items() if k in plain.state_dict()}
    extra = scaled.state_dict().keys() - state.keys()
    assert {scaled.state_dict()[name].numel() for name in extra} == {4, 8, 16, 32}
    assert len(extra) == 5
    plain.load_state_dict(state)
    x = torch.randn(2, 3, 32, 32)
    assert torch.equal(scaled(x), plain(x))


def test_larger_stems_draw_from_the_fan_out():
    torch.manual_seed(0)
    weight = ResNet18(width=32, stem="64px").layers[-2].second[0].weight
    assert weight.std().item() == pytest.approx((2 / (9 * 256)) ** 0.5, rel=0.02)


def test_unknown_stems_are_named():
    with pytest.raises(ValueError, match=r"stem must be one of 32px, 64px, imagenet"):
        ResNet18(stem="16px")
