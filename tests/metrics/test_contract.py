"""What every public metric promises, whatever it measures, whole and in a stream."""

import inspect
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from strategies import RULES
from tepui import metrics
from tepui.metrics import chunks
from tepui.testing import check_metric

# Functions of two vectors of scores, which have tests of their own, one of none, and
# one that only picks columns.
OF_SCORES = {"aupr", "auroc", "fpr95", "rank_correlation", "ranks"}
OF_SCORES |= {"conformal_quantile", "restrict_classes"}
# Functions of what other tasks answer, held to the contract by test_of_targets, and one
# that returns no tensor.
OF_TASKS = {
    "fit_calibration",
    "gaussian_crps",
    "gaussian_nll",
    "gaussian_quantiles",
    "interval_coverage",
    "interval_width",
    "label_auroc",
    "label_ece",
    "mean_average_precision",
    "pixels",
    "quantile_calibration",
    "quantile_crps",
    "rmse",
    "sample_crps",
}
FUNCTIONS = [
    name
    for name in metrics.__all__
    if inspect.isfunction(getattr(metrics, name)) and name not in OF_SCORES | OF_TASKS
]
# A class points to its function in its first line.
STREAMS = {
    name: re.match(r"Streaming :func:`(\w+)`", kind.__doc__)[1]
    for name, kind in vars(metrics).items()
    if inspect.isclass(kind)
    and issubclass(kind, metrics.LogitsStreaming)
    and not inspect.isabstract(kind)
}
NAMES = [*FUNCTIONS, *STREAMS]
# A bin, or a class, may hold nothing.
MAY_BE_NAN = {"class_scores", "reliability"}


def corruption_accuracy(logits: Tensor, labels: Tensor) -> Tensor:
    mild, severe = metrics.accuracy(logits, labels), metrics.brier(logits, labels)
    return metrics.corruption_accuracy({("fog", 1): mild, ("fog", 5): severe})


