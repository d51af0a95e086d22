"""Measures, calibrators, corruptions and the theory against plain computations."""

import hashlib

import numpy as np
import pytest
import torch
from scipy.optimize import brentq, minimize, minimize_scalar
from scipy.special import log_softmax
from sklearn.covariance import ledoit_wolf
from sklearn.isotonic import IsotonicRegression
from sklearn.neighbors import NearestNeighbors

from exam import measures, twins
from exam.cases import images, run
from exam.names import public

DTYPES = {torch.float64: 1e-9, torch.float32: 3e-6}


def cross_entropy(outputs, labels):
    return torch.nn.functional.cross_entropy(outputs, labels, reduction="none")


@pytest.fixture(scope="module")
def answer_twins():
    logits, labels = (part.numpy() for part in measures.answers())
    found = {
        f"{name}, {rule}": value
        for rule in measures.RULES
        for name, value in twins.of_ensemble(logits, labels, rule).items()
    }
    found |= twins.of_members(logits, labels)
    found |= twins.of_scores(*(part.numpy() for part in measures.scores()))
    return found | twins.of_numbers(*(part.numpy() for part in measures.numbers()))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_measures_of_answers_are_their_twins(dtype, answer_twins):
    found = measures.of_answers(dtype)
    assert set(found) == set(answer_twins)
    assert len(found) > 30
    for name, value in found.items():
        close = pytest.approx(np.asarray(answer_twins[name]), abs=DTYPES[dtype])
        assert value.numpy() == close, name


def test_the_rule_matters_to_each_metric_that_has_one():
    found = measures.of_answers(torch.float64)
    for name in measures.BY_RULE:
        by_probability, by_logit = (found[f"{name}, {rule}"] for rule in measures.RULES)
        assert abs(by_probability - by_logit) > 1e-3, name


def test_measures_of_models_are_their_twins():
    model, data = measures.model_and_data()
    found = {name: each.value for name, each in measures.of_models().items()}
    exact = twins.of_models(model, data, cross_entropy)
    rises = twins.rises_of_models(model, data, cross_entropy)
    with torch.no_grad():
        fitted = type(data)(data.inputs, model(data.inputs))
    drawn = twins.drawn_of_models(model, fitted)
    drawn["input_curvature"] = twins.input_curvature(model, data, cross_entropy)
    assert set(found) == {*exact, *rises, *drawn}
    assert {name: found[name] for name in exact} == pytest.approx(exact, rel=1e-6)
    assert {name: found[name] for name in rises} == pytest.approx(rises, rel=1e-3)
    for name, (mean, error) in drawn.items():
        assert abs(found[name] - mean) < 4 * error < 0.3 * mean, name


def test_measures_of_samples_are_their_twins():
    model, data = measures.model_and_data()
    dense = twins.Dense(model, data, cross_entropy)
    slopes = dense.slopes()
    traces = public("sharpness.sample_fisher_trace")(model, data)
    assert traces.numpy() == pytest.approx(slopes.square().sum(1).numpy())
    mean = slopes.mean(0)
    moved = dense.losses(dense.here + 0.4 * mean / mean.norm())
    gaps = public("sharpness.sample_sam_gap")(model, data, rho=0.4)
    expected = (moved - dense.losses(dense.here)).detach().numpy()
    assert gaps.numpy() == pytest.approx(expected, abs=1e-6)


def loss_of(logits, labels, rule):
    """Return the mean loss of members joined by a rule, in logarithms."""
    each = log_softmax(logits.mean(0, keepdims=True) if rule == "logit" else logits, -1)
    own = each[:, np.arange(len(labels)), labels]
    return -np.mean(np.logaddexp.reduce(own, 0) - np.log(len(own)))


@pytest.mark.parametrize("rule", measures.RULES)
def test_temperature_has_the_least_loss(rule):
    logits, labels = measures.answers(seed=6)
    raw, true = 3 * logits.numpy(), labels.numpy()
    best = minimize_scalar(
        lambda log: loss_of(raw / np.exp(log), true, rule), bounds=(-4, 4)
    )
    fitted = public("metrics.TemperatureScaling").fit(3 * logits, labels, rule=rule)
    assert float(fitted.divisor) == pytest.approx(np.exp(best.x), rel=1e-3)
    assert fitted.apply(logits).numpy() == pytest.approx(
        logits.numpy() / np.exp(best.x), rel=1e-3
    )


