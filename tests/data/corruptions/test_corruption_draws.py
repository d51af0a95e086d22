import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tepui.data.corruptions.draws import Draws, philox
from tepui.data.corruptions.pixels import poisson_quantile

WORD = st.integers(0, 2**32 - 1)
CPU = torch.device("cpu")


def philox_naive(counter, key, rounds):
    """The round function of Salmon et al. (2011), in Python's whole numbers."""
    (c0, c1, c2, c3), (k0, k1) = counter, key
    for _ in range(rounds):
        high0, low0 = divmod(0xD2511F53 * c0, 2**32)
        high1, low1 = divmod(0xCD9E8D57 * c2, 2**32)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return c0, c1, c2, c3


@settings(deadline=None, max_examples=50)
@given(st.tuples(WORD, WORD, WORD, WORD), st.tuples(WORD, WORD), st.integers(0, 10))
def test_philox_matches_naive(counter, key, rounds):
    words = tuple(torch.tensor([word]) for word in counter)
    found = tuple(int(word) for word in philox(words, key, rounds))
    assert found == philox_naive(counter, key, rounds)


@pytest.mark.parametrize(
    ("rounds", "word", "expected"),
    [
        (7, 0, "5f6fb709 0d893f64 4f121f81 4f730a48"),
        (10, 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (10, 0xFFFFFFFF, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ],
)
def test_philox_gives_the_published_answers(rounds, word, expected):
    counter = (torch.tensor([word]),) * 4
    found = philox(counter, (word, word), rounds)
    assert " ".join(f"{int(value):08x}" for value in found) == expected


def test_uniform_and_normal_numbers_are_distributed_so():
    draws = Draws((0, "test"), 0, 100, CPU)
    uniform, normal = draws.uniform(1000), draws.normal(1000)
    assert uniform.min() >= 0
    assert uniform.max() < 1
    assert stats.kstest(uniform.flatten().numpy(), "uniform").pvalue > 1e-3
    assert stats.kstest(normal.flatten().numpy(), "norm").pvalue > 1e-3
    # Neither neighbors nor images nor streams are correlated.
    for first, second in [
        (normal[:, 1:], normal[:, :-1]),
        (normal[1:], normal[:-1]),
        (normal, draws.normal(1000, stream=1)),
        (normal, Draws((1, "test"), 0, 100, CPU).normal(1000)),
    ]:
        pairs = torch.stack([first.flatten(), second.flatten()])
        assert abs(torch.corrcoef(pairs)[0, 1]) < 4 / math.sqrt(pairs.shape[1])


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 5), (3, 4, 7)])
def test_an_image_draws_the_same_in_every_batch(shape):
    whole = Draws((0, "test"), 0, 9, CPU)
    part = Draws((0, "test"), 4, 3, CPU)
    for kind in ("uniform", "normal"):
        expected = getattr(whole, kind)(*shape, stream=2)
        assert expected.shape == (9, *shape)
        assert torch.equal(getattr(part, kind)(*shape, stream=2), expected[4:7])


@pytest.mark.parametrize("rate", [0.0, 0.1, 1.0, 4.0, 9.9, 10.1, 12.0, 60.0, 500.0])
def test_poisson_quantiles_are_scipys(rate):
    probability = np.linspace(1e-5, 1 - 1e-5, 20_001)
    normal = torch.from_numpy(stats.norm.ppf(probability)).float()
    found = poisson_quantile(normal, torch.full_like(normal, rate)).numpy()
    gap = np.abs(found - stats.poisson.ppf(probability, rate))
    assert gap.max() <= 1
    assert gap.mean() < 2e-3
