"""Every promise of a corruption is noticed when it is broken."""

import pytest
import torch

from tepui.data import CORRUPTIONS
from tepui.testing import check_corruption

# As published: stronger parameters do not always move pixels further.
NOT_RISING = {"elastic_transform", "frost", "glass_blur", "saturate", "spatter"}


def salt(images, severity, draws):
    drawn = draws.uniform(1, *images.shape[2:])
    return images.masked_fill(drawn < 0.01 * severity, 1.0)


def fading(images, severity, draws):
    return images * (0.1 * severity)


def unchanged(images, severity, draws):
    return images


def in_place(images, severity, draws):
    return images.mul_(1 - 0.1 * severity)


def undefined(images, severity, draws):
    return images / 0 * 0


def drawing(images, severity, draws):
    return images + 0.1 * severity * torch.rand_like(images)


def by_batch(images, severity, draws):
    stream = torch.Generator().manual_seed(severity)
    return images + 0.1 * severity * torch.rand(images.shape, generator=stream)


BROKEN = {
    fading: "change images further at every severity",
    unchanged: "change images at severity 1",
    in_place: "leave its images as they are",
    undefined: "return finite values",
    drawing: "leave global ones alone",
    by_batch: "draw for an image what its number says",
}


@pytest.mark.parametrize("corruption", BROKEN, ids=lambda item: item.__name__)
def test_a_broken_promise_is_named(corruption):
    with pytest.raises(AssertionError, match=BROKEN[corruption]) as raised:
        check_corruption(corruption)
    assert str(raised.value).startswith(f"{corruption.__name__} must ")


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_the_published_ones_keep_the_contract(name):
    check_corruption(name, rising=name not in NOT_RISING)


def test_one_of_your_own_keeps_the_contract():
    check_corruption(salt)
    check_corruption(fading, rising=False)
