import pytest
import torch

from tepui.data import Arrays, GaussianNoise, Normalize, UniformNoise


def test_uniform_bytes_are_equally_likely():
    images = UniformNoise(num_samples=400).inputs
    assert images.shape == (400, 3, 32, 32)
    counts = images.flatten().long().bincount(minlength=256).double()
    expected = images.numel() / 256
    chi_squared = ((counts - expected) ** 2 / expected).sum()
    assert 255 - 5 * 510**0.5 < chi_squared < 255 + 5 * 510**0.5


def test_gaussian_bytes_have_the_moments_asked_for():
    images = GaussianNoise(num_samples=400, std=0.1).inputs.double() / 255
    assert images.mean() == pytest.approx(0.5, abs=1e-3)
    assert images.std() == pytest.approx(0.1, abs=1e-3)
    wide = GaussianNoise(num_samples=50, std=10.0).inputs
    assert wide.unique(return_counts=True)[0][[0, -1]].tolist() == [0, 255]


@pytest.mark.parametrize("noise", [UniformNoise, GaussianNoise])
def test_noise_looks_like_another_set_and_has_no_class(noise):
    normalize = Normalize((0.5,), (0.2,))
    like = Arrays(torch.zeros(3, 1, 8, 8), torch.zeros(3), normalize)
    data = noise(num_samples=5, like=like)
    assert data.inputs.shape == (5, 1, 8, 8)
    assert data.normalize is normalize
    assert data.targets.tolist() == [-1] * 5


@pytest.mark.parametrize("noise", [UniformNoise, GaussianNoise])
def test_the_seed_decides(noise):
    first, again, other = noise(4), noise(4), noise(4, seed=1)
    assert torch.equal(first.inputs, again.inputs)
    assert not torch.equal(first.inputs, other.inputs)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: UniformNoise(0), "num_samples must be positive, got 0"),
        (lambda: GaussianNoise(std=0), "std must be positive, got 0"),
        (
            lambda: UniformNoise(like=Arrays(torch.zeros(2, 4), torch.zeros(2))),
            "like must hold images",
        ),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
