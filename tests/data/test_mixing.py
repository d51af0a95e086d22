"""Mixing against loops over samples, and what its numbers are distributed like."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from strategies import modest
from tepui.data import Batch, CutMix, Mixup
from tepui.data.augment import augment
from tepui.data.mixing import QUANTILES, beta, next_larger

SAMPLES = 9


def batch_of(inputs):
    samples = len(inputs)
    return Batch(inputs, torch.arange(samples) % 4, 100 + torch.arange(samples))


def draws(columns, samples=SAMPLES, seed=0):
    stream = torch.Generator().manual_seed(seed)
    return torch.rand(samples, columns, generator=stream)


def quantile_naive(alpha, uniform):
    """The quantile at the middle of the step in which a number lies."""
    return stats.beta.ppf((math.floor(uniform * QUANTILES) + 0.5) / QUANTILES, *alpha)


def partner_naive(keys):
    """The sample with the least key above, or else with the least key."""
    return [
        min(
            (other for other in range(len(keys)) if keys[other] > key),
            key=keys.__getitem__,
            default=int(np.argmin(keys)),
        )
        for key in keys
    ]


@given(st.lists(st.floats(0, 0.99), min_size=2, max_size=20, unique=True))
@modest
def test_partners_are_one_cycle_of_all(keys):
    found = next_larger(torch.tensor(keys, dtype=torch.float64)).tolist()
    assert found == partner_naive(keys)
    place, seen = 0, []
    for _ in keys:
        place = found[place]
        seen.append(place)
    assert sorted(seen) == list(range(len(keys)))  # so nobody is alone


@pytest.mark.parametrize("alpha", [0.05, 0.2, 1.0, 5.0])
def test_shares_are_beta_distributed(alpha):
    """Within half a step of the table of the exact distribution, at every point."""
    levels = (torch.arange(2**17) + 0.5) / 2**17
    shares = beta(alpha, levels.double()).double().numpy()
    exact = stats.beta(alpha, alpha)
    assert np.all(np.diff(shares) >= 0)
    lower, upper = (
        np.nextafter(exact.cdf(shares.astype(np.float32)), side) for side in (0, 1)
    )
    inside = (shares > 1e-6) & (shares < 1 - 1e-4)  # float32 ends there
    step = 1 / QUANTILES + 1e-6
    assert np.all(upper[inside] >= levels.numpy()[inside] - step)
    assert np.all(lower[inside] <= levels.numpy()[inside] + step)
    assert shares.mean() == pytest.approx(0.5, abs=1e-5)
    assert shares.var() == pytest.approx(exact.var(), rel=1e-4)


@pytest.mark.parametrize("shape", [(3,), (2, 4, 5), (6, 7)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_mixup_matches_naive(shape, dtype):
    inputs = torch.randn(SAMPLES, *shape, dtype=dtype)
    batch, uniform = batch_of(inputs), draws(2)
    found = Mixup(0.4).mixed(batch, uniform)
    for row, other in enumerate(partner_naive(uniform[:, 0].tolist())):
        share = quantile_naive((0.4, 0.4), float(uniform[row, 1]))
        mixture = share * inputs[row] + (1 - share) * inputs[other]
        torch.testing.assert_close(found.inputs[row], mixture, rtol=1e-5, atol=1e-6)
        assert found.partners.targets[row] == batch.targets[other]
        assert found.partners.index[row] == batch.index[other]
        assert float(found.partners.share[row]) == pytest.approx(share, rel=1e-6)
    assert found.inputs.dtype == dtype
    assert torch.equal(found.targets, batch.targets)
    assert torch.equal(found.index, batch.index)


def window_naive(share, uniform, size):
    length = math.floor(np.float32(math.sqrt(1 - share)) * np.float32(size))
    start = math.floor(uniform * size) - length // 2
    return range(max(start, 0), min(start + length, size))


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 99))
@modest
def test_cutmix_matches_naive_and_knows_the_share_it_keeps(height, width, seed):
    inputs = (
        torch.rand(SAMPLES, 2, height, width)
        + torch.arange(SAMPLES)[:, None, None, None]
    )
    uniform = draws(4, seed=seed)
    found = CutMix(0.7).mixed(batch_of(inputs), uniform)
    for row, other in enumerate(partner_naive(uniform[:, 0].tolist())):
        share = float(beta(0.7, uniform[row, 1]))
        rows = window_naive(share, float(uniform[row, 2]), height)
        columns = window_naive(share, float(uniform[row, 3]), width)
        expected = inputs[row].clone()
        for y in rows:
            for x in columns:
                expected[:, y, x] = inputs[other, :, y, x]
        assert torch.equal(found.inputs[row], expected)
        kept = (found.inputs[row] == inputs[row])[0].sum() / (height * width)
        assert found.partners.share[row] == kept  # to the bit


@pytest.mark.parametrize("mixing", [Mixup(0.3), CutMix(1.0)], ids=repr)
def test_samples_move_with_their_keys(mixing):
    """The order of a batch does not matter, nor what is beside it in memory."""
    inputs, uniform = torch.rand(SAMPLES, 1, 6, 6), draws(mixing.draws)
    order = torch.randperm(SAMPLES)
    found = mixing.mixed(batch_of(inputs), uniform).take(order)
    other = mixing.mixed(batch_of(inputs).take(order), uniform[order])
    assert torch.equal(found.inputs, other.inputs)
    for one, another in zip(found.partners, other.partners, strict=True):
        assert torch.equal(one, another)


@pytest.mark.parametrize("mixing", [Mixup(), CutMix()], ids=repr)
def test_a_sample_alone_is_itself(mixing):
    inputs = torch.rand(1, 1, 4, 4)
    found = mixing.mixed(batch_of(inputs), draws(mixing.draws, 1))
    torch.testing.assert_close(found.inputs, inputs)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Mixup(0.0), "alpha must lie in .*, got 0.0"),
        (lambda: CutMix(-1.0), "alpha must lie in .*, got -1.0"),
        (lambda: augment(torch.rand(2, 1, 4, 4), [Mixup()], draws(2, 2)), "Mixup must"),
    ],
)
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
