"""Each architecture is that of its paper: sizes, shapes, and naive twins."""

import pytest
import torch
from torch import nn
from torch.nn.functional import (
    avg_pool2d,
    batch_norm,
    conv2d,
    linear,
    relu,
)

from tepui.models import (
    MLP,
    VGG19,
    VGG19BN,
    ConvNet,
    ResNet18,
    ViTSmall,
    ViTTiny,
    WideResNet40x2,
)

IMAGENET = {"num_classes": 1000, "image_size": 224, "patch_size": 16}
SIZES = [
    (ConvNet, {}, 7234),
    (MLP, {}, 26_122),
    (ResNet18, {}, 11_173_962),
    (ResNet18, {"num_classes": 100}, 11_220_132),
    (ResNet18, {"num_classes": 1000, "stem": "imagenet"}, 11_689_512),
    (VGG19, {}, 20_029_514),
    (VGG19, {"num_classes": 1000, "head": "imagenet"}, 143_667_240),
    (VGG19BN, {}, 20_040_522),
    (VGG19BN, {"num_classes": 1000, "head": "imagenet"}, 143_678_248),
    (ViTSmall, {}, 21_342_346),
    (ViTSmall, IMAGENET, 22_050_664),
    (ViTTiny, {}, 5_362_762),
    (ViTTiny, IMAGENET, 5_717_416),
    (WideResNet40x2, {"num_classes": 10}, 2_243_546),
    (WideResNet40x2, {"num_classes": 100}, 2_255_156),
]


@pytest.mark.parametrize(("kind", "arguments", "expected"), SIZES)
def test_parameter_counts_of_the_papers(kind, arguments, expected):
    with torch.device("meta"):
        assert sum(p.numel() for p in kind(**arguments).parameters()) == expected


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


def _norm(x, norm):
    return batch_norm(x, norm.running_mean, norm.running_var, norm.weight, norm.bias)


def naive(model, x):
    """The network as its paper draws it, layer by layer."""
    stem, *blocks, last, _ = model.layers
    x = conv2d(x, stem.weight, padding=1)
    for number, block in enumerate(blocks):
        stride = 2 if number in (6, 12) else 1
        active = relu(_norm(x, block.norm1))
        residual = conv2d(active, block.convolution1.weight, stride=stride, padding=1)
        residual = relu(_norm(residual, block.norm2))
        residual = conv2d(residual, block.convolution2.weight, padding=1)
        if number % 6 == 0:
            x = conv2d(active, block.shortcut.weight, stride=stride)
        x = x + residual
    x = relu(_norm(x, last[0]))
    x = avg_pool2d(x, x.shape[-1])[:, :, 0, 0]
    return linear(x, model.classifier.weight, model.classifier.bias)


def test_matches_the_network_of_the_paper():
    torch.manual_seed(0)
    model = WideResNet40x2(width=2).double().eval()
    for part in model.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.running_mean.normal_()
            part.running_var.uniform_(0.5, 2)
    x = torch.randn(2, 3, 16, 16, dtype=torch.float64)
    torch.testing.assert_close(model(x), naive(model, x))


def test_weights_are_drawn_from_the_fan_out():
    torch.manual_seed(0)
    model = WideResNet40x2()
    weight = model.layers[-3].convolution2.weight
    assert weight.std().item() == pytest.approx((2 / (9 * 128)) ** 0.5, rel=0.02)
    assert not model.classifier.bias.any()


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


def reference(model, x):
    """The same network from torch's own encoder layers, all tokens to the end."""
    tokens, *halves, last, norm = (
        m for m in model.layers if next(m.parameters(), None) is not None
    )
    halves.append(last)
    size = tokens.patches.kernel_size[0]
    patches = nn.functional.unfold(x, size, stride=size).transpose(1, 2)
    weight = tokens.patches.weight.flatten(1)
    x = patches @ weight.T + tokens.patches.bias
    first = tokens.first.weight.expand(len(x), 1, -1)
    x = torch.cat([first, x], 1) + tokens.positions.weight
    width = x.shape[-1]
    for attend, think in zip(halves[::2], halves[1::2], strict=True):
        heads = attend.branch.heads
        layer = nn.TransformerEncoderLayer(
            width,
            heads,
            4 * width,
            dropout=0.0,
            activation=nn.functional.gelu,
            layer_norm_eps=1e-6,
            batch_first=True,
            norm_first=True,
            dtype=x.dtype,
        ).eval()
        layer.self_attn.in_proj_weight.data = attend.branch.projection.weight.data
        layer.self_attn.in_proj_bias.data = attend.branch.projection.bias.data
        layer.self_attn.out_proj = attend.branch.output
        layer.norm1, layer.norm2 = attend.norm, think.norm
        layer.linear1, layer.linear2 = think.branch[0], think.branch[2]
        x = layer(x)
    return model.classifier(norm(x)[:, 0])


@pytest.mark.parametrize("kind", [ViTTiny, ViTSmall])
def test_matches_torchs_encoder(kind):
    torch.manual_seed(0)
    model = kind(num_classes=5, image_size=12, depth=2).double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.1)
    x = torch.randn(3, 3, 12, 12, dtype=torch.float64)
    torch.testing.assert_close(model(x), reference(model, x))


def test_a_stride_keeps_the_parameters_and_leaves_out_pixels():
    usual, sparse = ConvNet(), ConvNet(stride=2)
    sparse.load_state_dict(usual.state_dict())
    x = torch.rand(2, 1, 28, 28)
    first = usual.layers[0](x)
    assert torch.allclose(sparse.layers[0](x), first[..., ::2, ::2], atol=1e-6)
    assert sparse.features(x).shape == usual.features(x).shape