def ood_scores(logits: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
    return tuple(
        metrics.ood_scores(logits, ["pds", "max_mean_probability", "entropy"]).values()
    )


def temperature(logits: Tensor, labels: Tensor, **options: str) -> Tensor:
    with warnings.catch_warnings():
        # Labels that have nothing to do with the logits have no best temperature.
        warnings.simplefilter("ignore", UserWarning)
        return metrics.temperature(logits, labels, **options)


def subset_accuracy(logits: Tensor, labels: Tensor) -> Tensor:
    return metrics.subset_accuracy(logits, labels, _all_classes(logits))


def subset_vote(logits: Tensor, labels: Tensor) -> Tensor:
    return metrics.subset_vote(logits, _all_classes(logits))


def _all_classes(logits: Tensor) -> Tensor:
    return torch.ones(logits.shape[-1], dtype=torch.bool, device=logits.device)


@dataclass(frozen=True)
class Case:
    """How to call a metric, and the axes of what it returns.

    Axes are letters: m members, s samples, c classes, b bins, o
    samples in an order of their own; "" is a scalar.
    """

    axes: str
    call: Callable[..., object] | None = None
    classes: bool = False  # values are class indices
    pairs: bool = False  # needs two members
    shift: bool = True  # blind to a constant added to a row of logits
    common_shift: bool = True  # and to one added to all members' rows


CASES = {
    "accuracy": Case(""),
    "aurc": Case(""),
    "balanced_accuracy": Case(""),
    "brier": Case(""),
    "class_scores": Case("c"),
    "corruption_accuracy": Case("", call=corruption_accuracy),
    "der": Case("", pairs=True),
    "disagreement": Case("", pairs=True),
    "ece": Case(""),
    "eir": Case(""),
    "ensemble_log_probs": Case("sc"),
    "ensemble_predictions": Case("s", classes=True),
    "ensemble_probs": Case("sc"),
    "energy": Case("s", shift=False, common_shift=False),
    "entropy": Case("s"),
    "individual_accuracy": Case("m"),
    "individual_nll": Case("m"),
    "logit_variance": Case("", pairs=True, shift=False),
    "max_mean_probability": Case("s"),
    "mean_iou": Case(""),
    "mean_kl": Case("", pairs=True),
    "max_logit": Case("s", shift=False, common_shift=False),
    "mutual_information": Case("s"),
    "nll": Case(""),
    "ood_scores": Case("s", call=ood_scores),
    "pairwise_disagreement": Case("mm", pairs=True),
    "pairwise_kl": Case("mm", pairs=True),
    "pds": Case("s"),
    "predictions": Case("ms", classes=True),
    "predictive_variance": Case("s"),
    "probability_variance": Case("", pairs=True),
    "reliability": Case("b"),
    "selective_curve": Case("o"),
    "temperature": Case("", call=temperature),
    "subset_accuracy": Case("", call=subset_accuracy),
    "subset_vote": Case("s", call=subset_vote, classes=True),
    "unique_predictions": Case(""),
}
CASES |= {stream: CASES[name] for stream, name in STREAMS.items()}

every_metric = pytest.mark.parametrize("name", NAMES)
# A stream gives what its function gives (test_streaming), so that it changes as little
# with the order of things.
every_function = pytest.mark.parametrize("name", FUNCTIONS)


def takes(name: str, parameter: str) -> bool:
    if parameter == "labels":
        name = STREAMS.get(name, name)
    return parameter in inspect.signature(getattr(metrics, name)).parameters


def evaluate(name: str, logits: Tensor, labels: Tensor, **options: str):
    """Call a metric, or stream the samples in two parts, and return its tensors."""
    call = CASES[name].call
    if name in STREAMS:
        stream = getattr(metrics, name)(**options)
        halves = logits.dim() == 3 and labels.shape == logits.shape[1:2]
        cut = min(len(labels), 10) if halves else None
        stream.update(logits[:, :cut], labels[:cut])
        if cut is not None and cut < len(labels):
            stream.update(logits[:, cut:], labels[cut:])
        result = stream.compute()
    elif call is None:
        arguments = (logits, labels) if takes(name, "labels") else (logits,)
        result = getattr(metrics, name)(*arguments, **options)
    else:
        result = call(logits, labels, **options)
    return result if isinstance(result, tuple) else (result,)


def example(classes: int = 4, dtype: torch.dtype = torch.float32):
    generator = torch.Generator().manual_seed(classes)
    logits = 2 * torch.randn(3, 23, classes, generator=generator, dtype=torch.float64)
    labels = torch.randint(classes, (23,), generator=generator)
    fixed = torch.arange(23) % 2 == 0
    return logits.to(dtype), labels.where(fixed, logits.mean(0).argmax(-1))


def assert_same(actual, expected, rtol=1e-5, atol=1e-6):
    for left, right in zip(actual, expected, strict=True):
        torch.testing.assert_close(left, right, rtol=rtol, atol=atol, equal_nan=True)


def permuted(result: tuple[Tensor, ...], axes: str, axis: str, order: Tensor):
    """Reorder every axis of the results that has the given letter."""
    for position in (i for i, letter in enumerate(axes) if letter == axis):
        result = tuple(item.index_select(position, order) for item in result)
    return result


def test_every_public_metric_has_a_case():
    assert set(CASES) == set(NAMES)


def contract(name: str, device: str = "cpu") -> None:
    """Hold a metric, alone or in a stream, to what every metric promises."""

    def metric(logits: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
        return evaluate(name, logits, labels)

    metric.__name__ = name
    streams = {function: stream for stream, function in STREAMS.items()}
    check_metric(
        metric,
        axes=CASES[name].axes,
        min_members=2 if CASES[name].pairs else 1,
        may_be_nan=STREAMS.get(name, name) in MAY_BE_NAN,
        stream=getattr(metrics, streams[name]) if name in streams else None,
        device=device,
    )


@every_metric
def test_keeps_the_contract(name):
    contract(name)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@every_metric
def test_keeps_the_contract_on_a_gpu(name):
    contract(name, "cuda")


# Where as many members vote for one class as for another, the first of them wins.
@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n != "subset_vote"])
def test_order_of_classes(name):
    logits, labels = example()
    order = torch.tensor([3, 1, 0, 2])
    rank = order.argsort()
    expected = permuted(evaluate(name, logits, labels), CASES[name].axes, "c", order)
    if CASES[name].classes:
        expected = tuple(rank[item] for item in expected)
    assert_same(evaluate(name, logits[:, :, order], rank[labels]), expected)


