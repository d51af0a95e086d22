"""SAM on quadratics against autograd, and sharpness against brute force and scipy."""

import numpy as np
import pytest
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


def test_the_hard_case_where_the_gradient_misses_the_top():
    eigenvalues, gradient = np.array([1.0, 3.0]), np.array([0.1, 0.0])
    # At mu = 3 the first coordinate is 0.1 / 2; the rest of the length goes up.
    first = 0.1 / 2
    second = np.sqrt(1 - first**2)
    expected = 0.5 * (first**2 + 3 * second**2) + 0.1 * first
    assert float(largest_rise(eigenvalues, gradient, 1.0)) == pytest.approx(expected)
    flat = largest_rise(eigenvalues, np.zeros(2), 0.1)
    assert float(flat) == pytest.approx(0.5 * 3 * 0.01)


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