@pytest.mark.parametrize("rule", measures.RULES)
def test_vector_scaling_has_the_least_loss(rule):
    logits, labels = measures.answers(seed=6)
    raw, true, samples = logits.numpy(), labels.numpy(), len(labels)
    scaling, temperature = (
        public(f"metrics.{name}").fit(logits, labels, rule=rule)
        for name in ("VectorScaling", "TemperatureScaling")
    )
    center = np.repeat([1 / float(temperature.divisor), 0], 3)

    def loss(at):
        pull = ((at - center) ** 2).sum() / (2 * samples)
        return loss_of(raw * at[:3] + at[3:], true, rule) + pull

    best = minimize(loss, center, method="BFGS", options={"gtol": 1e-8}).x
    found = np.concatenate([scaling.weight, scaling.bias])
    assert found == pytest.approx(best, abs=1e-3)
    assert np.ptp(best[:3]) > 0.05
    applied = scaling.apply(logits).numpy()
    assert applied == pytest.approx(raw * found[:3] + found[3:])


@pytest.mark.parametrize("rule", measures.RULES)
def test_isotonic_maps_are_those_of_scikit_learn(rule):
    (fitted_on, labels), (logits, _) = measures.answers(seed=6), measures.answers()
    isotonic = public("metrics.Isotonic").fit(fitted_on, labels, rule=rule)
    held, new = (twins.joint(part.numpy(), rule) for part in (fitted_on, logits))
    columns = [
        IsotonicRegression(out_of_bounds="clip")
        .fit(held[:, label], labels.numpy() == label)
        .predict(new[:, label])
        for label in range(3)
    ]
    kept = np.stack(columns, 1).clip(1 / (3 * len(labels)))
    expected = kept / kept.sum(1, keepdims=True)
    found = isotonic.apply(logits)[0].softmax(-1).numpy()
    assert found == pytest.approx(expected, abs=1e-9)


def misfit(probs, label, score):
    """Return how badly a class fits a sample of these probabilities."""
    if score == "threshold":
        return 1 - probs[label]
    return probs[probs > probs[label]].sum()


@pytest.mark.parametrize("score", ["threshold", "aps"])
@pytest.mark.parametrize("coverage", [0.6, 0.85])
def test_conformal_sets_hold_what_fits(score, coverage):
    (held, labels), (new, _) = measures.answers(seed=6), measures.answers()
    probs, others = (twins.joint(part.numpy(), "logit") for part in (held, new))
    scores = sorted(
        misfit(*pair, score) for pair in zip(probs, labels.numpy(), strict=True)
    )
    limit = scores[int(np.ceil((len(labels) + 1) * coverage)) - 1]
    expected = [[misfit(p, c, score) <= limit for c in range(3)] for p in others]
    fitted = public("metrics.ConformalSets").fit(
        torch.from_numpy(probs),
        labels,
        coverage=coverage,
        score=score,
    )
    assert fitted.sets(torch.from_numpy(others)).tolist() == expected
    assert 0.3 < np.mean(expected) < 0.95


@pytest.mark.parametrize("score", ["residual", "normalized", "quantile"])
def test_conformal_intervals_reach_as_far_as_promised(score):
    means, variances, targets, quantiles = measures.numbers()
    first, second = {
        "residual": (means[0], None),
        "normalized": (means[0], variances[0].sqrt()),
        "quantile": (quantiles[:, 0], quantiles[:, 2]),
    }[score]
    misses = {
        "residual": lambda: (targets - first).abs(),
        "normalized": lambda: (targets - first).abs() / second,
        "quantile": lambda: torch.maximum(first - targets, targets - second),
    }[score]()
    reach = misses.sort().values[int(np.ceil(41 * 0.7)) - 1]
    reach = reach * second if score == "normalized" else reach
    fitted = public("metrics.ConformalIntervals").fit(
        first, second, targets, coverage=0.7, score=score
    )
    low, high = (
        fitted.interval(first) if second is None else fitted.interval(first, second)
    )
    assert low.numpy() == pytest.approx((first - reach).numpy())
    far = (second if score == "quantile" else first) + reach
    assert high.numpy() == pytest.approx(far.numpy())


def features(samples, seed):
    stream = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (samples,), generator=stream)
    draws = torch.randn(samples, 5, generator=stream, dtype=torch.float64)
    mixed = draws @ torch.randn(5, 5, generator=stream, dtype=torch.float64)
    return mixed + 2 * torch.eye(5, dtype=torch.float64)[labels], labels


def test_mahalanobis_takes_the_covariance_of_ledoit_and_wolf():
    (train, labels), (new, _) = features(90, 0), features(40, 1)
    rows, groups = train.numpy(), labels.numpy()
    means = np.stack([rows[groups == label].mean(0) for label in range(3)])
    spread, share = ledoit_wolf(rows - means[groups], assume_centered=True)
    assert 0.01 < share < 0.99
    inverse = np.linalg.inv(spread)
    away = new.numpy()[:, None] - means
    expected = np.einsum("ncf,fg,ncg->nc", away, inverse, away).min(1)
    fitted = public("metrics.Mahalanobis").fit(train, labels)
    assert fitted.score(new).numpy() == pytest.approx(expected)


