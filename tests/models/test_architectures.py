"""Each architecture is that of its paper: sizes, shapes, and naive twins."""

import pytest
import torch
from torch import nn
from torch.nn.functional import (
    avg_pool2d,
    batch_norm,
    conv2d,
    cross_entropy,
    linear,
    relu,
)

from tepui.data import Digits
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


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (ResNet18, {"stem": "16px"}, "stem must be one of 32px, 64px, imagenet"),
        (VGG19, {"head": "small"}, "head must be one of linear, imagenet"),
        (
            ViTTiny,
            {"patch_size": 5},
            r"patch_size must divide image_size \(32\), got 5",
        ),
    ],
)
def test_bad_arguments_are_named(kind, arguments, message):
    with pytest.raises(ValueError, match=message):
        kind(**arguments)


def _stages(model):
    blocks = list(model.layers)[1:-1]
    return [blocks[i : i + 2] for i in range(0, 8, 2)]


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


def test_has_forty_layers():
    with torch.device("meta"):
        model = WideResNet40x2()
    wide = [m for m in model.modules() if getattr(m, "kernel_size", 0) == (3, 3)]
    shortcuts = [m for m in model.modules() if getattr(m, "kernel_size", 0) == (1, 1)]
    assert (len(wide), len(shortcuts)) == (37, 3)


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


def test_images_of_another_size_are_refused():
    model = ViTTiny(image_size=16, depth=1)
    message = r"x must hold images of 16 patches, got \(1, 3, 32, 32\)"
    with pytest.raises(ValueError, match=message):
        model(torch.zeros(1, 3, 32, 32))


@pytest.mark.parametrize("side", [8, 28])
def test_width_of_features_does_not_depend_on_the_image(side):
    assert ConvNet().features(torch.zeros(2, 1, side, side)).shape == (2, 128)


def test_a_stride_keeps_the_parameters_and_leaves_out_pixels():
    usual, sparse = ConvNet(), ConvNet(stride=2)
    sparse.load_state_dict(usual.state_dict())
    x = torch.rand(2, 1, 28, 28)
    first = usual.layers[0](x)
    assert torch.allclose(sparse.layers[0](x), first[..., ::2, ::2], atol=1e-6)
    assert sparse.features(x).shape == usual.features(x).shape


def test_two_epochs_learn_digits():
    torch.manual_seed(0)
    train, test = Digits(train=True), Digits(train=False)
    x, model = train.prepare(train.inputs), ConvNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for rows in torch.cat([torch.randperm(len(x)) for _ in range(2)]).split(64):
        optimizer.zero_grad()
        cross_entropy(model(x[rows]), train.targets[rows]).backward()
        optimizer.step()
    right = model.eval()(test.prepare(test.inputs)).argmax(1) == test.targets
    assert right.float().mean() > 0.9


def test_matches_hand_written_layers():
    model = MLP(in_features=12, hidden=(5, 4), num_classes=3)
    first, second = model.layers[1], model.layers[3]
    x = torch.randn(2, 1, 3, 4)
    hidden = (x.reshape(2, 12) @ first.weight.T + first.bias).clamp(min=0)
    hidden = (hidden @ second.weight.T + second.bias).clamp(min=0)
    expected = hidden @ model.classifier.weight.T + model.classifier.bias
    torch.testing.assert_close(model(x), expected)


def test_without_hidden_layers_it_is_linear():
    model = MLP(in_features=4, hidden=(), num_classes=2)
    x = torch.randn(3, 4)
    assert torch.equal(model(x), model.classifier(x))


def test_an_mlp_has_no_buffers():
    model = MLP()
    assert list(model.buffers()) == []
    assert model.classifier.in_features == 128
