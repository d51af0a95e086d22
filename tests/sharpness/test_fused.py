"""The GPU kernels against plain gradients; interpreted where there is no GPU."""

import pytest
import torch
from torch import nn

from tepui.sharpness import fused, layers

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# Triton's interpreter knows no products of bfloat16.
TYPES = [torch.float32, torch.bfloat16 if DEVICE == "cuda" else torch.float16]

CONVOLUTIONS = {
    "3x3": (nn.Conv2d(3, 5, 3, padding=1), (7, 6)),
    "strided, dilated": (nn.Conv2d(20, 33, (3, 2), 2, (0, 1), 2), (9, 8)),
    "1x1, several tiles": (nn.Conv2d(130, 140, 1, 2), (4, 4)),
    "same padding": (nn.Conv2d(16, 16, 4, padding="same", dilation=2), (5, 5)),
}


def gradients(module, inputs, grads, name):
    exact = module.double()
    measured = layers.gradients(exact, (inputs.double(),), grads.double(), [name])[name]
    module.float()
    return measured.square().flatten(1).sum(1)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolution_norms(case, dtype):
    torch.manual_seed(0)
    module, size = CONVOLUTIONS[case]
    module = module.to(DEVICE)
    inputs = torch.randn(3, module.in_channels, *size, device=DEVICE).to(dtype)
    grads = torch.randn_like(module(inputs.float())).to(dtype)
    left, _, top, _ = layers._padding(module)
    measured = fused.convolution_norms(module, inputs, grads, (top, left))
    expected = gradients(module, inputs, grads, "weight")
    torch.testing.assert_close(measured.double(), expected, rtol=1e-5, atol=0)


@pytest.mark.skipif(DEVICE == "cpu", reason="Triton's interpreter has no bfloat16")
def test_rounded_factors_err_little():
    torch.manual_seed(0)
    module = nn.Conv2d(64, 64, 3, padding=1).to(DEVICE)
    inputs = torch.randn(8, 64, 32, 32, device=DEVICE)
    grads = torch.randn_like(module(inputs))
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    measured = fused.convolution_norms(module, inputs, grads, (1, 1))
    torch.set_float32_matmul_precision(before)
    expected = gradients(module, inputs, grads, "weight")
    torch.testing.assert_close(measured.double(), expected, rtol=1e-3, atol=0)


def test_masked_weights_do_not_count():
    torch.manual_seed(0)
    module = nn.Conv2d(20, 140, 3, padding=1).to(DEVICE)
    inputs = torch.randn(2, 20, 4, 4, device=DEVICE)
    grads = torch.randn_like(module(inputs))
    mask = torch.rand_like(module.weight) < 0.3
    measured = fused.convolution_norms(module, inputs, grads, (1, 1), mask)
    whole = layers.gradients(module, (inputs,), grads, ["weight"])["weight"]
    expected = (whole * mask).square().flatten(1).sum(1)
    torch.testing.assert_close(measured, expected, rtol=1e-5, atol=0)


@pytest.mark.parametrize("names", [["weight"], ["bias"], ["weight", "bias"]])
@pytest.mark.parametrize("dtype", TYPES)
def test_batch_norm_norms(names, dtype):
    torch.manual_seed(0)
    module = nn.BatchNorm2d(150).to(DEVICE).eval()
    module.running_mean.normal_()
    module.running_var.uniform_(0.5, 2)
    inputs = torch.randn(3, 150, 5, 7, device=DEVICE).to(dtype)
    grads = torch.randn_like(inputs)
    measured = fused.batch_norm_norms(module, inputs, grads, names)
    expected = sum(gradients(module, inputs, grads, name) for name in names)
    torch.testing.assert_close(measured.double(), expected, rtol=1e-5, atol=0)