def test_the_neighbor_is_that_of_scikit_learn():
    train, new = features(90, 0)[0], features(40, 1)[0]
    unit, others = (
        p.numpy() / np.linalg.norm(p, axis=1)[:, None] for p in (train, new)
    )
    distances, _ = NearestNeighbors(n_neighbors=7).fit(unit).kneighbors(others)
    fitted = public("metrics.NearestNeighbor").fit(train, k=7)
    assert fitted.score(new).numpy() == pytest.approx(distances[:, 6])


# Of these only arithmetic comes whose every step is rounded as IEEE 754 says, or whole
# numbers: they are the same bytes on any machine.
CORRUPTED = {
    (
        "impulse_noise",
        2,
    ): "c6705344f80cb27df4445d4d20c4ad66bc891056c6af97c70172849bc987643e",
    (
        "jpeg_compression",
        4,
    ): "3c3b5cb64b85748ab36314b67452bf085cd9b582ec1de9c958f59da494e389f0",
    (
        "brightness",
        3,
    ): "ea07a118d6e8d8cf1652217171981c755febea9e1772be7ba2c7911e8953342d",
    ("saturate", 5): "8c888edadd98bcf977706c8cc485d1faae185b4d7d5d078345b6a812f2173489",
}


@pytest.mark.parametrize(("name", "severity"), CORRUPTED, ids=str)
def test_corruptions_of_whole_numbers_are_these_bytes(name, severity):
    pixels = images(12, size=12).inputs
    found = public("data.corrupt")(pixels, name, severity, seed=9)
    assert found.dtype == torch.uint8
    assert found.shape == pixels.shape
    digest = hashlib.sha256(found.contiguous().numpy().tobytes()).hexdigest()
    assert digest == CORRUPTED[name, severity]


GRID = {"n": 600, "d": 60, "subsets": 3, "matrices": 12, "seed": 4}


def simulated(k, eta, rho, subsets, rho0=0.01, sigma2=0.1, repetitions=12):
    """Return diversity and sharpness of SAM on quadratics, with their errors."""
    n, d, stream = GRID["n"], GRID["d"], np.random.default_rng(0)
    found = []
    for _ in range(repetitions):
        rows = stream.normal(size=(n, d)) / np.sqrt(d)
        teacher = stream.normal(size=d)
        teacher *= np.sqrt(sigma2 * d) / np.linalg.norm(teacher)
        steps = []
        for block in np.split(rows, subsets):
            hessian = block.T @ block
            once = np.eye(d) - eta * hessian @ (np.eye(d) + rho * hessian)
            steps.append(np.linalg.matrix_power(once, k))
        away = np.stack([step @ teacher for step in steps])
        spread = sigma2 * np.mean([np.trace(step @ step) for step in steps])
        apart = ((away - away.mean(0)) ** 2).sum(1).mean()
        whole = rows.T @ rows
        values, axes = np.linalg.eigh(whole)
        slope = axes.T @ (whole @ -away.mean(0))

        def beyond(nu, slope=slope, values=values):
            return ((slope / (nu - values)) ** 2).sum() - rho0**2

        top = values[-1]
        nu = brentq(beyond, top * (1 + 1e-12) + 1e-9, top + 1e6)
        move = slope / (nu - values)
        rise = slope @ move + 0.5 * (values * move**2).sum()
        found.append(((spread + apart) / d, rise))
    error = np.std(found, axis=0, ddof=1) / np.sqrt(repetitions)
    return np.mean(found, axis=0), error


def test_theory_simulation_and_a_simulation_of_our_own_agree(capsys):
    found = public("theory.agreement")(**GRID)
    assert len(found) == 6
    points = 13, 22, 31
    assert all(each.deviation.max() < 4 for each in found)
    for number, subsets in (1, 1), (2, 3):
        own = [each for each in found if str(number) in each.quantity]
        diverse = next(each for each in own if each.quantity.startswith("diversity"))
        sharp = [each for each in own if each.quantity.startswith("sharpness")]
        for point in points:
            at = diverse.k[point], diverse.eta[point], diverse.rho[point]
            means, errors = simulated(*at, subsets)
            for mean, error, each in zip(
                means, errors, (diverse, sharp[0]), strict=True
            ):
                far = np.hypot(error, each.error[point])
                assert abs(mean - each.simulated[point]) < 4 * far
            assert abs(means[0] - diverse.theory[point]) < 4 * errors[0]
            for bound in sharp:
                sign = 1 if bound.relation == "upper bound" else -1
                assert sign * (bound.theory[point] - means[1]) > -4 * errors[1]
    words = [word for name, value in GRID.items() for word in (f"--{name}", value)]
    done = run(capsys, "theory", "check", *words)
    assert done.status == 0
    shown = " ".join(done.out.split())
    for each in found:
        assert f"{each.deviation.max():.2f}" in shown
