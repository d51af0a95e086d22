"""Moments against rational arithmetic, quadrature by scipy, and random matrices."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import quad

from tepui.theory import marchenko_pastur_rule, phi, phi_exact, phi_multinomial, stable
from tepui.theory.moments import log_phi, moment_exact

RATIOS = (0.5, 1.0, 2.0, 20.0)
SETTINGS = ((0.01, 0.1), (0.02, 0.05), (0.05, 0.3), (0.01, 0.5))


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


def test_the_printed_sum_loses_all_digits():
    options = {"eta": 0.01, "rho": 0.1, "ratio": 20.0}
    exact = float(phi_exact(64, 4, **options))
    assert exact == pytest.approx(5.4285663e-7, rel=1e-7)
    assert abs(phi_multinomial(64, 4, **options) / exact - 1) > 1e12
    assert float(phi(64, 4, **options)) == pytest.approx(exact, rel=1e-12)


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
