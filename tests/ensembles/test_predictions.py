"""What each task's prediction has, against definitions, and what it refuses."""

import math
from dataclasses import replace

import pytest
import torch

import tepui
from strategies import close
from tepui import tasks
from tepui.data import Normalize
from tepui.metrics import ConformalIntervals, HeldOutScores
from tepui.tasks import (
    ClassPrediction,
    GaussianPrediction,
    LabelPrediction,
    NumberPrediction,
    OutputPrediction,
    Prediction,
    QuantilePrediction,
    TaskLacksError,
)
from tepui.tasks.prediction import FIELDS

GENERATOR = torch.Generator().manual_seed(0)
LEVELS = (0.1, 0.5, 0.9)


def drawn(*shape):
    return torch.randn(*shape, generator=GENERATOR, dtype=torch.float64)


PREDICTIONS = {
    "classification": ClassPrediction(drawn(3, 5, 4)),
    "multi_label": LabelPrediction(drawn(3, 5, 4)),
    "regression": NumberPrediction(drawn(3, 5, 2)),
    "gaussian": GaussianPrediction(drawn(3, 5, 4)),
    "quantiles": QuantilePrediction(drawn(3, 5, 6), task=tasks.Quantiles(LEVELS)),
    "unknown": OutputPrediction(drawn(3, 5, 4)),
}
by_task = pytest.mark.parametrize("name", PREDICTIONS)


@by_task
def test_a_prediction_has_what_it_says_and_refuses_the_rest_in_words(name):
    out = PREDICTIONS[name]
    assert isinstance(out, Prediction)
    assert len(out) == 5
    for field in out.fields:
        assert getattr(out, field) is not None
    for field in {*FIELDS} - {*out.fields}:
        said = rf"has no {field}.*it has {out.fields[0]}"
        with pytest.raises(TaskLacksError, match=said):
            getattr(out, field)
        assert not hasattr(out, field)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        out.nothing  # noqa: B018 - to ask is to fail


@by_task
def test_printing_sums_it_up_in_a_few_lines(name):
    text = str(PREDICTIONS[name])
    assert text.startswith("5 samples, predicted by 3 members")
    assert len(text.splitlines()) < 8
    assert "tensor" not in text
    assert repr(PREDICTIONS[name]).endswith("(5 samples, 3 members)")


def test_uncertainty_of_classes_is_what_its_definition_says():
    out = PREDICTIONS["classification"]
    probs = out.outputs.softmax(-1)
    total = torch.special.entr(probs.mean(0)).sum(-1)
    alone = torch.special.entr(probs).sum(-1).mean(0)
    close(out.total_uncertainty, total)
    close(out.aleatoric, alone, atol=1e-7)
    close(out.epistemic, total - alone, atol=1e-7)


def test_labels_are_choices_of_their_own():
    out = PREDICTIONS["multi_label"]
    probs = out.outputs.sigmoid()
    mean = probs.mean(0)
    close(out.probs, mean)
    assert torch.equal(out.labels, (mean > 0.5).long())
    close(out.confidence, torch.maximum(mean, 1 - mean))
    entropy = torch.special.entr(mean) + torch.special.entr(1 - mean)
    alone = (torch.special.entr(probs) + torch.special.entr(1 - probs)).mean(0)
    close(out.total_uncertainty, entropy)
    close(out.epistemic, entropy - alone, atol=1e-7)
    close(out.ood_score("entropy"), entropy.mean(1))


def test_one_logit_is_a_yes_or_no_and_not_a_certainty():
    out = LabelPrediction(torch.tensor([[[2.0], [-3.0]]]))
    torch.testing.assert_close(out.probs[:, 0], torch.tensor([2.0, -3.0]).sigmoid())
    assert out.labels.tolist() == [[1], [0]]


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        ((), ["yes", "no"]),
        (("ham", "spam"), ["spam", "ham"]),
        (("spam",), ["spam", ""]),
    ],
)
def test_a_yes_or_no_is_said_by_the_name_of_the_answer(classes, said):
    outputs = torch.tensor([[[2.0], [-3.0]]])
    assert LabelPrediction(outputs, classes=classes).label_names == said


def test_numbers_have_the_variance_of_their_members_and_no_interval():
    out = PREDICTIONS["regression"]
    close(out.mean, out.outputs.mean(0))
    close(out.std, out.outputs.std(0, unbiased=False))
    for field in ("interval", "aleatoric"):
        with pytest.raises(AttributeError, match="it has mean, std"):
            getattr(out, field)


def test_variance_of_a_mixture_is_noise_and_disagreement():
    out = PREDICTIONS["gaussian"]
    means, variances = out.outputs[..., :2], out.outputs[..., 2:].exp()
    second = (variances + means.square()).mean(0)
    close(out.total_uncertainty, second - out.mean.square(), atol=1e-9)
    close(out.aleatoric + out.epistemic, out.total_uncertainty)
    close(out.std.square(), out.total_uncertainty)


@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.99])
def test_the_interval_holds_its_share_of_the_mixture(coverage):
    out = PREDICTIONS["gaussian"]
    lower, upper = out.interval(coverage)
    normal = torch.distributions.Normal(
        out.outputs[..., :2], out.outputs[..., 2:].exp().sqrt()
    )
    inside = (normal.cdf(upper) - normal.cdf(lower)).mean(0)
    close(inside, torch.full_like(inside, coverage), atol=1e-6)


