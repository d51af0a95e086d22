"""SAM on quadratics against autograd, and sharpness against brute force and scipy."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from strategies import modest
from tepui.theory import ascended_rise, iterate_sam, largest_rise, unroll_sam


def quadratic(seed, n=24, d=12):
    stream = np.random.default_rng(seed)
    data = stream.standard_normal((n, d)) / np.sqrt(d)
    return data, stream.standard_normal((3, d)), stream.standard_normal(d)


def dual(eigenvalues, gradient, radius):
    """The same maximum from below: min over mu of its Lagrangian."""
    top = eigenvalues[-1]

    def value(log_shift):
        mu = top + np.exp(log_shift)
        return 0.5 * (mu * radius**2 + (gradient**2 / (mu - eigenvalues)).sum())

    center = np.log(np.linalg.norm(gradient) / radius)
    options = {"bounds": (center - 25, center + 2), "options": {"xatol": 1e-12}}
    return minimize_scalar(value, method="bounded", **options).fun


def test_iterated_sam_takes_the_steps_that_autograd_says():
    data, start, teacher = quadratic(0)
    A, goal = torch.from_numpy(data), torch.from_numpy(teacher)

    def slope(weights):
        weights = weights.detach().requires_grad_()
        loss = 0.5 * ((weights - goal) @ A.T).square().sum()
        return torch.autograd.grad(loss, weights)[0]

    weights = torch.from_numpy(start)
    for _ in range(5):
        weights = weights - 0.05 * slope(weights + 0.3 * slope(weights))
    actual = iterate_sam(data.T @ data, start, teacher, num_steps=5, eta=0.05, rho=0.3)
    np.testing.assert_allclose(actual, weights.numpy(), rtol=1e-12)


@modest
@given(
    seed=st.integers(0, 2**32 - 1),
    steps=st.integers(0, 30),
    eta=st.floats(0, 0.2),
    rho=st.floats(0, 0.5),
)
def test_unrolled_equals_iterated_sam(seed, steps, eta, rho):
    data, start, teacher = quadratic(seed)
    options = {"num_steps": steps, "eta": eta, "rho": rho}
    literal = iterate_sam(data.T @ data, start, teacher, **options)
    closed = unroll_sam(data.T @ data, start, teacher, **options)
    np.testing.assert_allclose(closed, literal, rtol=0, atol=1e-10 * abs(literal).max())


def test_batches_are_separate_problems():
    grams = np.stack([data.T @ data for data, _, _ in map(quadratic, (1, 2))])
    _, start, teacher = quadratic(3)
    both = unroll_sam(grams, start, teacher, num_steps=4, eta=0.1, rho=0.1)
    for gram, batch in zip(grams, both, strict=True):
        alone = unroll_sam(gram, start, teacher, num_steps=4, eta=0.1, rho=0.1)
        np.testing.assert_allclose(batch, alone, rtol=1e-12)


@modest
@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.sampled_from([1e-6, 1e-3, 1.0, 1e4, 1e10]),
    radius=st.sampled_from([1e-3, 0.01, 1.0]),
)
def test_the_largest_rise_is_that_of_the_dual(seed, size, radius):
    data, start, _ = quadratic(seed)
    eigenvalues = np.linalg.eigvalsh(data.T @ data)
    expected = dual(eigenvalues, size * start[0], radius)
    actual = float(largest_rise(eigenvalues, size * start[0], radius))
    assert actual == pytest.approx(expected, rel=1e-8)


def test_no_direction_rises_more():
    data, start, _ = quadratic(4)
    eigenvalues = np.linalg.eigvalsh(data.T @ data)
    gradient = 0.1 * start[0]
    stream = np.random.default_rng(5)
    tried = stream.standard_normal((20_000, 12))
    tried *= 0.1 / np.linalg.norm(tried, axis=1, keepdims=True)
    rises = ((0.5 * eigenvalues * tried + gradient) * tried).sum(1)
    best = float(largest_rise(eigenvalues, gradient, 0.1))
    assert rises.max() <= best
    ascended = ascended_rise(eigenvalues, gradient, 0.1, tried[0] / 2, num_steps=5000)
    assert float(ascended) == pytest.approx(best, rel=1e-9)


def test_the_hard_case_where_the_gradient_misses_the_top():
    eigenvalues, gradient = np.array([1.0, 3.0]), np.array([0.1, 0.0])
    # At mu = 3 the first coordinate is 0.1 / 2; the rest of the length goes up.
    first = 0.1 / 2
    second = np.sqrt(1 - first**2)
    expected = 0.5 * (first**2 + 3 * second**2) + 0.1 * first
    assert float(largest_rise(eigenvalues, gradient, 1.0)) == pytest.approx(expected)
    flat = largest_rise(eigenvalues, np.zeros(2), 0.1)
    assert float(flat) == pytest.approx(0.5 * 3 * 0.01)


def test_the_order_of_eigenvalues_does_not_matter():
    data, start, _ = quadratic(8)
    eigenvalues = np.linalg.eigvalsh(data.T @ data)
    shuffled = np.random.default_rng(9).permutation(12)
    one = largest_rise(eigenvalues, start[0], 0.1)
    other = largest_rise(eigenvalues[shuffled], start[0][shuffled], 0.1)
    assert float(other) == pytest.approx(float(one), rel=1e-12)


def test_equal_largest_eigenvalues():
    # With H = 3 I every direction is alike: half of 3 r², and r times the slope.
    for gradient in ([0.1, 0.0], [0.0, 0.1], [0.06, 0.08]):
        rise = largest_rise(np.full(2, 3.0), np.array(gradient), 0.5)
        assert float(rise) == pytest.approx(0.5 * 3 * 0.25 + 0.1 * 0.5)


def test_published_ascent_reaches_the_maximum_to_four_digits():
    stream = np.random.default_rng(6)
    data = stream.standard_normal((3000, 150)) / np.sqrt(150)
    eigenvalues = np.linalg.eigvalsh(data.T @ data)
    gradient = eigenvalues * stream.standard_normal(150) * 0.1
    start = np.full(150, 0.005 / np.sqrt(150))
    result = float(ascended_rise(eigenvalues, gradient, 0.01, start))
    best = float(largest_rise(eigenvalues, gradient, 0.01))
    assert result <= best * (1 + 1e-12)
    assert result == pytest.approx(best, rel=1e-4)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="radius must be positive and finite, got 0"):
        largest_rise(np.ones(2), np.ones(2), 0.0)
    with pytest.raises(ValueError, match="radius must be positive and finite, got -1"):
        ascended_rise(np.ones(2), np.ones(2), -1.0, np.zeros(2))
    with pytest.raises(ValueError, match=r"eigenvalues must be non-negative.*-1\.0"):
        largest_rise(np.array([-1.0, 1.0]), np.ones(2), 1.0)
    with pytest.raises(ValueError, match="num_steps must be an integer of at least 0"):
        ascended_rise(np.ones(2), np.ones(2), 1.0, np.zeros(2), num_steps=-1)


@pytest.mark.parametrize("train", [iterate_sam, unroll_sam])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_steps": -1}, "num_steps must be an integer of at least 0, got -1"),
        ({"num_steps": 1.5}, r"num_steps must be an integer of at least 0, got 1\.5"),
        ({"eta": -0.1}, r"eta must be non-negative and finite, got -0\.1"),
        ({"rho": -0.1}, r"rho must be non-negative and finite, got -0\.1"),
    ],
)
def test_bad_training_is_named(train, change, message):
    options = {"num_steps": 1, "eta": 0.1, "rho": 0.1, **change}
    with pytest.raises(ValueError, match=message):
        train(np.eye(2), np.ones((1, 2)), np.zeros(2), **options)
