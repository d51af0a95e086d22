import pytest
import torch

from tepui.models import Resize


def test_images_that_fit_are_left_alone():
    x = torch.randn(1, 3, 16, 16)
    assert Resize(16)(x) is x


@pytest.mark.parametrize("side", [4, 64])
def test_constant_images_stay_constant(side):
    x = torch.full((1, 2, side, side), 0.3)
    torch.testing.assert_close(Resize(16)(x), torch.full((1, 2, 16, 16), 0.3))


def test_a_ramp_keeps_its_direction_and_gradients_pass():
    x = torch.arange(8.0).expand(1, 1, 8, 8).clone().requires_grad_()
    larger = Resize(32)(x)
    assert larger.shape == (1, 1, 32, 32)
    assert (larger[0, 0].diff(dim=1)[:, 4:-4] > 0).all()
    larger.sum().backward()
    assert x.grad.sum() == pytest.approx(32 * 32)


def test_size_must_be_positive():
    with pytest.raises(ValueError, match="size must be positive, got 0"):
        Resize(0)
