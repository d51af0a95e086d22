"""A streaming metric of one's own needs public names only."""

import ast
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from strategies import labeled_ensembles, modest
from tepui.metrics import (
    NLL,
    Chunk,
    Collection,
    LogitsStreaming,
    SampleMean,
    State,
    Streaming,
    nll,
)


class BalancedAccuracy(LogitsStreaming[Tensor]):
    """Mean over classes of the share that the ensemble gets right."""

    num_states = 2
    undefined = "balanced accuracy is NaN: a class has no samples"

    def statistics(self, chunk: Chunk) -> State:
        classes = chunk.logits.shape[-1]
        correct = chunk.labels[chunk.correct("probability")]
        return (
            chunk.labels.bincount(minlength=classes),
            correct.bincount(minlength=classes),
        )

    def value(self, *state: Tensor) -> Tensor:
        samples, correct = state
        return (correct.double() / samples).mean()


class Margin(SampleMean):
    """Mean gap between the two most probable classes."""

    labeled = False

    def per_sample(self, chunk: Chunk) -> Tensor:
        first, second = chunk.ensemble_probs("probability").topk(2).values.T
        return first - second


class Longest(Streaming[Tensor]):
    """The largest number seen: not of logits at all."""

    num_states = 1
    joined = True

    def update(self, numbers: Tensor) -> None:
        self.keep((numbers,), numbers)

    def value(self, *state: Tensor) -> Tensor:
        return state[0].max()


def balanced_naive(logits: Tensor, labels: Tensor) -> float:
    chosen = logits.softmax(-1).mean(0).argmax(-1).tolist()
    shares = []
    for label in range(logits.shape[-1]):
        rows = [row for row, actual in enumerate(labels.tolist()) if actual == label]
        shares.append(sum(chosen[row] == label for row in rows) / len(rows))
    return sum(shares) / len(shares)


def margin_naive(logits: Tensor) -> float:
    ordered = logits.softmax(-1).mean(0).sort(-1).values
    return float((ordered[:, -1] - ordered[:, -2]).mean())


@modest
@given(data=labeled_ensembles(), cut=st.integers(1, 6))
def test_chunks_give_what_the_definition_gives(data, cut):
    _, samples, classes = data[0].shape
    every = torch.arange(classes)  # so that no class lacks a sample
    logits = torch.cat([data[0], data[0][:, every % samples].roll(1, -1)], dim=1)
    labels = torch.cat([data[1], every])
    cut = min(cut, len(labels) - 1)
    metrics = Collection(balanced=BalancedAccuracy(), margin=Margin(), nll=NLL())
    metrics.update(logits[:, :cut], labels[:cut])
    metrics.update(logits[:, cut:], labels[cut:])
    values = metrics.compute()
    assert values["balanced"].item() == pytest.approx(balanced_naive(logits, labels))
    assert values["margin"].item() == pytest.approx(margin_naive(logits))
    assert values["nll"].item() == pytest.approx(nll(logits, labels).item())


def test_an_undefined_value_warns_with_the_reason_given():
    metric = BalancedAccuracy()
    metric.update(torch.zeros(1, 2, 3), torch.tensor([0, 1]))
    with pytest.warns(UserWarning, match="balanced accuracy is NaN: a class has no"):
        assert metric.compute().isnan()


def test_own_metrics_are_checked_like_the_others():
    with pytest.raises(ValueError, match="labels must be given"):
        BalancedAccuracy().update(torch.zeros(1, 2, 3))
    with pytest.raises(ValueError, match="update must come before compute"):
        Margin().compute()


def test_data_of_any_kind_can_be_streamed():
    metric = Longest()
    metric.update(torch.tensor([1.0, 3.0]))
    metric.update(torch.tensor([2.0], dtype=torch.float64))
    assert metric.compute() == 3
    assert metric.compute().dtype == torch.float64


def test_this_file_uses_public_names_only():
    tree = ast.parse(Path(__file__).read_text())
    attributes = {
        node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)
    }
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("tepui")
        for alias in node.names
    }
    assert not any(name.startswith("_") for name in attributes | imported)
