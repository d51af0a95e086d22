r"""SAM on random quadratics, simulated, to test the theorems.

Each repetition draws data of shape ``(n, d)`` with entries :math:`N(0, 1/d)` and a
teacher of given length in random direction. Members train by SAM on all rows, or each
on one of S blocks of rows. Averages over initial weights, over the choice of the block
and over test rows are taken exactly, from the unrolled iteration; means and standard
errors run over the repetitions. With ``initializations`` given, members really start
from that many draws and take their steps one by one.

All points of a grid of k, eta and rho share their data.

Differs from the published notebook: the variance is unbiased (there it is too small by
the factor 1 - 1 / initializations for members trained on all rows), and test rows are
averaged exactly.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike

from tepui.core.checks import one_of
from tepui.core.seeding import generator
from tepui.theory.moments import (
    FloatArray,
    integer_from,
    non_negative,
    non_negative_integers,
    warn_beyond_range,
)
from tepui.theory.quadratic import (
    ascended_rise,
    contraction,
    iterate_sam,
    largest_rise,
)
from tepui.theory.setting import Setting, check_subsets

Maximizer = Literal["exact", "ascent"]


@dataclass(frozen=True)
class Simulation:
    """Means over repetitions, with their standard errors.

    Attributes:
        diversity: Variance of the members' predictions on unseen rows.
        diversity_error: Its standard error.
        sharpness: Largest rise of the loss near the members' mean.
        sharpness_error: Its standard error.
    """

    diversity: FloatArray
    diversity_error: FloatArray
    sharpness: FloatArray
    sharpness_error: FloatArray


def simulate_sam(
    setting: Setting,
    k: ArrayLike,
    *,
    eta: ArrayLike,
    rho: ArrayLike,
    subsets: int = 1,
    matrices: int = 50,
    seed: int = 0,
    maximizer: Maximizer = "exact",
    initializations: int | None = None,
) -> Simulation:
    """Simulate members trained by SAM, each on one of S blocks of rows.

    Args:
        setting: Data, initial weights and the radius of sharpness.
        k: Steps, an integer or an array.
        eta: Step size, a number or an array.
        rho: SAM's perturbation radius, likewise.
        subsets: Blocks of rows, S; with one, every member is trained on all data.
        matrices: Repetitions.
        seed: What all draws derive from.
        maximizer: ``"exact"``, or the projected gradient ascent of the paper.
        initializations: Initial weights drawn per repetition; None averages exactly.

    Returns:
        The common shape of ``k``, ``eta`` and ``rho``.

    Example:
        >>> setting = Setting(rho0=0.1, n=40, d=20, sigma2=0.5, theta_norm=1.0)
        >>> seen = simulate_sam(setting, 0, eta=0.1, rho=0.1, matrices=2)
        >>> float(seen.diversity), float(seen.diversity_error)
        (0.5, 0.0)
    """
    one_of("maximizer", maximizer, get_args(Maximizer))
    if initializations is not None:
        integer_from(2, "initializations", initializations)
    points = _grid(k, eta, rho)
    rho0, d, sigma2 = setting.rho0, setting.d, setting.sigma2
    quadratics = _draw(setting.n, d, matrices, subsets, seed, setting.theta_norm)
    starts = _starts(d, matrices, initializations, seed, sigma2)
    foot = rho0 / 2 * _directions(d, matrices, seed, "ascent")

    def measure(k: int, eta: float, rho: float) -> tuple[FloatArray, FloatArray]:
        if starts is None:
            diversity, mean = _average(quadratics, k, eta, rho, sigma2)
        else:
            diversity, mean = _sample(quadratics, k, eta, rho, starts)
        slope = quadratics.eigenvalues * _rotated(quadratics.basis, mean)
        if maximizer == "exact":
            return diversity, largest_rise(quadratics.eigenvalues, slope, rho0)
        return diversity, ascended_rise(quadratics.eigenvalues, slope, rho0, foot)

    columns = _over_grid(measure, points)
    return Simulation(*mean_and_error(columns[0]), *mean_and_error(columns[1]))


def simulate_subset_constant(
    k: ArrayLike,
    *,
    eta: ArrayLike,
    rho: ArrayLike,
    n: int,
    d: int,
    subsets: int,
    matrices: int = 50,
    seed: int = 0,
) -> tuple[FloatArray, FloatArray]:
    """Estimate C of Theorem 2 from the matrices it is the expected trace of.

    Args:
        k: Steps, an integer or an array.
        eta: Step size, a number or an array.
        rho: SAM's perturbation radius, likewise.
        n: Rows of the data.
        d: Columns of the data.
        subsets: Blocks of rows, S.
        matrices: Repetitions.
        seed: What all draws derive from.

    Returns:
        The estimate and its standard error, each in the common shape of ``k``, ``eta``
        and ``rho``.
    """
    points = _grid(k, eta, rho)
    quadratics = _draw(n, d, matrices, subsets, seed, 1.0)
    gram = quadratics.grams.sum(1)

    def measure(k: int, eta: float, rho: float) -> tuple[FloatArray, ...]:
        shrunk = contraction(quadratics.block_eigenvalues, eta, rho) ** k
        basis = quadratics.block_basis
        powers = (basis * shrunk[..., None, :]) @ basis.swapaxes(-1, -2)
        return (((gram @ powers.sum(1)) ** 2).sum((-2, -1)) / d,)

    return mean_and_error(_over_grid(measure, points)[0])


class _Quadratics(NamedTuple):
    """A batch of problems: blocks, their spectra, the whole's spectrum, teachers."""

    grams: FloatArray
    block_eigenvalues: FloatArray
    block_basis: FloatArray
    eigenvalues: FloatArray
    basis: FloatArray
    teachers: FloatArray


