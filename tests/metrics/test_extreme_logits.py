"""Logits at the ends of float32 give no NaN: its limits are those of larger numbers."""

import inspect
import warnings

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


def extremes(size):
    """Logits near ±size, with labels: right, wrong, or drawn."""
    stream = torch.Generator().manual_seed(0)
    some = torch.tensor([0, 0, 0, 1, 0, 0, 2, 0])
    shape, zero = (2, 8, 3), torch.tensor(0.0)
    for one in ((size, zero, zero), (size, -size, zero), (-size, -size / 2, -size)):
        logits = torch.stack([torch.as_tensor(value) for value in one]).expand(shape)
        yield logits, some
        yield logits, torch.zeros_like(some)
    draws = 2 * torch.rand(3, 40, 4, generator=stream) - 1
    labels = torch.randint(4, (40,), generator=stream)
    yield size * draws, labels
    yield size * (1 + 1e-6 * (draws - 1)), labels


@pytest.mark.parametrize("size", [1e30, 1e38, 3e38, LARGEST])
@pytest.mark.parametrize("rule", ["probability", "logit"])
def test_temperatures_are_those_of_wider_numbers(rule, size):
    for logits, labels in extremes(torch.tensor(size)):
        assert logits.isfinite().all()
        found = []
        for values in (logits, logits.double()):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                best = metrics.temperature(values, labels, rule=rule)
            found.append((float(best), len(said)))
        assert found[0] == pytest.approx(found[1], rel=1e-5)


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
