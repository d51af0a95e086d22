"""Metrics of predicted numbers against definitions, scipy and scoringrules."""

import math

import numpy as np
import pytest
import scoringrules
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import mean_pinball_loss, root_mean_squared_error

from strategies import close, modest
from tepui.metrics import (
    gaussian_crps,
    gaussian_nll,
    gaussian_quantiles,
    interval_coverage,
    interval_width,
    quantile_calibration,
    quantile_crps,
    rmse,
    sample_crps,
)

LEVELS = (0.05, 0.25, 0.5, 0.9)


@st.composite
def mixtures(draw):
    """Means, variances and targets of members, in float64."""
    members, samples = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.sampled_from([0.01, 1.0, 30.0]))
    normal = lambda *shape: torch.randn(  # noqa: E731
        *shape, generator=generator, dtype=torch.float64
    )
    means = scale * normal(members, samples)
    variances = normal(members, samples).exp()
    return means, variances, 2 * scale * normal(samples)


@modest
@given(mixtures())
def test_rmse_is_that_of_scikit_learn(case):
    means, _, targets = case
    reference = root_mean_squared_error(targets, means.mean(0))
    close(rmse(means, targets), reference)


@modest
@given(mixtures())
def test_nll_is_that_of_the_mixture(case):
    means, variances, targets = case
    total = 0.0
    for n, y in enumerate(targets.tolist()):
        density = stats.norm.pdf(y, means[:, n], variances[:, n].sqrt()).mean()
        logs = stats.norm.logpdf(y, means[:, n], variances[:, n].sqrt())
        total -= (
            math.log(density)
            if density > 1e-200
            else np.logaddexp.reduce(logs) - math.log(len(logs))
        )
    close(gaussian_nll(means, variances, targets), total / len(targets))


@modest
@given(mixtures())
def test_gaussian_crps_is_that_of_scoringrules(case):
    means, variances, targets = case
    reference = scoringrules.crps_mixnorm(
        targets.numpy(), means.T.numpy(), variances.sqrt().T.numpy()
    )
    close(gaussian_crps(means, variances, targets), reference.mean(), atol=1e-10)


@modest
@given(mixtures())
def test_sample_crps_is_that_of_scoringrules(case):
    means, _, targets = case
    reference = scoringrules.crps_ensemble(
        targets.numpy(), means.T.numpy(), estimator="nrg"
    )
    close(sample_crps(means, targets), reference.mean(), atol=1e-10)


@modest
@given(mixtures())
def test_quantile_crps_is_that_of_scikit_learn(case):
    means, variances, targets = case
    quantiles = gaussian_quantiles(means, variances, LEVELS)
    losses = [
        mean_pinball_loss(targets, quantiles[:, i], alpha=level)
        for i, level in enumerate(LEVELS)
    ]
    value = quantile_crps(quantiles, targets, levels=LEVELS)
    close(value, 2 * np.mean(losses), atol=1e-10)


@modest
@given(mixtures())
def test_quantiles_are_where_the_mixture_reaches_its_level(case):
    means, variances, _ = case
    quantiles = gaussian_quantiles(means, variances, LEVELS)
    scaled = (quantiles - means.unsqueeze(-1)) / variances.sqrt().unsqueeze(-1)
    reached = torch.special.ndtr(scaled).mean(0)
    close(
        reached,
        torch.tensor(LEVELS, dtype=torch.float64).expand_as(reached),
        atol=1e-10,
    )


@modest
@given(mixtures(), st.sampled_from([0.5, 0.9]))
def test_intervals_hold_as_many_as_a_loop_counts(case, coverage):
    means, variances, targets = case
    ends = (1 - coverage) / 2, (1 + coverage) / 2
    lower, upper = gaussian_quantiles(means, variances, ends).unbind(-1)
    close(interval_width(lower, upper), (upper - lower).mean())
    inside = [
        low <= y <= high
        for low, high, y in zip(
            *(x.tolist() for x in (lower, upper, targets)), strict=True
        )
    ]
    close(interval_coverage(lower, upper, targets), sum(inside) / len(inside))


@modest
@given(mixtures())
def test_quantile_calibration_from_its_definition(case):
    means, variances, targets = case
    quantiles = gaussian_quantiles(means, variances, LEVELS)
    gaps = []
    for i, level in enumerate(LEVELS):
        pairs = zip(targets.tolist(), quantiles[:, i].tolist(), strict=True)
        below = [y <= q for y, q in pairs]
        gaps.append(abs(sum(below) / len(below) - level))
    value = quantile_calibration(quantiles, targets, levels=LEVELS)
    close(value, sum(gaps) / len(gaps))


def test_far_targets_do_not_end_in_nan():
    means, variances = torch.zeros(2, 1), torch.full((2, 1), 1e-4)
    far = torch.tensor([1e4])
    assert gaussian_nll(means, variances, far) == pytest.approx(5e11, rel=1e-3)
    assert gaussian_crps(means, variances, far) == pytest.approx(1e4)
    assert sample_crps(means + 1e6, torch.tensor([1e6])) == 0
