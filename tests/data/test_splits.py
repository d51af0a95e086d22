import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tepui.data import Arrays, Normalize, split, split_at


def _arrays(samples):
    rows = torch.arange(samples)
    return Arrays(rows.float()[:, None, None, None], rows, Normalize((0,), (2,)))


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 60), st.floats(0.01, 0.99), st.integers(0, 5))
def test_parts_are_a_partition_in_order(samples, fraction, seed):
    assume(0 < round(fraction * samples) < samples)
    first, second = split(_arrays(samples), fraction, seed=seed)
    assert len(second) == round(fraction * samples)
    assert torch.equal(
        split(_arrays(samples), fraction, seed=seed)[1].targets, second.targets
    )
    both = first.targets.tolist() + second.targets.tolist()
    assert sorted(both) == list(range(samples))
    for part in (first, second):
        assert part.targets.tolist() == sorted(part.targets.tolist())
        assert torch.equal(part.inputs[:, 0, 0, 0], part.targets.float())


@pytest.mark.parametrize("fraction", [0, 1, -0.1, 1.5, float("nan"), 0.01, 0.99])
def test_a_fraction_that_leaves_a_side_empty_is_refused(fraction):
    with pytest.raises(ValueError, match=rf"fraction must .*, got {fraction}"):
        split(_arrays(10), fraction, seed=0)


def test_names_may_lie_in_a_file(tmp_path):
    np.save(tmp_path / "rows.npy", np.array([4, 1]))
    for path in (tmp_path / "rows.npy", str(tmp_path / "rows.npy")):
        assert split_at(_arrays(6), path)[1].targets.tolist() == [1, 4]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (torch.tensor([], dtype=torch.int64), "held_out must hold distinct indices"),
        ([0, 0], "held_out must hold distinct indices"),
        ([4], r"of range\(4\)"),
        ([-1], r"of range\(4\)"),
        ([0, 1, 2, 3], "proper subset"),
        ([0.5], "held_out must be a one-dimensional list of integers"),
        ([[0, 1]], "one-dimensional list of integers"),
    ],
)
def test_names_that_do_not_fit_are_refused(rows, message):
    with pytest.raises(ValueError, match=message):
        split_at(_arrays(4), rows)
