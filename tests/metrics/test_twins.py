"""Metrics of logits against their definitions in numpy, and where rounding shows."""

import inspect
import math
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.special import entr, log_softmax, logsumexp, softmax
from torch import Tensor

from strategies import RULES, close, ensembles, labeled_ensembles, modest
from tepui import metrics
from tepui.metrics import (
    der,
    disagreement,
    eir,
    logit_variance,
    max_mean_probability,
    mean_kl,
    mutual_information,
    ood_scores,
    pairwise_kl,
    pds,
    predictive_variance,
    probability_variance,
    unique_predictions,
)
from tepui.metrics.chunks import Chunk


class Twin:
    """Logits and labels as arrays, and what the definitions need of them."""

    def __init__(self, logits: Tensor, labels: Tensor) -> None:
        self.logits, self.labels = logits.numpy(), labels.numpy()
        self.probs, self.logs = softmax(self.logits, -1), log_softmax(self.logits, -1)
        self.mean, self.chosen = self.probs.mean(0), self.logits.argmax(-1)
        self.wrong = self.chosen != self.labels
        self.pairs = ~np.eye(len(self.logits), dtype=bool)

    def joint(self, rule: str) -> np.ndarray:
        if rule == "vote":
            return np.eye(self.mean.shape[1])[self.chosen].mean(0)
        return self.mean if rule == "probability" else softmax(self.logits.mean(0), -1)

    def top(self, rule: str) -> np.ndarray:
        """What the ensemble predicts; a tied vote goes to the more probable class."""
        joint = self.joint(rule)
        if rule == "vote":
            joint = np.where(joint == joint.max(-1, keepdims=True), self.mean, -1.0)
        first, second = np.sort(joint, -1)[:, :-3:-1].T
        assume((first - second > 1e-6).all())
        return joint.argmax(-1)

    def of_label(self, values: np.ndarray) -> np.ndarray:
        return values[..., np.arange(len(self.labels)), self.labels]

    def differ(self) -> np.ndarray:
        return (self.chosen[:, None] != self.chosen).mean(-1)

    def divergences(self) -> np.ndarray:
        ratios = self.logs[:, None] - self.logs
        return (self.probs[:, None] * ratios).sum(-1).mean(-1)

    def error(self) -> float:
        assume(self.wrong.any())
        return self.wrong.mean()


def spread(values: np.ndarray) -> np.ndarray:
    return values.var(0, ddof=1).sum(-1)


