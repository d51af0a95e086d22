"""SharpBalance on a table: columns of categories, each with its own embedding."""

import pytest
import torch
from torch import nn

from tepui.data import Arrays
from tepui.methods import SAM, SharpBalance
from training.cases import CLASSES, assert_different, fitted, one_thread

single = pytest.fixture(autouse=True)(one_thread)
CATEGORIES = (4, 7, 3)


class Tabular(nn.Module):
    """Embeds every column of categories beside the numbers."""

    def __init__(self):
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(count, 2) for count in CATEGORIES)
        width = 2 * len(CATEGORIES) + 2
        self.layers = nn.Sequential(
            nn.Linear(width, 8), nn.ReLU(), nn.Linear(8, CLASSES)
        )

    def forward(self, categories, numbers):
        columns = [
            embedding(categories[:, i]) for i, embedding in enumerate(self.embeddings)
        ]
        return self.layers(torch.cat([*columns, numbers], 1))


def table(samples=48):
    """Rows whose label follows from the categories."""
    stream = torch.Generator().manual_seed(0)
    columns = [torch.randint(n, (samples,), generator=stream) for n in CATEGORIES]
    categories = torch.stack(columns, 1)
    numbers = torch.randn(samples, 2, generator=stream)
    inputs = {"categories": categories, "numbers": numbers}
    return Arrays(inputs, categories.sum(1) % CLASSES)


@pytest.mark.parametrize("score", ["fisher", "sam_gap", "worst_case", "hessian_trace"])
def test_members_learn_a_table_past_the_switch(score):
    method = SharpBalance(score=score, switch_at=3)
    run = fitted(table(), Tabular, members=3, method=method, epochs=6)
    assert run.summary["samples"] == 48
    assert all(0 < size < 48 for size in run.summary["sizes"])
    first, last = run.history[0].loss, run.history[-1].loss
    assert all(after < before for before, after in zip(first, last, strict=True))
    sam = fitted(table(), Tabular, members=3, method=SAM(rho=method.rho), epochs=6)
    assert_different(run, sam)
