"""A stream over any chunks is the function of the whole."""

import inspect
import re
from itertools import pairwise

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from strategies import RULES, labeled_ensembles, modest
from tepui import metrics
from tepui.metrics import ECE, NLL, Collection

STREAMS = {
    kind
    for kind in vars(metrics).values()
    if inspect.isclass(kind)
    and issubclass(kind, metrics.LogitsStreaming)
    and not inspect.isabstract(kind)
}
BY_MASS = {"num_bins": 3, "binning": "equal_mass"}
# Options that change what a stream keeps; all others are tried with their defaults.
OPTIONS: dict[type, list[dict[str, object]]] = {
    metrics.Accuracy: [{"rule": rule} for rule in RULES],
    metrics.NLL: [{"rule": rule} for rule in RULES[:2]],
    metrics.EIR: [{"rule": rule} for rule in RULES],
    metrics.Brier: [{"rule": "logit"}],
    metrics.ECE: [{"num_bins": 7}, {"num_bins": 7, "torchmetrics_bins": True}, BY_MASS],
    metrics.ReliabilityDiagram: [{"rule": "vote"}, {"binning": "equal_mass"}],
    metrics.SelectiveCurve: [{"rule": "logit"}],
    metrics.ClassScores: [{"rule": "vote"}],
    metrics.BalancedAccuracy: [{"rule": "logit"}],
    metrics.MeanKL: [{"symmetric": True}],
}
# Every stream, the function that its first line names, and options.
CASES = [
    (kind, re.match(r"Streaming :func:`(\w+)`", kind.__doc__)[1], options)
    for kind in sorted(STREAMS, key=lambda kind: kind.__name__)
    for options in OPTIONS.get(kind, [{}])
]


def tensors(value: object) -> tuple[Tensor, ...]:
    return value if isinstance(value, tuple) else (value,)


def same(actual: object, expected: object) -> None:
    for left, right in zip(tensors(actual), tensors(expected), strict=True):
        torch.testing.assert_close(
            left, right, rtol=1e-12, atol=1e-13, equal_nan=True, check_dtype=True
        )


def of_whole(case, logits, labels):
    stream_class, name, options = case
    data = (logits, labels) if stream_class.labeled else (logits,)
    return getattr(metrics, name)(*data, **options)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[1]}-{case[2]}")
@modest
@given(data=labeled_ensembles(min_members=2), cuts=st.sets(st.integers(1, 6)))
def test_any_chunks_give_what_the_function_gives(case, data, cuts):
    logits, labels = data
    assume((logits.argmax(-1) != labels).any())
    stream_class, _, options = case
    stream = stream_class(**options)
    for _ in range(2):
        edges = [0, *sorted(cut for cut in cuts if cut < len(labels)), len(labels)]
        for start, end in pairwise(edges):
            stream.update(logits[:, start:end], labels[start:end])
        same(stream.compute(), of_whole(case, logits, labels))
        same(stream.compute(), of_whole(case, logits, labels))
        stream.reset()


@pytest.mark.slow
@modest
@given(data=labeled_ensembles(min_members=2), cut=st.integers(1, 6))
def test_a_collection_gives_what_its_streams_give(data, cut):
    logits, labels = data
    assume((logits.argmax(-1) != labels).any())
    streams = {f"s{i}": case[0](**case[2]) for i, case in enumerate(CASES)}
    together = Collection(**streams)
    together.update(logits[:, :cut], labels[:cut])
    if cut < len(labels):
        together.update(logits[:, cut:], labels[cut:])
    result = together.compute()
    for i, case in enumerate(CASES):
        same(result[f"s{i}"], of_whole(case, logits, labels))
    together.reset()
    with pytest.raises(ValueError, match="update must come before compute"):
        together.compute()


def test_a_failed_update_keeps_nothing():
    logits, labels = torch.randn(2, 5, 3), torch.arange(5) % 3
    together = Collection(ece=ECE(), nll=NLL())
    together.update(logits, labels)
    before = together.compute()
    with pytest.raises(ValueError, match="labels must lie in"):
        together.update(logits, labels + 1)
    with pytest.raises(ValueError, match="labels must be given, got None"):
        together.update(logits)
    message = r"logits must keep the \(members, classes\).*\(2, 3\), got \(2, 2\)"
    with pytest.raises(ValueError, match=message):
        together.update(logits[:, :, :2], labels.clamp(max=1))
    assert together.compute() == before


def test_millions_of_float32_samples_lose_nothing():
    # One by one in float32 this sum would stop growing at 2**24 samples.
    stream = metrics.Accuracy()
    stream.update(torch.tensor([[[1.0, 0.0]]]), torch.tensor([0]))
    stream._states = [(torch.tensor(2**24 + 1), torch.tensor(2**24))]
    assert stream.compute().double() == pytest.approx(2**24 / (2**24 + 1), abs=1e-8)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[1]}-{case[2]}")
def test_streams_on_a_gpu_agree_with_the_cpu_and_repeat_their_bits(case):
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(3, 5000, 20, generator=generator)
    labels = torch.randint(20, (5000,), generator=generator)
    runs = [of_whole(case, logits.cuda(), labels.cuda()) for _ in range(2)]
    for first, second in zip(*map(tensors, runs), strict=True):
        torch.testing.assert_close(first, second, rtol=0, atol=0, equal_nan=True)
    expected = of_whole(case, logits, labels)
    for left, right in zip(tensors(runs[0]), tensors(expected), strict=True):
        torch.testing.assert_close(
            left.cpu(), right, rtol=1e-4, atol=1e-5, equal_nan=True
        )
