r"""SAM and sharpness on one quadratic, or on a batch of them.

The loss is :math:`f(\theta) = \tfrac12 (\theta-\theta^*)^\top H (\theta-\theta^*)`.

- Unnormalized SAM, :math:`\theta \leftarrow \theta - \eta \nabla f(\theta + \rho
  \nabla f(\theta))`, literally (:func:`iterate_sam`) and unrolled (:func:`unroll_sam`,
  Theorem 3: :math:`\theta_k = \theta^* + B^k (\theta_0 - \theta^*)`).
- Sharpness, :math:`\max_{\lVert e \rVert \le \rho_0} \tfrac12 e^\top H e + g^\top e`.
  The maximizer lies on the sphere and solves :math:`(\mu I - H) e = g` for one
  :math:`\mu \ge \lambda_{\max}`, the root of the secular equation
  :math:`\sum_i g_i^2 / (\mu - \lambda_i)^2 = \rho_0^2` (:func:`largest_rise`).
  Projected gradient ascent is what the paper used (:func:`ascended_rise`).

Both take eigenvalues and the gradient in the basis of eigenvectors.

References:
    Moré and Sorensen, Computing a trust region step, 1983.
"""

import numpy as np

from tepui.core.checks import require
from tepui.theory.moments import FloatArray, integer_from, non_negative, positive

NEWTON_STEPS = 60


def iterate_sam(
    gram: FloatArray,
    start: FloatArray,
    teacher: FloatArray,
    *,
    num_steps: int,
    eta: float,
    rho: float,
) -> FloatArray:
    """Return the weights after some steps of SAM, taken one by one.

    Args:
        gram: H, of shape ``(..., d, d)``.
        start: Initial weights, of shape ``(..., starts, d)``.
        teacher: The minimum, of shape ``(d,)``.
        num_steps: How many steps.
        eta: Step size.
        rho: Perturbation radius.

    Returns:
        The shape of ``start``.

    Example:
        >>> H, start, teacher = np.eye(1), np.ones((1, 1)), np.zeros(1)
        >>> iterate_sam(H, start, teacher, num_steps=1, eta=0.5, rho=1.0)
        array([[0.]])
    """
    _check_training(num_steps, eta, rho)
    _check_widths(gram=gram, start=start, teacher=teacher)
    weights = start
    for _ in range(num_steps):
        slope = (weights - teacher) @ gram
        weights = weights - eta * ((weights + rho * slope - teacher) @ gram)
    return weights


def unroll_sam(
    gram: FloatArray,
    start: FloatArray,
    teacher: FloatArray,
    *,
    num_steps: int,
    eta: float,
    rho: float,
) -> FloatArray:
    """Return the weights after some steps of SAM in closed form.

    Args:
        gram: H, of shape ``(..., d, d)``.
        start: Initial weights, of shape ``(..., starts, d)``.
        teacher: The minimum, of shape ``(d,)``.
        num_steps: How many steps.
        eta: Step size.
        rho: Perturbation radius.

    Returns:
        The shape of ``start``.

    Example:
        >>> H, start, teacher = np.eye(1), np.ones((1, 1)), np.zeros(1)
        >>> unroll_sam(H, start, teacher, num_steps=3, eta=0.25, rho=1.0)
        array([[0.125]])
    """
    _check_training(num_steps, eta, rho)
    _check_widths(gram=gram, start=start, teacher=teacher)
    eigenvalues, basis = np.linalg.eigh(gram)
    shrunk = contraction(eigenvalues, eta, rho)[..., None, :] ** num_steps
    errors: FloatArray = ((start - teacher) @ basis * shrunk) @ basis.swapaxes(-1, -2)
    return teacher + errors


def contraction(
    eigenvalues: FloatArray, eta: float | FloatArray, rho: float | FloatArray
) -> FloatArray:
    """Return 1 - ηx - ηρx², by which a step of SAM multiplies the error."""
    return 1 - eta * eigenvalues * (1 + rho * eigenvalues)


