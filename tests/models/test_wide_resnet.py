import pytest
import torch
from torch.nn.functional import avg_pool2d, batch_norm, conv2d, linear, relu

from tepui.models import WideResNet40x2


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


@pytest.mark.parametrize(("classes", "expected"), [(10, 2_243_546), (100, 2_255_156)])
def test_parameter_count_of_the_paper(classes, expected):
    with torch.device("meta"):
        model = WideResNet40x2(num_classes=classes)
    assert sum(p.numel() for p in model.parameters()) == expected


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
