"""Metrics of labels that do not exclude each other, against scikit-learn."""

from itertools import pairwise

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from strategies import close, modest
from tepui.metrics import label_auroc, label_ece, mean_average_precision


@st.composite
def labeled(draw):
    """Probabilities, some of them equal, and labels of which each occurs."""
    samples, labels = draw(st.integers(2, 12)), draw(st.integers(1, 4))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32 - 1)))
    coarse = draw(st.sampled_from([4, 1000]))
    shape = samples, labels
    probs = torch.randint(coarse + 1, shape, generator=generator).double() / coarse
    targets = torch.randint(2, shape, generator=generator)
    targets[0] = 1
    return probs, targets


@modest
@given(labeled())
def test_mean_average_precision_is_that_of_scikit_learn(case):
    probs, targets = case
    reference = average_precision_score(targets, probs, average="macro")
    close(mean_average_precision(probs, targets), reference)


@modest
@given(labeled(), st.integers(1, 20))
def test_label_ece_from_its_definition(case, bins):
    probs, targets = case
    expected = []
    for p, y in zip(probs.T.tolist(), targets.T.tolist(), strict=True):
        edges = torch.linspace(0, 1, bins + 1, dtype=torch.float64).tolist()
        error = 0.0
        for low, high in pairwise([*edges[:-1], 1.1]):
            inside = [i for i, q in enumerate(p) if low <= q < high]
            error += abs(sum(y[i] - p[i] for i in inside)) / len(p)
        expected.append(error)
    close(label_ece(probs, targets, num_bins=bins), expected)


@modest
@given(labeled())
def test_label_auroc_is_that_of_scikit_learn(case):
    probs, targets = case
    targets[-1] = 0  # so that both occur
    reference = roc_auc_score(targets, probs, average=None)
    close(label_auroc(probs, targets), np.atleast_1d(reference))
