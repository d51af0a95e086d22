import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from strategies import modest
from tepui.losses import CrossEntropy, jensen_shannon


def released(views):
    """AugMix's, of probabilities of three views, without the mean over samples."""
    clean, first, second = (F.softmax(logits, 1) for logits in views)
    mixture = torch.clamp((clean + first + second) / 3, 1e-7, 1).log()
    return (
        F.kl_div(mixture, clean, reduction="none").sum(1)
        + F.kl_div(mixture, first, reduction="none").sum(1)
        + F.kl_div(mixture, second, reduction="none").sum(1)
    ) / 3


@given(st.integers(0, 999), st.floats(0.1, 60))
@modest
def test_it_is_the_released_one(seed, scale):
    stream = torch.Generator().manual_seed(seed)
    views = scale * torch.randn(3, 5, 4, generator=stream, dtype=torch.float64)
    torch.testing.assert_close(jensen_shannon(views), released(views))
    assert jensen_shannon(views[[2, 0, 1]]).sub(released(views)).abs().max() < 1e-12


def test_its_limits():
    same = torch.randn(1, 6, 4).expand(3, 6, 4)
    torch.testing.assert_close(jensen_shannon(same), torch.zeros(6), atol=1e-6, rtol=0)
    apart = 1e4 * torch.eye(3)[:, None]  # views sure of different classes
    assert float(jensen_shannon(apart)) == pytest.approx(math.log(3))


def test_pixels_have_their_mean():
    views = torch.randn(3, 2, 4, 5, 6)
    by_pixel = jensen_shannon(views.permute(0, 1, 3, 4, 2).reshape(3, -1, 4))
    expected = by_pixel.view(2, 30).mean(1)
    torch.testing.assert_close(jensen_shannon(views), expected)


def test_the_loss_alone_is_a_cross_entropy():
    logits, targets = torch.randn(4, 3), torch.tensor([0, 2, 1, 1])
    plain = CrossEntropy()(logits, targets)
    assert torch.equal(CrossEntropy(consistency=12)(logits, targets), plain)
    with pytest.raises(ValueError, match=r"consistency must be non-negative, got -1"):
        CrossEntropy(consistency=-1)
