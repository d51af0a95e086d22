"""The decomposition of the Brier score against its definition."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strategies import RULES, close, labeled_ensembles, modest
from tepui.metrics import brier, brier_decomposition, ensemble_probs


def decomposition_naive(probs: list[list[float]], labels: list[int], bins: int):
    edges = torch.linspace(0, 1, bins + 1, dtype=torch.float64).tolist()
    samples = len(labels)
    reliability = resolution = uncertainty = 0.0
    for c in range(len(probs[0])):
        share = labels.count(c) / samples
        uncertainty += share * (1 - share)
        for b in range(bins):
            inside = [
                n
                for n in range(samples)
                if max(i for i in range(bins) if edges[i] <= probs[n][c]) == b
            ]
            if inside:
                mean = sum(probs[n][c] for n in inside) / len(inside)
                hit = sum(labels[n] == c for n in inside) / len(inside)
                reliability += len(inside) / samples * (mean - hit) ** 2
                resolution += len(inside) / samples * (hit - share) ** 2
    return reliability, resolution, uncertainty


@pytest.mark.parametrize("rule", RULES)
@modest
@given(case=labeled_ensembles(), bins=st.integers(1, 20))
def test_parts_match_naive_and_add_up(rule, case, bins):
    logits, labels = case
    parts = brier_decomposition(logits, labels, num_bins=bins, rule=rule)
    probs = ensemble_probs(logits, rule=rule).tolist()
    expected = decomposition_naive(probs, labels.tolist(), bins)
    close(torch.stack(parts[:3]), expected)
    total = parts.reliability - parts.resolution + parts.uncertainty + parts.within
    close(total, brier(logits, labels, rule=rule).item())


def test_equal_probabilities_in_each_bin_leave_nothing_within():
    probs = torch.tensor([[0.7, 0.2, 0.1]] * 5 + [[0.1, 0.3, 0.6]] * 5).double()
    labels = torch.tensor([0, 0, 0, 1, 2, 2, 2, 1, 0, 2])
    parts = brier_decomposition(probs.log()[None], labels, num_bins=20)
    close(parts.within, 0.0)
    assert parts.resolution > 0


def test_a_calibrated_forecast_is_reliable_and_a_constant_one_resolves_nothing():
    logits = torch.tensor([0.75, 0.25]).double().log().expand(1, 4, 2)
    parts = brier_decomposition(logits, torch.tensor([0, 0, 0, 1]))
    close(torch.stack(parts), [0.0, 0.0, 2 * 0.75 * 0.25, 0.0], atol=1e-9)


def test_a_perfect_forecast_resolves_all_uncertainty():
    labels = torch.tensor([0, 1, 2, 2])
    logits = 99.0 * torch.nn.functional.one_hot(labels)[None].double()
    parts = brier_decomposition(logits, labels)
    close(parts.resolution, parts.uncertainty.item())
    close(parts.uncertainty, 1 - (1 / 16 + 1 / 16 + 1 / 4))
