"""Metrics of other tasks: what all promise, and what they refuse."""

import inspect

import pytest
import torch
from torch import Tensor

from tepui import metrics
from tepui.testing import check_metric

LEVELS = (0.1, 0.5, 0.9)

# Each metric as one of logits and labels, which then say what its arguments are.
STREAMS = {
    "gaussian_crps": "GaussianCRPS",
    "gaussian_nll": "GaussianNLL",
    "interval_coverage": "IntervalCoverage",
    "interval_width": "IntervalWidth",
    "label_auroc": "LabelAUROC",
    "label_ece": "LabelECE",
    "mean_average_precision": "MeanAveragePrecision",
    "quantile_calibration": "QuantileCalibration",
    "quantile_crps": "QuantileCRPS",
    "rmse": "RMSE",
    "sample_crps": "SampleCRPS",
}
OF_LABELS = ("label_auroc", "label_ece", "mean_average_precision")
OPTIONS = {name: {"levels": LEVELS} for name in STREAMS if name.startswith("quantile")}


def names_of(name: str) -> set[str]:
    return set(inspect.signature(getattr(metrics, name)).parameters)


def arguments(name: str, logits: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
    """Return a metric's arguments, made of logits and labels."""
    targets = labels.to(logits)
    one = logits[..., 0]
    made = {
        "means": one,
        "variances": logits[..., 1].square() + 0.5,
        "targets": targets,
        "lower": one.amin(0) - 1,
        "upper": one.amax(0) + 1,
        "probs": logits.sigmoid().mean(0),
        "quantiles": one.mean(0).unsqueeze(-1) + logits.new_tensor([-1.0, 0.0, 1.0]),
    }
    if "probs" in names_of(name):
        made["targets"] = torch.arange(logits.shape[-1], device=labels.device) == (
            labels.unsqueeze(-1)
        )
    names = inspect.signature(getattr(metrics, name)).parameters
    return tuple(made[item] for item in names if item in made)


class Adapted:
    """A streaming metric that makes its arguments of logits and labels."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.stream = getattr(metrics, STREAMS[name])(**OPTIONS.get(name, {}))

    def update(self, logits: Tensor, labels: Tensor) -> None:
        self.stream.update(*arguments(self.name, logits, labels))

    def compute(self):
        return self.stream.compute()


def contract(name: str, device: str = "cpu") -> None:
    def metric(logits: Tensor, labels: Tensor) -> Tensor:
        # Of the type that metrics answer in, whatever becomes of sums in 16 bits.
        given = arguments(name, logits.to(metrics.chunks.dtype_of(logits)), labels)
        return getattr(metrics, name)(*given, **OPTIONS.get(name, {}))

    metric.__name__ = name
    check_metric(
        metric,
        axes="c" if name in ("label_auroc", "label_ece") else "",
        may_be_nan=name == "label_auroc",
        stream=lambda: Adapted(name),
        device=device,
    )


def test_every_metric_of_targets_is_held_to_the_contract():
    functions = {n for n in metrics.__all__ if inspect.isfunction(getattr(metrics, n))}
    of_targets = {
        name
        for name in functions
        if {"targets", "lower"}
        & set(inspect.signature(getattr(metrics, name)).parameters)
    }
    assert of_targets == set(STREAMS)


@pytest.mark.parametrize("name", STREAMS)
def test_keeps_the_contract(name):
    contract(name)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", STREAMS)
def test_keeps_the_contract_on_a_gpu(name):
    contract(name, "cuda")


@pytest.mark.parametrize("name", [n for n in STREAMS if n not in OF_LABELS])
def test_several_targets_per_sample_count_each(name):
    logits, labels = torch.randn(3, 8, 4).double(), torch.arange(8) % 4
    given = arguments(name, logits, labels)
    whole = getattr(metrics, name)(*given, **OPTIONS.get(name, {}))
    parameters = [
        item
        for item in inspect.signature(getattr(metrics, name)).parameters
        if item not in ("levels", "coverage")
    ]
    folded = [
        part.unflatten(1 if item in ("means", "variances") else 0, (4, 2))
        for item, part in zip(parameters, given, strict=True)
    ]
    torch.testing.assert_close(
        getattr(metrics, name)(*folded, **OPTIONS.get(name, {})), whole
    )


def test_bad_input_is_named():
    means, targets = torch.zeros(2, 3), torch.zeros(3)
    with pytest.raises(ValueError, match=r"means must have shape \(2, 3\), to go with"):
        metrics.rmse(torch.zeros(2, 4), targets)
    with pytest.raises(ValueError, match="means must hold at least one sample"):
        metrics.rmse(torch.zeros(0, 3), targets)
    with pytest.raises(ValueError, match=r"targets must be finite, got \(0\.0, inf\)"):
        metrics.rmse(means, torch.tensor([0.0, 1.0, torch.inf]))
    with pytest.raises(ValueError, match=r"means must be finite, got \(nan, nan\)"):
        metrics.sample_crps(means * torch.nan, targets)
    with pytest.raises(ValueError, match=r"targets must be floating.*got torch\.int64"):
        metrics.rmse(means, targets.long())
    with pytest.raises(ValueError, match=r"targets must hold at least one sample"):
        metrics.rmse(means[:, :0], targets[:0])
    for metric in (metrics.gaussian_nll, metrics.gaussian_crps):
        with pytest.raises(ValueError, match=r"variances must be positive, got 0\.0"):
            metric(means, torch.zeros(2, 3), targets)
        with pytest.raises(ValueError, match=r"variances must have shape \(2, 3\)"):
            metric(means, torch.ones(1, 3), targets)
    with pytest.raises(
        ValueError, match=r"upper must have shape \(3,\), to go with targets"
    ):
        metrics.interval_coverage(targets, targets[:2], targets)


def test_bad_labels_are_named():
    probs, targets = torch.full((3, 2), 0.5), torch.zeros(3, 2)
    for metric in (getattr(metrics, name) for name in OF_LABELS):
        with pytest.raises(ValueError, match=r"probs must lie in \[0, 1\], got .*2\.0"):
            metric(4 * probs, targets)
        with pytest.raises(ValueError, match=r"probs must lie in \[0, 1\], got \(nan"):
            metric(torch.nan * probs, targets)
        with pytest.raises(ValueError, match=r"targets must be 0 or 1"):
            metric(probs, targets + 0.5)
        with pytest.raises(ValueError, match="targets must have the shape of"):
            metric(probs, targets[:2])
        with pytest.raises(ValueError, match=r"probs must have shape \(samples"):
            metric(probs[0], targets[0])