@every_function
def test_shift_of_the_logits(name):
    logits, labels = example(dtype=torch.float64)
    shift = 10 * torch.randn(3, 23, 1, generator=torch.Generator().manual_seed(1))
    expected = evaluate(name, logits, labels)
    if CASES[name].shift:
        assert_same(evaluate(name, logits + shift, labels), expected)
    if CASES[name].common_shift:
        assert_same(evaluate(name, logits + shift[:1], labels), expected)


@every_function
def test_working_on_parts_does_not_matter(name, monkeypatch):
    logits, labels = example()
    expected = evaluate(name, logits, labels)
    monkeypatch.setattr(chunks, "LOGITS_AT_ONCE", 5 * logits[:, 0].numel())
    sizes = [chunk.logits.shape[1] for chunk in chunks.chunks_of(logits)]
    assert sizes == [5, 5, 5, 5, 3]
    assert_same(evaluate(name, logits, labels), expected)
    monkeypatch.setattr(chunks, "LOGITS_AT_ONCE", 1)
    assert_same(evaluate(name, logits, labels), expected)


@every_metric
def test_rejects_bad_logits(name):
    logits, labels = example()
    message = r"logits must have shape \(members, samples, classes\), got \(23, 4\)"
    with pytest.raises(ValueError, match=message):
        evaluate(name, logits[0], labels)
    with pytest.raises(ValueError, match=r"logits must be floating.*got torch\.int64"):
        evaluate(name, logits.long(), labels)
    with pytest.raises(ValueError, match="logits must hold at least one sample"):
        evaluate(name, logits[:, :0], labels[:0])
    logits[1, 7, 2] = logits[2, 3, 0] = torch.nan
    message = r"got 2 NaN value\(s\), the first at member 1, sample 7"
    with pytest.raises(ValueError, match=message):
        evaluate(name, logits, labels)
    for value in (torch.inf, -torch.inf):
        logits = example()[0].index_fill(1, torch.tensor(7), value)
        with pytest.raises(ValueError, match=r"logits must be finite.*got \(.*inf"):
            evaluate(name, logits, labels)
    if CASES[name].pairs:
        message = r"logits must hold at least 2 member\(s\), got '1 in shape"
        with pytest.raises(ValueError, match=message):
            evaluate(name, example()[0][:1], labels)


@pytest.mark.parametrize("name", [name for name in NAMES if takes(name, "labels")])
def test_rejects_bad_labels(name):
    logits, labels = example()
    message = r"labels must have shape \(23,\) to match the logits, got \(22,\)"
    with pytest.raises(ValueError, match=message):
        evaluate(name, logits, labels[1:])
    with pytest.raises(
        ValueError, match=r"labels must be integers, got torch\.float32"
    ):
        evaluate(name, logits, labels.float())
    for wrong, text in ((4, "from 0 to 4"), (-1, "from -1 to 3")):
        with pytest.raises(ValueError, match=rf"labels must lie in \[0, 3\].*{text}"):
            evaluate(name, logits, torch.cat([labels[:-1], torch.tensor([wrong])]))


@pytest.mark.parametrize(
    "name", [name for name in NAMES if takes(name, "rule") and name != "temperature"]
)
def test_every_rule_works_and_an_unknown_one_lists_them(name):
    logits, labels = example()
    results = [evaluate(name, logits, labels, rule=rule)[0] for rule in RULES]
    default = evaluate(name, logits, labels)[0]
    assert torch.equal(default, results[0])
    assert all(item.shape == default.shape for item in results)
    message = "rule must be one of probability, logit, vote, got 'votes'.*'vote'"
    with pytest.raises(ValueError, match=message):
        evaluate(name, logits, labels, rule="votes")