def logarithms(values: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(values)


TWINS = {
    "accuracy": lambda t, rule: (t.top(rule) == t.labels).mean(),
    "brier": lambda t, rule: (
        ((t.joint(rule) - np.eye(t.mean.shape[1])[t.labels]) ** 2).sum(-1).mean()
    ),
    "der": lambda t, _: t.differ()[t.pairs].mean() / t.error(),
    "disagreement": lambda t, _: t.differ()[t.pairs].mean(),
    "eir": lambda t, rule: 1 - (t.top(rule) != t.labels).mean() / t.error(),
    "energy": lambda t, _: -logsumexp(t.logits, -1).mean(0),
    "ensemble_log_probs": lambda t, rule: logarithms(t.joint(rule)),
    "ensemble_predictions": lambda t, rule: t.top(rule),
    "ensemble_probs": lambda t, rule: t.joint(rule),
    "entropy": lambda t, _: entr(t.mean).sum(-1),
    "individual_accuracy": lambda t, _: 1 - t.wrong.mean(-1),
    "individual_nll": lambda t, _: -t.of_label(t.logs).mean(-1),
    "logit_variance": lambda t, _: spread(t.logits).mean(),
    "max_logit": lambda t, _: t.logits.max(-1).mean(0),
    "max_mean_probability": lambda t, _: t.mean.max(-1),
    "mean_kl": lambda t, _: t.divergences()[t.pairs].mean(),
    "mutual_information": lambda t, _: (
        entr(t.mean).sum(-1) - entr(t.probs).sum(-1).mean(0)
    ),
    "nll": lambda t, rule: -t.of_label(logarithms(t.joint(rule))).mean(),
    "pairwise_disagreement": lambda t, _: t.differ(),
    "pairwise_kl": lambda t, _: t.divergences(),
    "pds": lambda t, _: t.probs.max(0).mean(-1),
    "predictions": lambda t, _: t.chosen,
    "predictive_variance": lambda t, _: spread(t.probs),
    "probability_variance": lambda t, _: spread(t.probs).mean(),
    "unique_predictions": lambda t, _: np.mean(
        [len({*column}) for column in t.chosen.T.tolist()]
    ),
}


@pytest.mark.parametrize("name", TWINS)
@modest
@given(case=labeled_ensembles(min_members=2), rule=st.sampled_from(RULES))
def test_equals_its_definition(name, case, rule):
    metric = getattr(metrics, name)
    takes = inspect.signature(metric).parameters
    data = case if "labels" in takes else case[:1]
    options = {"rule": rule} if "rule" in takes else {}
    close(metric(*data, **options).double(), TWINS[name](Twin(*case), rule))


@modest
@given(case=labeled_ensembles(), copies=st.integers(2, 6))
def test_identical_members_have_no_diversity(case, copies):
    logits, labels = case[0][:1].expand(copies, -1, -1), case[1]
    assert disagreement(logits) == 0
    assert logit_variance(logits) == 0
    assert probability_variance(logits) == 0
    assert mean_kl(logits) == 0
    assert unique_predictions(logits) == 1
    assume(Twin(logits, labels).wrong.any())
    assert der(logits, labels) == 0
    assert all(eir(logits, labels, rule=rule) == 0 for rule in RULES)


def test_variance_of_large_float32_logits_does_not_cancel():
    small = torch.randn(4, 20, 10, generator=torch.Generator().manual_seed(0))
    logits = (2.0**13 + small).round(decimals=2)
    assert logit_variance(logits) == pytest.approx(
        logit_variance(logits.double()).item(), rel=1e-5
    )


def test_kl_of_nearly_equal_float32_members_is_not_negative():
    first = torch.randn(1, 50, 100, generator=torch.Generator().manual_seed(0))
    matrix = pairwise_kl(torch.cat([first, first + 1e-7, first - 1e-7]))
    assert matrix.min() >= 0


@pytest.mark.parametrize("metric", [der, eir])
def test_without_errors_the_ratio_is_nan_and_says_so(metric):
    logits = torch.tensor([[[1.0, 0.0]], [[1.0, 0.0]]])
    with pytest.warns(UserWarning, match=f"{metric.__name__} is NaN: no member") as log:
        assert math.isnan(metric(logits, torch.tensor([0])))
    assert log[0].filename == __file__


@modest
@given(logits=ensembles())
def test_one_member_tells_nothing_apart_by_diversity(logits):
    one, samples = logits[:1], logits.shape[1]
    close(pds(one), [1 / logits.shape[2]] * samples)
    close(mutual_information(one), [0.0] * samples)
    assert predictive_variance(one).tolist() == [0.0] * samples


@modest
@given(logits=ensembles())
def test_ood_scores_are_the_functions_turned_to_unfamiliar(logits):
    actual = ood_scores(logits)
    assert [*actual] == [*get_args(metrics.Score)]
    doubt = 1 - max_mean_probability(logits)
    torch.testing.assert_close(actual["max_mean_probability"].exp(), doubt)
    assert torch.equal(actual["max_logit"], -metrics.max_logit(logits))
    assert torch.equal(actual["predictive_variance"], predictive_variance(logits))
    for name in ("pds", "entropy", "mutual_information", "energy"):
        assert torch.equal(actual[name], getattr(metrics, name)(logits))


def doubts(low: float, high: float, count: int, members: int = 3) -> Tensor:
    """Float64 logits of samples that are ever surer, all of class 0."""
    heights = torch.linspace(low, high, count, dtype=torch.float64)
    logits = torch.zeros(members, count, 5, dtype=torch.float64)
    logits[:, :, 0] = heights * torch.linspace(1, 1.1, members).view(-1, 1)
    return logits


@pytest.mark.parametrize("rule", ["probability", "logit"])
@pytest.mark.parametrize(("low", "high"), [(10, 40), (60, 300), (1e3, 1e5)])
def test_easy_samples_keep_their_order_in_float32(rule, low, high):
    logits = doubts(low, high, 200)
    rounded = logits.float()
    doubt = Chunk(rounded).log_doubt(rule)
    assert (doubt.diff() < 0).all()
    torch.testing.assert_close(
        doubt, Chunk(logits).log_doubt(rule).float(), rtol=1e-5, atol=1e-4
    )
    if high < 1e3 and rule == "probability":
        assert max_mean_probability(rounded)[len(rounded) // 2 :].eq(1).any()