def largest_rise(
    eigenvalues: FloatArray, gradient: FloatArray, radius: float
) -> FloatArray:
    """Return the largest rise of a convex quadratic within a ball, exactly.

    Args:
        eigenvalues: Of shape ``(..., d)``, non-negative, in any order.
        gradient: In the basis of eigenvectors, likewise.
        radius: Of the ball.

    Returns:
        Shape ``(...)``.

    Raises:
        ValueError: If the radius is not positive or an eigenvalue negative.

    Example:
        >>> value = largest_rise(np.array([0.0, 2.0]), np.array([0.0, 3.0]), 0.5)
        >>> float(value)  # 2 / 2 * 0.5² + 3 * 0.5
        1.75
    """
    positive("radius", radius)
    non_negative("eigenvalues", eigenvalues)
    _check_widths(eigenvalues=eigenvalues, gradient=gradient)
    eigenvalues, gradient = np.broadcast_arrays(eigenvalues, gradient)
    # In units of the largest component of the gradient; the root is shift * scale.
    size = np.abs(gradient).max(-1, keepdims=True)
    size = np.where(size > 0, size, 1.0)
    unit = gradient / size
    top = eigenvalues.max(-1, keepdims=True)
    below = (top - eigenvalues) * (radius / size)
    # No root lies under the gradient's components along the top.
    shift = np.where(below == 0, np.abs(unit), 0.0).max(-1)
    for _ in range(NEWTON_STEPS):
        step = _newton_step(below, unit, shift)
        shift = shift + step
        if np.all(step <= 1e-15 * shift):
            break
    along = shift + _quotient(unit**2, below + shift[..., None]).sum(-1)
    rise = 0.5 * radius * (radius * top[..., 0] + size[..., 0] * along)
    return np.asarray(rise)


def ascended_rise(
    eigenvalues: FloatArray,
    gradient: FloatArray,
    radius: float,
    start: FloatArray,
    *,
    step: float = 0.01,
    num_steps: int = 50,
) -> FloatArray:
    """Return the rise that projected gradient ascent finds within a ball.

    Args:
        eigenvalues: Of shape ``(..., d)``.
        gradient: In the basis of eigenvectors, likewise.
        radius: Of the ball.
        start: Where the ascent begins, likewise.
        step: Step size; the paper's by default.
        num_steps: How many steps; the paper's by default.

    Returns:
        Shape ``(...)``, never above :func:`largest_rise`.

    Example:
        >>> eigenvalues, gradient = np.array([0.0, 2.0]), np.array([0.0, 3.0])
        >>> start = np.array([0.1, 0.0])
        >>> float(ascended_rise(eigenvalues, gradient, 0.5, start).round(6))
        1.749832
    """
    positive("radius", radius)
    integer_from(0, "num_steps", num_steps)
    _check_widths(eigenvalues=eigenvalues, gradient=gradient, start=start)
    offset = start
    for _ in range(num_steps):
        offset = offset + step * (eigenvalues * offset + gradient)
        length = np.linalg.norm(offset, axis=-1, keepdims=True)
        offset = offset * (radius / np.maximum(length, radius))
    return np.asarray(((0.5 * eigenvalues * offset + gradient) * offset).sum(-1))


def _check_training(num_steps: int, eta: float, rho: float) -> None:
    integer_from(0, "num_steps", num_steps)
    non_negative("eta", eta)
    non_negative("rho", rho)


def _check_widths(**arrays: FloatArray) -> None:
    """Require arrays whose last axes are of one length, and a finite square gram."""
    (first, width), *others = ((name, np.shape(a)[-1:]) for name, a in arrays.items())
    for name, other in others:
        rule = f"have a last axis as long as that of {first}"
        require(other == width and 0 not in width, name, f"{rule} {width}", other)
    if "gram" in arrays:
        rule, shape = "hold square matrices", np.shape(arrays["gram"])
        require(shape[-2:-1] == shape[-1:], "gram", rule, shape)
        odd = int(np.size(arrays["gram"]) - np.isfinite(arrays["gram"]).sum())
        require(odd == 0, "gram", "hold finite numbers", f"{odd} that are not")


def _newton_step(
    below: FloatArray, gradient: FloatArray, shift: FloatArray
) -> FloatArray:
    """Return Newton's step for 1 / ‖e‖ = 1, which approaches the root from below."""
    gaps = below + shift[..., None]
    squares = _quotient(gradient, gaps) ** 2
    total = squares.sum(-1)
    change = _quotient(squares, gaps).sum(-1)
    step = _quotient(total, change) * (np.sqrt(total) - 1)
    return np.asarray(np.maximum(step, 0.0))


def _quotient(above: FloatArray, under: FloatArray) -> FloatArray:
    """Return a quotient in which 0 / 0 is zero."""
    return np.divide(above, under, out=np.zeros(np.shape(above)), where=above != 0)
