"""Detection of unfamiliar samples, against scikit-learn and counting."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from strategies import modest
from tepui.evaluation.ood import detections

# Few different values, so that ties are common.
SCORES = st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.7, 1.0]), min_size=1)


def fpr95_naive(familiar, unfamiliar):
    """The fewest false alarms of any threshold that finds 95 % or more."""
    rates = []
    for threshold in unfamiliar:
        actual = sum(score >= threshold for score in unfamiliar)
        if 20 * actual >= 19 * len(unfamiliar):
            rates.append(sum(score >= threshold for score in familiar) / len(familiar))
    return min(rates)


@modest
@given(SCORES, SCORES)
def test_detections_equal_scikit_learn_and_counting(familiar, unfamiliar):
    inside = {"pds": torch.tensor(familiar).double()}
    outside = {"pds": torch.tensor(unfamiliar).double()}
    actual = detections(inside, outside)["pds"]
    labels = [0] * len(familiar) + [1] * len(unfamiliar)
    scores = familiar + unfamiliar
    assert actual.samples == len(unfamiliar)
    assert actual.auroc == pytest.approx(roc_auc_score(labels, scores))
    assert actual.aupr == pytest.approx(average_precision_score(labels, scores))
    assert actual.fpr95 == pytest.approx(fpr95_naive(familiar, unfamiliar))