def test_one_extreme_sample_leaves_the_others_their_intervals():
    sane = torch.tensor([[[1.0, 0.0]], [[2.0, -1.0]]])
    extreme = [[0.0, 500.0], [0.0, math.inf], [math.inf, 0.0]]
    rows = torch.tensor(extreme).expand(2, 3, 2)
    out = GaussianPrediction(torch.cat([sane, rows], 1))
    lower, upper = (bound[:, 0] for bound in out.interval())
    alone = GaussianPrediction(sane).interval()
    assert (lower[0], upper[0]) == alone
    assert (lower[1:3] < -1e17).all()
    assert (upper[1:3] > 1e17).all()
    assert torch.isfinite(out.std[:3]).all()
    assert lower[3:].isnan().all()
    assert upper[3:].isnan().all()


def test_quantiles_are_averaged_level_by_level_and_never_cross():
    outputs = torch.tensor([[[1.0, 5.0, 3.0]], [[3.0, 7.0, 5.0]]])
    out = QuantilePrediction(outputs, task=tasks.Quantiles(LEVELS))
    assert out.quantiles[:, 0, 0].tolist() == [2.0, 4.0, 6.0]
    assert out.median.item() == 4.0
    lower, upper = out.interval(0.8)
    assert (lower.item(), upper.item()) == (2.0, 6.0)
    lower, upper = out.interval(0.4)
    assert (lower.item(), upper.item()) == pytest.approx((3.0, 5.0))
    with pytest.raises(ValueError, match=r"coverage must be at most 0\.8"):
        out.interval(0.9)


def test_pixels_are_samples_of_their_own():
    logits = drawn(3, 2, 4, 5, 6)
    out = ClassPrediction(logits)
    one = ClassPrediction(logits[:, :, :, 2, 3])
    close(out.probs[:, :, 2, 3], one.probs)
    assert torch.equal(out.labels[:, 2, 3], one.labels)
    close(out.confidence[:, 2, 3], one.confidence)
    close(out.epistemic[:, 2, 3], one.epistemic)
    assert out.ood_score().shape == (2,)
    labels = LabelPrediction(logits)
    close(labels.probs, logits.sigmoid().mean(0))


def test_an_unknown_meaning_is_admitted():
    out = PREDICTIONS["unknown"]
    close(out.mean, out.outputs.mean(0))
    close(out.spread, out.outputs.std(0, unbiased=False))
    with pytest.raises(AttributeError, match="it has mean, spread"):
        out.probs  # noqa: B018 - to ask is to fail
    assert "(unknown)" in str(out)


def test_who_names_no_task_may_only_choose_between_classes():
    several = tepui.Ensemble.build(lambda: torch.nn.Linear(4, 3), members=2)
    assert isinstance(several.predict(torch.zeros(5, 4)), ClassPrediction)
    single = tepui.Ensemble.build(lambda: torch.nn.Linear(4, 1), members=2)
    with pytest.raises(ValueError, match="ensemble must name its task"):
        single.predict(torch.zeros(5, 4))
    single.task = tasks.Labels()
    assert single.predict(torch.zeros(5, 4)).probs.shape == (5, 1)
    with pytest.raises(ValueError, match=r"task must be a tepui\.Task"):
        single.task = "regression"


def test_outputs_that_are_nan_are_refused():
    outputs = torch.zeros(2, 3, 1)
    outputs[1, 2] = math.nan
    with pytest.raises(ValueError, match=r"must not be NaN.*member 1, sample 2"):
        NumberPrediction(outputs)


UNITS = Normalize((2e5,), (5e4,))
OF_NUMBERS = {
    "regression": (drawn(3, 5, 1), None),
    "gaussian": (drawn(3, 5, 2), None),
    "quantiles": (drawn(3, 5, 3), LEVELS),
}


def number_prediction(name, **known):
    outputs, levels = OF_NUMBERS[name]
    task = PREDICTIONS[name].task if levels is None else tasks.Quantiles(levels)
    return task.prediction(outputs, units=UNITS, **known)


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_answers_in_units_are_those_of_the_table(name):
    own = number_prediction(name)
    out = replace(own, units=None)
    points = ["median", "quantiles"] if name == "quantiles" else ["mean"]
    variances = ["epistemic"]
    variances += ["aleatoric", "total_uncertainty"] if name == "gaussian" else []
    for field in points:
        close(getattr(own, field), getattr(out, field).double() * 5e4 + 2e5)
    for field in variances:
        close(getattr(own, field), getattr(out, field).double() * 5e4**2)
    if name != "quantiles":
        close(own.std, out.std.double() * 5e4)
    if name != "regression":
        for bound, seen in zip(own.interval(0.8), out.interval(0.8), strict=True):
            close(bound, seen.double() * 5e4 + 2e5)
    assert torch.equal(own.outputs, out.outputs)
    assert f"  {points[0]}  " in str(own)


@pytest.mark.parametrize("score", ["residual", "normalized", "quantile"])
def test_conformal_intervals_in_units_are_those_of_the_table(score):
    conformity = ConformalIntervals(torch.tensor([0.7]), 0.8, score)
    own = number_prediction("gaussian", conformity=conformity)
    out = replace(own, units=None)
    for bound, seen in zip(own.conformal_interval, out.conformal_interval, strict=True):
        close(bound, seen.double() * 5e4 + 2e5)
    truth = torch.linspace(-2, 2, 5)
    assert own.held(truth).held == out.held(truth).held
    assert own.held(truth).size == pytest.approx(5e4 * out.held(truth).size)


def test_units_change_nothing_of_what_looks_unfamiliar():
    held = HeldOutScores.fit({"epistemic": torch.linspace(0, 2, 50)})
    out = number_prediction("regression", held_out_scores=held)
    seen = replace(out, units=None)
    assert torch.equal(out.unfamiliarity(), seen.unfamiliarity())
    assert 0 < float(out.unfamiliarity().mean()) < 1
