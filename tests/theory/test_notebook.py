"""The values that the released notebook recorded, met by the simulators.

It used ten matrices and a hundred starts, 3000 x 150, and one teacher whose length it
does not print. One length, fitted to its figure 9, must explain all sharpnesses.
"""

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from tepui.theory import Setting, phi, simulate_sam

MATRICES, STARTS, TEST_ROWS = 10, 100, 1000
TEACHER = 0.921 * math.sqrt(15)
SETTING = Setting(rho0=0.01, n=3000, d=150, sigma2=0.1, theta_norm=TEACHER)


def recorded(figure):
    with (Path(__file__).parent / "notebook.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["figure"] == figure]
    names = ("value", "sharpness", "diversity")
    return (np.array([float(row[name]) for row in rows]) for name in names)


def points(figure, values):
    """Steps, radii and blocks of a figure, one of each per value."""
    if figure == "figure9b":
        return values.astype(int), np.full(len(values), 0.4), 10
    steps, blocks = (3, 1) if figure == "figure2" else (5, 10)
    return np.full(len(values), steps), values, blocks


def simulated(k, rho, subsets, **options):
    return simulate_sam(SETTING, k, eta=0.01, rho=rho, subsets=subsets, **options)


def deviations(figure):
    """Recorded minus simulated, in standard errors of the difference."""
    values, sharpness, diversity = recorded(figure)
    k, rho, subsets = points(figure, values)
    seen = simulated(k, rho, subsets, matrices=80 if subsets == 1 else 30)
    # How much the notebook's own means scatter, from its protocol at three points.
    some = [0, len(k) // 2, -1]
    drawn = simulated(
        k[some], rho[some], subsets, matrices=MATRICES, initializations=STARTS
    )
    sharpness_error = sharpness * (drawn.sharpness_error / drawn.sharpness).max()
    diversity_error = diversity * (drawn.diversity_error / drawn.diversity).max()

    def moment(i):
        return phi(i, 0, eta=0.01, rho=rho, ratio=20 / subsets)

    # Its squared mean over starts is too large by their variance over their number.
    shared = moment(2 * k) / subsets + (1 - 1 / subsets) * moment(k) ** 2
    expected = seen.diversity - SETTING.sigma2 * shared / STARTS
    # It drew test rows too; here they are averaged exactly.
    peaked = moment(4 * k) / moment(2 * k) ** 2
    rows = expected * np.sqrt(2 * peaked / (SETTING.d * TEST_ROWS * MATRICES))
    return (
        (sharpness - seen.sharpness) / np.hypot(sharpness_error, seen.sharpness_error),
        (diversity - expected)
        / np.sqrt(diversity_error**2 + rows**2 + seen.diversity_error**2),
    )


def test_the_teacher_has_a_likely_length():
    # The squared length over its variance is chi-squared with d degrees of freedom.
    score = (TEACHER**2 / 0.1 - 150) / math.sqrt(2 * 150)
    assert abs(score) < 2


@pytest.mark.slow
@pytest.mark.parametrize("figure", ["figure2", "figure9a", "figure9b"])
def test_recorded_values_are_met(figure):
    for deviation in deviations(figure):
        assert np.abs(deviation).max() < 3.5
        assert np.sqrt((deviation**2).mean()) < 1.5
