"""Every promise of a corruption is noticed when it is broken."""

import pytest
import torch

import tepui
from tepui.data import CORRUPTIONS, Arrays, corrupt, corrupted
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


def cropped(images, severity, draws):
    return images[..., 1:]


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


def test_one_of_your_own_goes_where_names_go():
    images = torch.rand(5, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    data = Arrays(images, torch.arange(5) % 2)
    copies = corrupted(data, types=["fog", salt], severities=(1, 5))
    assert list(copies) == [("fog", 1), ("fog", 5), ("salt", 1), ("salt", 5)]
    as_bytes = (images * 255).round().byte()
    assert torch.equal(copies["salt", 5].inputs, corrupt(as_bytes, salt, 5))
    assert (copies["salt", 5].inputs == 255).sum() > (as_bytes == 255).sum()
    ensemble = tepui.Ensemble.build(
        lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 2)), 2
    )
    found = tepui.evaluate(ensemble, data, shifted=copies)
    assert set(found.shifted) == set(copies)


def test_mistakes_are_named():
    images = torch.rand(2, 1, 8, 8)
    with pytest.raises(ValueError, match="severity must be an integer from 1 to 5"):
        corrupt(images, salt, 6)
    with pytest.raises(ValueError, match="cropped must keep the shape of images"):
        corrupt(images, cropped, 1)
    data = Arrays(images, torch.arange(2))
    with pytest.raises(ValueError, match="must name each copy once"):
        corrupted(data, types=[salt, salt])
    with pytest.raises(ValueError, match="severity must be an integer"):
        corrupted(data, types=[salt], severities=(0,))


def test_copies_of_your_own_can_be_stored(tmp_path):
    data = Arrays(torch.rand(3, 1, 8, 8), torch.arange(3))
    tepui.data.write_corrupted(corrupted(data, types=[salt]), tmp_path / "c")
    assert (tmp_path / "c" / "salt.npy").is_file()