def _draw(
    n: int, d: int, matrices: int, subsets: int, seed: int, theta_norm: float
) -> _Quadratics:
    integer_from(1, "n", n)
    integer_from(1, "d", d)
    check_subsets(subsets, n)
    integer_from(2, "matrices", matrices)
    drawn = _drawn(n, d, matrices, subsets, seed)
    return drawn._replace(teachers=theta_norm * drawn.teachers)


# The curves of a figure need the same problems, whole and in blocks, repeatedly.
@lru_cache(maxsize=2)
def _drawn(n: int, d: int, matrices: int, subsets: int, seed: int) -> _Quadratics:
    """Return problems whose teachers have length one; all callers share the arrays."""
    grams = torch.empty(matrices, subsets, d, d, dtype=torch.float64)
    for index in range(matrices):
        data = _normal((n, d), seed, "data", index) / math.sqrt(d)
        for number, block in enumerate(data.tensor_split(subsets)):
            grams[index, number] = block.T @ block
    parts = _spectrum(grams)
    whole = _spectrum(grams.sum(1)) if subsets > 1 else (parts[0][:, 0], parts[1][:, 0])
    teachers = _directions(d, matrices, seed, "teacher")
    drawn = _Quadratics(grams.numpy(), *parts, *whole, teachers)
    for array in drawn:
        array.flags.writeable = False
    return drawn


def _spectrum(grams: torch.Tensor) -> tuple[FloatArray, FloatArray]:
    # torch's, since numpy's threads hinder each other on small matrices.
    eigenvalues, basis = torch.linalg.eigh(grams)
    return eigenvalues.clamp(min=0).numpy(), basis.numpy()


def _directions(d: int, matrices: int, seed: int, purpose: str) -> FloatArray:
    draws = [_normal((d,), seed, purpose, index) for index in range(matrices)]
    unit: FloatArray = torch.nn.functional.normalize(torch.stack(draws), dim=-1).numpy()
    return unit


def _starts(
    d: int, matrices: int, initializations: int | None, seed: int, sigma2: float
) -> FloatArray | None:
    if initializations is None:
        return None
    shape = (initializations, d)
    draws = [_normal(shape, seed, "start", index) for index in range(matrices)]
    starts: FloatArray = math.sqrt(sigma2) * torch.stack(draws).numpy()
    return starts


def _normal(
    shape: tuple[int, ...], seed: int, purpose: str, index: int
) -> torch.Tensor:
    stream = generator(seed, "theory", purpose, index)
    return torch.randn(shape, generator=stream, dtype=torch.float64)


def _average(
    quadratics: _Quadratics, k: int, eta: float, rho: float, sigma2: float
) -> tuple[FloatArray, FloatArray]:
    """Return the diversity, and the members' mean relative to the teacher."""
    shrunk = contraction(quadratics.block_eigenvalues, eta, rho) ** k
    basis = quadratics.block_basis
    teachers = quadratics.teachers[:, None]
    errors = -(basis @ (shrunk * _rotated(basis, teachers))[..., None])[..., 0]
    mean = errors.mean(1)
    between = (errors**2).sum(-1).mean(1) - (mean**2).sum(-1)
    return sigma2 * (shrunk**2).mean((1, 2)) + between / mean.shape[-1], mean


def _sample(
    quadratics: _Quadratics, k: int, eta: float, rho: float, starts: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return what :func:`_average` does, estimated from iterated SAM."""
    teachers = quadratics.teachers[:, None, None]
    weights = iterate_sam(
        quadratics.grams, starts[:, None], teachers, num_steps=k, eta=eta, rho=rho
    )
    errors = weights - teachers
    by_start = errors.mean(1)
    count, d = by_start.shape[1:]
    # The squared mean from pairs of different starts, so that it is unbiased.
    pairs = (by_start.sum(1) ** 2).sum(-1) - (by_start**2).sum((1, 2))
    squared_mean = pairs / (count * (count - 1))
    return ((errors**2).sum(-1).mean((1, 2)) - squared_mean) / d, by_start.mean(1)


def _rotated(basis: FloatArray, vectors: FloatArray) -> FloatArray:
    """Return vectors in the basis of eigenvectors."""
    rotated: FloatArray = (vectors[..., None, :] @ basis)[..., 0, :]
    return rotated


def _grid(k: ArrayLike, eta: ArrayLike, rho: ArrayLike) -> np.broadcast:
    steps = non_negative_integers("k", k)
    return np.broadcast(steps, non_negative("eta", eta), non_negative("rho", rho))


def _over_grid(
    measure: Callable[[int, float, float], tuple[FloatArray, ...]],
    points: np.broadcast,
) -> list[FloatArray]:
    """Return every measured column, of shape ``(*grid, matrices)``."""
    with np.errstate(over="ignore", invalid="ignore"):
        rows = [measure(int(step), *point) for step, *point in points]
    shape = (*points.shape, -1)
    columns = [np.reshape(column, shape) for column in zip(*rows, strict=True)]
    if not all(np.isfinite(column).all() for column in columns):
        warn_beyond_range("a simulated mean")
    return [np.where(np.isfinite(column), column, np.inf) for column in columns]


def mean_and_error(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return means over repetitions, the last axis, with their standard errors."""
    with np.errstate(invalid="ignore"):
        error = values.std(-1, ddof=1) / np.sqrt(values.shape[-1])
    return values.mean(-1), error
