"""tepui's metrics inside torchmetrics."""

import pickle

import pytest
import torch
from torchmetrics import MetricCollection
from torchmetrics.utilities.data import dim_zero_cat

from tepui import metrics
from tepui.metrics.torchmetrics_adapter import TorchMetric

GENERATOR = torch.Generator().manual_seed(0)
LOGITS = torch.randn(3, 30, 4, generator=GENERATOR)
LABELS = torch.randint(4, (30,), generator=GENERATOR)
STREAMS = [
    (metrics.Accuracy(rule="vote"), lambda x, y: metrics.accuracy(x, y, rule="vote")),
    (metrics.ECE(), metrics.ece),
    (
        metrics.ECE(binning="equal_mass"),
        lambda x, y: metrics.ece(x, y, binning="equal_mass"),
    ),
    (metrics.MeanKL(), lambda x, y: metrics.mean_kl(x)),
    (metrics.DER(), metrics.der),
]
every_stream = pytest.mark.parametrize(
    ("stream", "function"), STREAMS, ids=lambda x: type(x).__name__
)


@every_stream
def test_agrees_with_the_function(stream, function):
    metric = TorchMetric(stream)
    for part in (slice(0, 11), slice(11, 30)):
        metric.update(LOGITS[:, part], LABELS[part])
    torch.testing.assert_close(metric.compute(), function(LOGITS, LABELS))
    metric.reset()
    metric.update(LOGITS[:, :9], LABELS[:9])
    torch.testing.assert_close(metric.compute(), function(LOGITS[:, :9], LABELS[:9]))


@every_stream
def test_forward_returns_the_batch_and_keeps_the_whole(stream, function):
    metric = TorchMetric(stream)
    metric(LOGITS[:, :11], LABELS[:11])
    batch = metric(LOGITS[:, 11:], LABELS[11:])
    torch.testing.assert_close(batch, function(LOGITS[:, 11:], LABELS[11:]))
    torch.testing.assert_close(metric.compute(), function(LOGITS, LABELS))


@every_stream
def test_processes_are_joined_by_torchmetrics(stream, function):
    parts = [slice(0, 11), slice(11, 30)]
    ranks = []
    for part in parts:
        metric = pickle.loads(pickle.dumps(TorchMetric(stream)))
        metric.update(LOGITS[:, part], LABELS[part])
        ranks.append(metric)
    # What torchmetrics does after gathering: reduce each state over the ranks.
    for name, reduce in ranks[0]._reductions.items():
        states = [getattr(rank, name) for rank in ranks]
        if stream.joined:
            setattr(ranks[0], name, reduce([dim_zero_cat(state) for state in states]))
        else:
            setattr(ranks[0], name, reduce(torch.stack(states)))
    torch.testing.assert_close(ranks[0].compute(), function(LOGITS, LABELS))


def test_works_in_a_metric_collection():
    metric = MetricCollection(
        {
            "ece": TorchMetric(metrics.ECE()),
            "nll": TorchMetric(metrics.NLL()),
            "brier": TorchMetric(metrics.Brier()),
        }
    )
    for part in (slice(0, 11), slice(11, 20), slice(20, 30)):
        metric.update(LOGITS[:, part], LABELS[part])
    actual = metric.compute()
    torch.testing.assert_close(actual["ece"], metrics.ece(LOGITS, LABELS))
    torch.testing.assert_close(actual["nll"], metrics.nll(LOGITS, LABELS))
    torch.testing.assert_close(actual["brier"], metrics.brier(LOGITS, LABELS))


def test_scores_of_two_kinds():
    metric = TorchMetric(metrics.AUROC())
    low, high = torch.tensor([0.1, 0.2]), torch.tensor([0.2, 0.9])
    metric.update(low, None)
    metric.update(None, high)
    assert metric.compute() == metrics.auroc(low, high)


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
def test_compute_needs_an_update():
    with pytest.raises(ValueError, match="update must come before compute"):
        TorchMetric(metrics.Accuracy()).compute()
