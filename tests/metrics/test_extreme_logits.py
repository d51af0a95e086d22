"""Logits at the ends of float32 give no NaN: its limits are those of larger numbers."""

import inspect

import pytest
import torch

from tepui import metrics
from tepui.metrics.chunks import Chunk

LARGEST = torch.finfo(torch.float32).max
# Reliability has no value in an empty bin, nor recall for a class without samples.
ELSEWHERE = ("class_scores", "fit_calibration", "reliability")
FUNCTIONS = {
    name: function
    for name in metrics.__all__
    if inspect.isfunction(function := getattr(metrics, name))
    and {"logits"} <= inspect.signature(function).parameters.keys() - {"metric"}
    and name not in (*ELSEWHERE, "temperature")
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


def test_members_of_any_size_have_the_mean_of_their_logits():
    """Where their sum overflows, classes stay apart; elsewhere not a bit differs."""
    stream = torch.Generator().manual_seed(0)
    for members in (1, 2, 3, 5, 8):
        draws = torch.randn(members, 6, 4, generator=stream)
        assert torch.equal(Chunk(draws).mean_logits, draws.mean(0))
        large = LARGEST * (draws / draws.abs().max())
        exact = large.double().mean(0).float()
        found = Chunk(large).mean_logits
        torch.testing.assert_close(found / LARGEST, exact / LARGEST)
        top = torch.full((members, 1, 2), LARGEST)
        torch.testing.assert_close(Chunk(top).mean_logits, top[0])
