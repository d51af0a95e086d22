"""Logits at the ends of float32 give no NaN: its limits are those of larger numbers."""

import inspect

import pytest
import torch

from tepui import metrics

LARGEST = torch.finfo(torch.float32).max
# Reliability has no value in an empty bin.
FUNCTIONS = {
    name: function
    for name in metrics.__all__
    if inspect.isfunction(function := getattr(metrics, name))
    and {"logits"} <= inspect.signature(function).parameters.keys() - {"metric"}
    and name not in ("fit_calibration", "reliability", "size_curve", "temperature")
}
RULES = {
    (name, rule)
    for name, function in FUNCTIONS.items()
    for rule in ("probability", "logit", "vote")
    if rule == "probability" or "rule" in inspect.signature(function).parameters
}


def leaves(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        yield from value.values()
    else:
        for part in value:
            yield from leaves(part)


@pytest.mark.parametrize("size", [1e38, 3e38, LARGEST])
@pytest.mark.parametrize(("name", "rule"), sorted(RULES))
def test_no_score_is_nan(name, rule, size):
    signs = torch.tensor([[[1, -1, 0], [0, 1, 1]], [[-1, 1, 0], [1, 0, -1]]])
    known = {
        "logits": signs * size,
        "labels": torch.tensor([0, 2]),
        "mask": torch.tensor([True, False, True]),
        "rule": rule,
    }
    function = FUNCTIONS[name]
    taken = inspect.signature(function).parameters
    result = function(**{key: known[key] for key in taken if key in known})
    assert not any(bool(part.isnan().any()) for part in leaves(result))


def test_members_that_exclude_each_other_inform_by_one_bit():
    logits = torch.tensor([[[LARGEST, -LARGEST]], [[-LARGEST, LARGEST]]])
    information = metrics.mutual_information(logits)
    torch.testing.assert_close(information, torch.tensor([2.0]).log())
    assert float(metrics.mean_kl(logits)) >= LARGEST
    assert float(metrics.logit_variance(logits)) == float("inf")


def test_a_mean_that_overflows_is_the_mean():
    logits = torch.tensor([[[LARGEST, 0.0]], [[LARGEST, 0.0]]])
    assert metrics.ensemble_probs(logits, rule="logit").tolist() == [[1.0, 0.0]]
