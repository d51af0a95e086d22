"""Every promise of a metric is noticed when it is broken."""

import random

import pytest
import torch

from tepui.metrics import ECE, NLL, ensemble_probs, entropy, individual_accuracy, nll
from tepui.testing import check_metric


def confidence(logits, labels):
    return ensemble_probs(logits).amax(-1).mean()


def in_place(logits, labels):
    return confidence(logits.sub_(1), labels)


def attached(logits, labels):
    wide = logits.double() if logits.dtype == torch.float64 else logits.float()
    return wide.softmax(-1).amax(-1).mean()


def enabling(logits, labels):
    torch.set_grad_enabled(False)
    return confidence(logits, labels)


def first_member(logits, labels):
    return confidence(logits[:1], labels)


def first_sample(logits, labels):
    return confidence(logits[:, :1], labels)


def drawing(logits, labels):
    return confidence(logits, labels) + random.random()


def half(logits, labels):
    return logits.detach().softmax(-1).amax(-1).mean()


def narrow(logits, labels):
    return confidence(logits, labels).float()


def elsewhere(logits, labels):
    return confidence(logits, labels) * torch.ones(())


def strided(logits, labels):
    return confidence(logits, labels) * logits.stride(-1)


def undefined(logits, labels):
    return confidence(logits, labels) * float("nan")


def told(logits, labels):
    return "0.9"


BROKEN = {
    in_place: "leave logits and labels as they are",
    attached: "record no gradient",
    enabling: "leave gradients enabled",
    first_member: "not depend on the order of members",
    first_sample: "not depend on the order of samples",
    drawing: "leave global ones alone, got draws from that of random",
    half: r"answer torch.float16 with torch.float32, got \[torch.float16\]",
    narrow: "answer torch.float64 with torch.float64",
    elsewhere: "where the logits lie, not on torch's default device",
    strided: "not depend on how logits lie in memory",
    undefined: "be finite",
    told: "return a number, a tensor or a tuple of them",
}


@pytest.fixture(autouse=True)
def gradients_enabled():
    yield
    torch.set_grad_enabled(True)


@pytest.mark.parametrize("metric", BROKEN, ids=lambda metric: metric.__name__)
def test_a_broken_promise_is_named(metric):
    with pytest.raises(AssertionError, match=BROKEN[metric]) as raised:
        check_metric(metric)
    assert str(raised.value).startswith(f"{metric.__name__} must ")


@pytest.mark.parametrize("metric", [lambda logits: logits.mean(), "nll"])
def test_a_metric_is_called_with_logits_and_labels(metric):
    message = r"must be callable as metric\(logits, labels\), got TypeError"
    with pytest.raises(AssertionError, match=message):
        check_metric(metric)


def test_axes_are_those_that_were_said():
    check_metric(lambda logits, labels: entropy(logits), axes="s")
    check_metric(individual_accuracy, axes="m")
    with pytest.raises(AssertionError, match=r"return axes '', here \(\), got shape"):
        check_metric(individual_accuracy)
    with pytest.raises(AssertionError, match="return axes 's'"):
        check_metric(individual_accuracy, axes="s")


def test_orders_that_matter_can_be_said():
    check_metric(first_member, members_in_any_order=False)
    check_metric(first_sample, samples_in_any_order=False)


def test_values_may_be_numbers_of_python_and_undefined():
    check_metric(lambda logits, labels: float(confidence(logits.float(), labels)))
    check_metric(undefined, may_be_nan=True)


def test_a_stream_is_the_function_in_chunks():
    check_metric(nll, stream=NLL)
    with pytest.raises(AssertionError, match="agree with its stream in chunks of 1"):
        check_metric(nll, stream=ECE)
