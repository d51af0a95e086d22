"""Worst-case sharpness of models: closed forms, invariances, the naive loop."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from quadratic import inputs_of, largest_rise, own_value, random_quadratic
from tepui.data import Arrays
from tepui.models import MLP, ConvNet
from tepui.sharpness import worst_case
from tepui.sharpness.worst_case import (
    ascent,
    ellipsoid_projection,
    released_ascent,
    released_checkpoints,
)


def classified(samples=20, features=6, classes=3, dtype=torch.float64):
    stream = torch.Generator().manual_seed(1)
    x = torch.randn(samples, features, generator=stream, dtype=dtype)
    return Arrays(x, torch.randint(classes, (samples,), generator=stream))


def network(dtype=torch.float64):
    torch.manual_seed(0)
    return MLP(6, (8, 8), 3).to(dtype)


def test_a_quadratic_has_its_secular_maximum():
    model = random_quadratic(3, convex=True)
    w = model.weights.detach()
    scale, slope = w.abs(), model.hessian @ w + model.slope
    A, b = scale[:, None] * model.hessian * scale, scale * slope
    measured = worst_case(model, inputs_of(1.0, 1.0), loss=own_value, rho=0.4)
    assert measured.value == pytest.approx(largest_rise(A, b, 0.4), rel=0.01)
    plain = worst_case(model, inputs_of(1.0), loss=own_value, rho=0.4, adaptive=False)
    exact = largest_rise(model.hessian, slope, 0.4)
    assert plain.value == pytest.approx(exact, rel=0.01)


def test_the_value_is_the_mean_over_batches_and_the_error_theirs():
    model = random_quadratic(3, convex=True)
    measured = worst_case(
        model, inputs_of(1.0, 3.0), loss=own_value, rho=0.4, batch_size=1
    )
    single = worst_case(model, inputs_of(1.0), loss=own_value, rho=0.4).value
    assert measured.value == pytest.approx(2 * single)
    assert measured.standard_error == pytest.approx(single)


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_blind_to_a_rescaling_of_layers(norm):
    model, data = network(), classified()
    before = worst_case(model, data, rho=0.1, norm=norm).value
    with torch.no_grad():
        model.layers[1].weight *= 7
        model.layers[1].bias *= 7
        model.layers[3].weight /= 7
    after = worst_case(model, data, rho=0.1, norm=norm).value
    assert after == pytest.approx(before, rel=1e-6)
    plain = worst_case(model, data, rho=0.1, norm=norm, adaptive=False).value
    assert plain != pytest.approx(before, rel=0.1)


@pytest.mark.parametrize(("norm", "free"), [("linf", 2.0), ("l2", 2**0.5)])
def test_pruned_weights_stay_where_they_are(norm, free):
    """Only the second of two weights may move in the end; the loss is their sum."""
    model = nn.Linear(2, 1, bias=False).double()
    data = Arrays(torch.ones(1, 2).double(), torch.zeros(1))
    how = {"loss": lambda z, y: z[:, 0], "rho": 0.3, "norm": norm, "adaptive": False}
    assert worst_case(model, data, **how).value == pytest.approx(0.3 * free)
    model.register_buffer("weight_mask", torch.tensor([[False, True]]))
    assert worst_case(model, data, **how).value == pytest.approx(0.3)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_captured_batches_give_what_single_ones_give():
    torch.manual_seed(0)
    model = ConvNet(3, 1, 8).cuda()
    data = Arrays(torch.randn(40, 1, 8, 8), torch.arange(40) % 3).to("cuda")
    stream = torch.Generator().manual_seed(0)
    whole = worst_case(model, data, num_samples=40, generator=stream)
    rows = torch.randperm(40, generator=torch.Generator().manual_seed(0))
    single = [worst_case(model, data.subset(part)).value for part in rows.split(5)]
    assert whole.value == pytest.approx(sum(single) / 8, rel=1e-3)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("climb", [ascent, released_ascent])
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
def test_the_ascent_never_waits_for_the_device(norm, climb):
    scale = torch.rand(9, device="cuda")
    height = torch.randn(9, device="cuda")

    def slope(u):
        return height @ (scale * u), height

    torch.cuda.set_sync_debug_mode("error")
    try:
        measured = climb(slope, scale, rho=0.3, norm=norm)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert float(measured) > 0


seeds = st.integers(0, 10_000)
radii = st.floats(0.05, 2.0)


def slope_of(model, scale):
    """The quadratic around its weights, as a function of u."""
    start = model.weights.detach()

    def slope(u):
        w = start + scale * u
        value = 0.5 * w @ model.hessian @ w + model.slope @ w
        return value, model.hessian @ w + model.slope

    return slope


def around(model, scale):
    """Hessian and slope of the same function in u, at u = 0."""
    A = scale[:, None] * model.hessian * scale
    b = scale * (model.hessian @ model.weights.detach() + model.slope)
    return A, b


def naive_ascent(slope, scale, rho, norm, steps):
    """APGD from its description: plain numbers, decided on the host at every step."""
    points = sorted({math.ceil(p * steps / 100 - 1e-9) for p in percentages()})
    u = torch.zeros_like(scale)
    value, gradient = slope(u)
    start, best = float(value), (float(value), u.clone(), gradient.clone())
    step, last, gained, best_then, halved = 2 * rho, -1, 0, float(value), False
    for i in range(steps):
        way = scale * gradient
        if norm == "l2":
            goal = u + step * way / (float(way.norm()) + 1e-12)
            goal = goal * min(1.0, rho / (float(goal.norm()) + 1e-12))
        else:
            goal = (u + step * way.sign()).clamp(-rho, rho)
        u = goal if i == 0 else 0.75 * goal + 0.25 * u
        before = float(value)
        value, gradient = slope(u)
        gained += float(value) > before
        if float(value) > best[0]:
            best = (float(value), u.clone(), gradient.clone())
        if i in points:
            few = gained < 0.75 * (i - last)
            stuck = not halved and best[0] <= best_then
            halved = few or stuck
            if halved:
                step /= 2
                value, u, gradient = best
            gained, last, best_then = 0, i, best[0]
    return best[0] - start


def percentages():
    p, gap, measured = 22, 22, []
    while p <= 100:
        measured.append(p)
        gap = max(gap - 3, 6)
        p += gap
    return measured


@pytest.mark.parametrize(("convex", "steps"), [(True, 20), (False, 100)])
@pytest.mark.parametrize("adaptive", [True, False])
def test_within_one_percent_of_the_secular_equation(convex, steps, adaptive):
    for seed in range(40):
        rho = (0.05, 0.2, 0.5, 2.0)[seed % 4]
        model = random_quadratic(seed, convex=convex)
        scale = model.weights.detach().abs() if adaptive else torch.ones(6).double()
        exact = largest_rise(*around(model, scale), rho)
        measured = float(ascent(slope_of(model, scale), scale, rho=rho, steps=steps))
        assert 0.99 * exact <= measured <= exact * (1 + 1e-9), seed


@given(seeds, radii, st.sampled_from(["l2", "linf"]), st.integers(1, 40))
@settings(deadline=None, max_examples=60)
def test_equals_the_naive_loop(seed, rho, norm, steps):
    model = random_quadratic(seed)
    scale = model.weights.detach().abs()
    slope = slope_of(model, scale)
    measured = float(ascent(slope, scale, rho=rho, norm=norm, steps=steps))
    assert measured == pytest.approx(
        naive_ascent(slope, scale, rho, norm, steps), rel=1e-9, abs=1e-12
    )


def published_ascent(value_of, weights, rho, norm, steps, adaptive):
    """The published loop on the weights themselves, as one follows it line by line."""
    size = weights.abs() if adaptive else torch.ones_like(weights)

    def slope(delta):
        moved = (weights + delta).requires_grad_()
        value = value_of(moved)
        return float(value.detach()), torch.autograd.grad(value, moved)[0]

    def inside(delta):
        if norm == "linf":
            return torch.minimum(torch.maximum(delta, -rho * size), rho * size)
        if float((delta / size).norm()) <= rho:
            return delta
        low, high = 0.0, 1e6
        for _ in range(200):
            middle = (low + high) / 2
            near = delta / (1 + 2 * middle / size**2)
            low, high = (middle, high) if (near / size).norm() > rho else (low, middle)
        return delta / (1 + 2 * high / size**2)

    delta = before = torch.zeros_like(weights)
    start, _ = slope(delta)
    best, place, at_best = start, delta, delta
    step = kept = 2 * rho
    gains, last, best_then = 0, 0, start
    for number in range(steps):
        gradient = slope(place)[1]
        way = (
            gradient.sign() if norm == "linf" else gradient / (gradient.norm() + 1e-12)
        )
        goal = inside(delta + step * size * way)
        delta, before = 0.75 * goal + 0.25 * before, delta
        place = delta
        value = slope(place)[0]
        if value > best:
            best, at_best, gains = value, place, gains + 1
        if number in released_checkpoints(steps):
            few = gains < 0.75 * (number - last)
            stuck = kept == step and best_then == best
            kept, best_then, last, gains = step, best, number, 0
            if few or stuck:
                step, place = step / 2, at_best  # the weights, and not delta
    return best - start


@pytest.mark.slow
@given(seeds, radii, st.sampled_from(["l2", "linf"]), st.booleans())
@settings(deadline=None, max_examples=40)
def test_the_released_ascent_is_the_published_loop(seed, rho, norm, adaptive):
    model = random_quadratic(seed)
    weights = model.weights.detach()
    scale = weights.abs() if adaptive else torch.ones_like(weights)
    found = float(released_ascent(slope_of(model, scale), scale, rho=rho, norm=norm))

    def value_of(moved):
        return 0.5 * moved @ model.hessian @ moved + model.slope @ moved

    twin = published_ascent(value_of, weights, rho, norm, 20, adaptive)
    assert found == pytest.approx(twin, rel=1e-6, abs=1e-9)


@given(seeds, st.floats(0.01, 3.0))
@settings(deadline=None, max_examples=60)
def test_the_ellipsoid_projection_is_the_nearest_point(seed, rho):
    stream = torch.Generator().manual_seed(seed)
    u, *others = torch.randn(50, 5, generator=stream, dtype=torch.float64)
    scale = torch.rand(5, generator=stream, dtype=torch.float64)
    scale[seed % 5] = 0.0
    measured = ellipsoid_projection(u, scale, rho)
    assert float(measured.norm()) <= rho * (1 + 1e-9)
    assert float(measured[seed % 5]) == 0
    away = scale * (u - measured)
    for other in others:
        inside = other * min(1.0, rho / float(other.norm()))
        # No point of a convex set lies beyond the plane through the nearest one.
        assert float(away @ (scale * (inside - measured))) <= 1e-9


def test_a_step_into_nan_is_taken_back():
    """Beyond half the radius the function is not defined."""

    def slope(u):
        value = u.sum() / (u.norm() < 0.5)  # infinite or NaN outside
        return torch.where(u.norm() < 0.5, value, torch.nan), torch.ones_like(u)

    measured = float(ascent(slope, torch.ones(2), rho=1.0, steps=40))
    assert 0 < measured <= 0.5 * 2**0.5
