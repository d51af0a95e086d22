"""Moments against rational arithmetic, quadrature by scipy, and random matrices."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.linalg import eigh_tridiagonal

from strategies import modest
from tepui.theory import marchenko_pastur_rule, phi, phi_exact, phi_multinomial, stable
from tepui.theory.moments import log_phi, moment_exact

RATIOS = (0.5, 1.0, 2.0, 20.0)
SETTINGS = ((0.01, 0.1), (0.02, 0.05), (0.05, 0.3), (0.01, 0.5))


def jacobi_phi(i, j, eta, rho, ratio):
    """The same integral by Gauss quadrature from the Jacobi matrix of the law."""
    size = i + j + 2
    diagonal = np.full(size, ratio + 1.0)
    diagonal[0] = ratio
    nodes, vectors = eigh_tridiagonal(diagonal, np.full(size - 1, math.sqrt(ratio)))
    values = (1 - eta * nodes - eta * rho * nodes**2) ** i * nodes**j
    return float(vectors[0] ** 2 @ values)


def phi_by_density(i, j, eta, rho, ratio):
    """The same integral from the density, by adaptive quadrature."""
    low, high = (math.sqrt(ratio) - 1) ** 2, (math.sqrt(ratio) + 1) ** 2

    def integrand(t):
        x = (low + high) / 2 - (high - low) / 2 * math.cos(t)
        root = (high - low) / 2 * math.sin(t)
        value = (1 - eta * x - eta * rho * x * x) ** i * x**j
        return value * root / (2 * math.pi * x) * root

    bulk = quad(integrand, 0, math.pi, epsabs=0, epsrel=1e-11)[0]
    return bulk + (max(1 - ratio, 0.0) if j == 0 else 0.0)


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("j", range(5))
def test_phi_is_exact_to_twelve_digits(ratio, j):
    # Rational arithmetic takes long over many steps: one setting each, a Latin square.
    long = SETTINGS[(RATIOS.index(ratio) + j) % len(SETTINGS)]
    for eta, rho in SETTINGS:
        for i in (0, 1, 2, 3, 7, 12, *((33, 64) if (eta, rho) == long else ())):
            exact = float(phi_exact(i, j, eta=eta, rho=rho, ratio=ratio))
            actual = float(phi(i, j, eta=eta, rho=rho, ratio=ratio))
            assert actual == pytest.approx(exact, rel=1e-12, abs=0), (i, eta, rho)


@modest
@given(
    i=st.integers(0, 12),
    j=st.integers(0, 4),
    eta=st.floats(0, 0.1),
    rho=st.floats(0, 0.5),
    ratio=st.floats(0.1, 20),
)
def test_phi_matches_the_jacobi_matrix(i, j, eta, rho, ratio):
    scale = float(phi(2 * (i // 2 + 1), j, eta=eta, rho=rho, ratio=ratio)) + 1
    expected = jacobi_phi(i, j, eta, rho, ratio)
    assert float(phi(i, j, eta=eta, rho=rho, ratio=ratio)) == pytest.approx(
        expected, rel=1e-9, abs=1e-11 * scale
    )


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("j", range(3))
def test_phi_matches_the_density(ratio, j):
    expected = phi_by_density(6, j, 0.01, 0.1, ratio)
    assert float(phi(6, j, eta=0.01, rho=0.1, ratio=ratio)) == pytest.approx(
        expected, rel=1e-9
    )


def test_the_exact_moment_is_the_printed_sum_in_rational_arithmetic():
    eta, rho, ratio = Fraction(1, 50), Fraction(1, 20), Fraction(3, 2)
    for i, j in ((0, 0), (1, 0), (5, 2), (8, 1)):
        total = Fraction(0)
        for k3 in range(i + 1):
            for k2 in range(i + 1 - k3):
                ways = math.comb(i, k3) * math.comb(i - k3, k2)
                weight = (-eta) ** (k2 + k3) * rho**k3
                total += ways * weight * moment_exact(k2 + 2 * k3 + j, ratio)
        assert phi_exact(i, j, eta=eta, rho=rho, ratio=ratio) == total


def test_moments_are_catalan_numbers_for_square_data():
    catalan = [math.comb(2 * m, m) // (m + 1) for m in range(8)]
    assert [moment_exact(m, Fraction(1)) for m in range(8)] == catalan


def test_the_printed_sum_agrees_where_rounding_allows():
    for i, j in ((0, 0), (2, 0), (6, 2), (8, 4)):
        options = {"eta": 0.01, "rho": 0.1, "ratio": 2.0}
        assert phi_multinomial(i, j, **options) == pytest.approx(
            float(phi_exact(i, j, **options)), rel=1e-9
        )


def test_the_printed_sum_loses_all_digits():
    options = {"eta": 0.01, "rho": 0.1, "ratio": 20.0}
    exact = float(phi_exact(64, 4, **options))
    assert exact == pytest.approx(5.4285663e-7, rel=1e-7)
    assert abs(phi_multinomial(64, 4, **options) / exact - 1) > 1e12
    assert float(phi(64, 4, **options)) == pytest.approx(exact, rel=1e-12)


def test_the_printed_sum_has_the_wrong_sign_where_the_moment_is_positive():
    options = {"eta": 0.02, "rho": 0.05, "ratio": 20.0}
    exact = float(phi_exact(32, 0, **options))
    assert exact > 0
    assert float(phi(32, 0, **options)) == pytest.approx(exact, rel=1e-12)
    assert phi_multinomial(32, 0, **options) < -100 * exact


def test_odd_powers_may_be_negative_and_stay_so():
    value = float(phi(3, 0, eta=0.01, rho=0.5, ratio=20.0))
    assert value == pytest.approx(-6.33, abs=0.005)


@pytest.mark.parametrize("ratio", RATIOS)
def test_the_rule_has_positive_weights_and_mass_one(ratio):
    nodes, weights = marchenko_pastur_rule(ratio, 40)
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1, abs=1e-14)
    assert weights[0] == pytest.approx(max(1 - ratio, 1 / 41 if ratio == 1 else 0))
    assert ((nodes >= 0) & (nodes <= (math.sqrt(ratio) + 1) ** 2 + 1e-12)).all()


def test_shapes_broadcast_and_points_do_not_mix():
    i = np.array([[0], [6], [40]])
    rho = np.linspace(0, 0.4, 5)
    grid = phi(i, 2, eta=0.01, rho=rho, ratio=20.0)
    assert grid.shape == (3, 5)
    for row, power in enumerate(i[:, 0]):
        for column, radius in enumerate(rho):
            single = float(phi(power, 2, eta=0.01, rho=radius, ratio=20.0))
            assert grid[row, column] == pytest.approx(single, rel=1e-12)


@pytest.mark.parametrize("ratio", [0.5, 1.0, 20.0])
def test_ten_thousand_steps_do_not_overflow(ratio):
    value = float(phi(10_000, 0, eta=0.01, rho=0.1, ratio=ratio))
    expected = phi_by_density(10_000, 0, 0.01, 0.1, ratio)
    assert value == pytest.approx(expected, rel=1e-9, abs=1e-300)


def test_a_finite_result_is_finite_though_its_terms_are_not():
    # |B| at the upper edge to this power is beyond the floats; its weight is small.
    edge = (math.sqrt(20) + 1) ** 2
    factor = abs(1 - 0.01 * edge * (1 + 0.3 * edge))
    power = int(709.9 / math.log(factor)) // 2 * 2
    log, _ = log_phi(power, 0, eta=0.01, rho=0.3, ratio=20.0)
    assert power * math.log(factor) > 708
    assert 690 < log < 709
    assert math.isfinite(float(phi(power, 0, eta=0.01, rho=0.3, ratio=20.0)))


def test_beyond_the_floats_comes_inf_with_a_warning_that_names_the_regime():
    assert not stable(0.1, 0.5, 20.0)
    with pytest.warns(RuntimeWarning, match="divergent regime"):
        assert float(phi(10_000, 0, eta=0.1, rho=0.5, ratio=20.0)) == math.inf
    with pytest.warns(RuntimeWarning, match="divergent regime"):
        assert float(phi(9_999, 0, eta=0.1, rho=0.5, ratio=20.0)) == -math.inf


def gram_moment(m, n, d):
    """E tr H^m / d of a real Wishart matrix, for m up to three."""
    R = n / d
    return {
        1: R,
        2: R**2 + R + R / d,
        3: R**3 + 3 * R**2 + R + 3 * (R + R**2) / d + 4 * R / d**2,
    }[m]


@pytest.mark.parametrize(("n", "d"), [(10, 20), (20, 20), (400, 20)])
def test_the_first_correction_is_that_of_wishart_matrices(n, d):
    for m in (1, 2, 3):
        rest = 4 * n / d / d**2 if m == 3 else 0.0
        actual = float(phi(0, m, eta=0.0, rho=0.0, ratio=n / d, d=d))
        assert actual == pytest.approx(gram_moment(m, n, d) - rest, rel=1e-12)


def test_the_correction_vanishes_as_d_grows():
    limit = phi(12, [0, 1, 2], eta=0.01, rho=0.1, ratio=20.0)
    near = phi(12, [0, 1, 2], eta=0.01, rho=0.1, ratio=20.0, d=10**9)
    np.testing.assert_allclose(near, limit, rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"i": -1}, "i must be a non-negative integer, got -1"),
        ({"i": 1.5}, "i must be a non-negative integer, got 1.5"),
        ({"j": -2}, "j must be a non-negative integer, got -2"),
        ({"eta": -0.1}, "eta must be non-negative and finite, got -0.1"),
        ({"rho": [0.1, -0.2]}, "rho must be non-negative and finite, got -0.2"),
        ({"rho": math.nan}, "rho must be non-negative and finite, got nan"),
        ({"ratio": 0.0}, "ratio must be positive and finite, got 0.0"),
        ({"d": 0}, "d must be an integer of at least 1, got 0"),
    ],
)
def test_bad_input_is_named(change, message):
    arguments = {"i": 2, "j": 0, "eta": 0.1, "rho": 0.1, "ratio": 2.0, **change}
    i, j = arguments.pop("i"), arguments.pop("j")
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        phi(i, j, **arguments)


@pytest.mark.parametrize("function", [phi_exact, phi_multinomial])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"i": -1}, "i must be an integer of at least 0, got -1"),
        ({"j": -2}, "j must be an integer of at least 0, got -2"),
        ({"j": 0.5}, "j must be an integer of at least 0, got 0.5"),
        ({"eta": -0.1}, "eta must be non-negative and finite, got -0.1"),
        ({"rho": -0.2}, "rho must be non-negative and finite, got -0.2"),
        ({"ratio": 0.0}, "ratio must be positive and finite, got 0.0"),
        ({"ratio": math.inf}, "ratio must be positive and finite, got inf"),
    ],
)
def test_bad_input_of_the_slow_forms_is_named(function, change, message):
    arguments = {"i": 2, "j": 0, "eta": 0.1, "rho": 0.1, "ratio": 2.0, **change}
    i, j = arguments.pop("i"), arguments.pop("j")
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        function(i, j, **arguments)


@pytest.mark.parametrize(
    ("i", "j", "eta", "ratio"),
    [(1, 300, 0.01, 20.0), (150, 0, 1e3, 2.0), (1, 300, 0.01, 1e-2)],
)
def test_overflow_of_the_printed_sum_comes_back_as_inf(i, j, eta, ratio):
    with pytest.warns(RuntimeWarning, match="terms of the printed sum overflow"):
        assert phi_multinomial(i, j, eta=eta, rho=0.1, ratio=ratio) == math.inf


def test_the_printed_sum_refuses_numbers_beyond_floats():
    with pytest.raises(ValueError, match=r"2 \* i \+ j must be at most 500, got 600"):
        phi_multinomial(300, 0, eta=0.1, rho=0.1, ratio=2.0)
