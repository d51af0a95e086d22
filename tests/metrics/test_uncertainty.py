"""Scores per sample against loops, an example worked by hand, and limits."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from torch import Tensor

from strategies import close, ensembles, modest, probs_naive
from tepui.metrics import (
    energy,
    entropy,
    max_logit,
    max_mean_probability,
    mutual_information,
    ood_scores,
    pds,
    predictive_variance,
    probability_variance,
)
from tepui.metrics.chunks import Chunk


def entropy_naive(probs: list[float]) -> float:
    return -sum(p * math.log(p) for p in probs if p > 0)


def mean_naive(rows: list[list[float]]) -> list[float]:
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]


def bma_naive(rows):
    return max(mean_naive(rows))


def pds_naive(rows):
    return sum(max(column) for column in zip(*rows, strict=True)) / len(rows[0])


def ensemble_entropy_naive(rows):
    return entropy_naive(mean_naive(rows))


def mutual_information_naive(rows):
    mean_of_entropies = sum(entropy_naive(row) for row in rows) / len(rows)
    return max(0.0, entropy_naive(mean_naive(rows)) - mean_of_entropies)


def predictive_variance_naive(rows):
    if len(rows) == 1:
        return 0.0
    mean = mean_naive(rows)
    squares = [(p - q) ** 2 for row in rows for p, q in zip(row, mean, strict=True)]
    return sum(squares) / (len(rows) - 1)


TWINS = {
    max_mean_probability: bma_naive,
    pds: pds_naive,
    entropy: ensemble_entropy_naive,
    mutual_information: mutual_information_naive,
    predictive_variance: predictive_variance_naive,
}


def samples_of(logits: Tensor) -> list[list[list[float]]]:
    return [list(rows) for rows in zip(*probs_naive(logits), strict=True)]


@pytest.mark.parametrize("score", TWINS, ids=lambda score: score.__name__)
@modest
@given(logits=ensembles())
def test_matches_naive(score, logits):
    close(score(logits), [TWINS[score](rows) for rows in samples_of(logits)])


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        (max_mean_probability, 1 / 2),
        (pds, 3 / 4),
        (entropy, math.log(2)),
        (
            mutual_information,
            math.log(2) + math.log(1 / 4) / 4 + 3 * math.log(3 / 4) / 4,
        ),
        (predictive_variance, 1 / 4),
    ],
)
def test_example_by_hand(score, expected):
    probs = torch.tensor([[[0.75, 0.25]], [[0.25, 0.75]]], dtype=torch.float64)
    close(score(probs.log()), [expected])


@modest
@given(logits=ensembles())
def test_scores_stay_in_their_ranges(logits):
    members, _, classes = logits.shape
    fewer = min(members, classes)
    bounds = {
        max_mean_probability: (1 / classes, 1.0),
        pds: (1 / classes, fewer / classes),
        entropy: (0.0, math.log(classes)),
        mutual_information: (0.0, math.log(fewer)),
        predictive_variance: (0.0, 1.0),
    }
    for score, (low, high) in bounds.items():
        values = score(logits)
        assert values.min() >= low - 1e-12, score.__name__
        assert values.max() <= high + 1e-12, score.__name__


def test_all_but_bma_are_higher_where_sure_members_differ():
    agree, differ = [9.0, 0.0, 0.0], [0.0, 9.0, 0.0]
    logits = torch.tensor([[agree, agree], [agree, differ]])
    for score in (pds, entropy, mutual_information, predictive_variance):
        assert score(logits)[1] > 1.3 * score(logits)[0], score.__name__
    assert max_mean_probability(logits)[1] < max_mean_probability(logits)[0]


@modest
@given(logits=ensembles())
def test_one_member_tells_nothing_apart_by_diversity(logits):
    one, samples = logits[:1], logits.shape[1]
    close(pds(one), [1 / logits.shape[2]] * samples)
    close(mutual_information(one), [0.0] * samples)
    assert predictive_variance(one).tolist() == [0.0] * samples


def test_mutual_information_of_equal_float32_members_is_not_negative():
    member = torch.randn(1, 500, 30, generator=torch.Generator().manual_seed(0))
    values = mutual_information(member.expand(7, -1, -1))
    assert values.min() >= 0
    assert values.max() < 1e-5


@modest
@given(logits=ensembles(min_members=2))
def test_predictive_variance_averages_to_the_variance_of_probs(logits):
    close(predictive_variance(logits).mean(), probability_variance(logits))


def test_saturated_members_have_finite_entropy():
    logits = torch.tensor([[[1e4, 0.0]], [[1e4, 0.0]]])
    assert entropy(logits).item() == 0
    assert mutual_information(logits).item() == 0


@modest
@given(logits=ensembles())
def test_energy_and_max_logit_match_naive(logits):
    columns = list(zip(*logits.tolist(), strict=True))
    energies = [
        -sum(math.log(sum(map(math.exp, row))) for row in rows) / len(rows)
        for rows in columns
    ]
    close(energy(logits), energies)
    close(max_logit(logits), [sum(map(max, rows)) / len(rows) for rows in columns])


def test_energy_of_large_logits_is_finite():
    assert energy(torch.tensor([[[1e4, 1e4]]])).item() == pytest.approx(
        -1e4 - math.log(2)
    )


@modest
@given(logits=ensembles())
def test_ood_scores_are_the_functions_turned_to_unfamiliar(logits):
    actual = ood_scores(logits)
    assert list(actual) == [
        *(
            "max_mean_probability",
            "pds",
            "entropy",
            "mutual_information",
            "energy",
            "max_logit",
        ),
        "predictive_variance",
    ]
    doubt = 1 - max_mean_probability(logits)
    torch.testing.assert_close(actual["max_mean_probability"].exp(), doubt)
    assert torch.equal(actual["max_logit"], -max_logit(logits))
    assert torch.equal(actual["predictive_variance"], predictive_variance(logits))
    for score in (pds, entropy, mutual_information, energy):
        assert torch.equal(actual[score.__name__], score(logits))


def test_ood_scores_need_known_names():
    with pytest.raises(
        ValueError, match=r"scores must be one of max_mean.*did you mean 'pds'"
    ):
        ood_scores(torch.zeros(1, 1, 2), ["pdss"])
    with pytest.raises(ValueError, match="scores must hold at least one name"):
        ood_scores(torch.zeros(1, 1, 2), [])


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


def test_the_score_of_easy_samples_is_what_exact_arithmetic_gives():
    logits = doubts(15, 80, 20)
    exact = []
    for sample in logits.unbind(1):
        rows = [
            [Fraction(math.exp(x - max(row))) for x in row] for row in sample.tolist()
        ]
        shares = [1 - row[0] / sum(row) for row in rows]
        exact.append(math.log(sum(shares) / len(shares)))
    found = ood_scores(logits.float(), ["max_mean_probability"])
    torch.testing.assert_close(
        found["max_mean_probability"].double(),
        torch.tensor(exact, dtype=torch.float64),
        rtol=1e-5,
        atol=1e-5,
    )


@pytest.mark.parametrize("score", [entropy, mutual_information])
def test_small_entropies_keep_their_digits_in_float32(score):
    logits = doubts(12, 60, 100)
    reference = score(logits.float().double())
    found = score(logits.float()).double()
    assert (reference.diff() < 0).all()
    torch.testing.assert_close(found, reference, rtol=3e-4, atol=0)
    assert (found.diff() < 0).all()
