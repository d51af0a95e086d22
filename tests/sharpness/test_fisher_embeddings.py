"""Fisher traces of models that look up embeddings by indices of any shape."""

import copy
import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from naive_fisher import naive_fisher_trace
from strategies import modest
from tepui.data import Arrays
from tepui.sharpness import sample_fisher_trace

ROWS = 5  # fewer than positions, so that samples meet the same row twice


class Lookup(nn.Module):
    """Calls one embedding for every column of its input, each column of any shape."""

    def __init__(self, **options):
        super().__init__()
        self.table = nn.Embedding(ROWS, 3, **options)
        self.head = nn.Linear(3, 4)

    def forward(self, columns):
        measured = [torch.tanh(self.table(column)) for column in columns.unbind(1)]
        sums = [part.reshape(len(columns), -1, 3).sum(1) for part in measured]
        return self.head(sum(k * part for k, part in enumerate(sums, start=1)))


def looked_up(shape, columns=1, seed=0, samples=7, kind=torch.int64, **options):
    """Return a model in float64 and indices for it."""
    torch.manual_seed(seed)
    model = Lookup(**options).double()
    index = torch.randint(ROWS, (samples, columns, *shape)).to(kind)
    return model, Arrays(index, torch.randint(4, (samples,)))


@given(
    st.lists(st.integers(1, 4), max_size=3),
    st.integers(1, 3),
    st.sampled_from(
        [
            {},
            {"padding_idx": 0},
            {"padding_idx": -1},
            {"scale_grad_by_freq": True},
            {"scale_grad_by_freq": True, "padding_idx": 1},
        ]
    ),
    st.sampled_from([torch.int32, torch.int64]),
    st.integers(1, 8),
    st.integers(0, 2**32),
)
@modest
def test_equals_a_loop_over_samples(shape, columns, options, kind, batch_size, seed):
    model, data = looked_up(shape, columns, seed, kind=kind, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        measured = sample_fisher_trace(model, data, batch_size=batch_size)
    expected = naive_fisher_trace(model, data)
    torch.testing.assert_close(measured, expected, rtol=1e-10, atol=0)


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("shape", [(), (6,), (2, 3)])
def test_rows_cut_to_a_norm_are_scored_cut_and_restored(shape, columns):
    model, data = looked_up(shape, columns, max_norm=0.5)
    before = model.table.weight.detach().clone()
    assert (before.norm(dim=1) > 0.5).any()
    with pytest.warns(UserWarning, match=r"^table\.weight: for"):
        measured = sample_fisher_trace(model, data, batch_size=4)
    assert torch.equal(model.table.weight, before)
    expected = naive_fisher_trace(copy.deepcopy(model), data)
    torch.testing.assert_close(measured, expected, rtol=1e-10, atol=0)
