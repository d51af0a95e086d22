import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.utils.data import Dataset, IterableDataset, Subset

from tepui.data import Arrays, Normalize, split


class Squares(Dataset):
    def __init__(self, samples):
        self.samples = samples

    def __len__(self):
        return self.samples

    def __getitem__(self, index):
        return torch.tensor(float(index)), index**2


def _arrays(samples):
    rows = torch.arange(samples)
    return Arrays(rows.float()[:, None, None, None], rows, Normalize((0,), (2,)))


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 60), st.floats(0.01, 0.99), st.integers(0, 5))
def test_parts_are_a_partition_in_order(samples, fraction, seed):
    assume(0 < round(fraction * samples) < samples)
    first, second = split(_arrays(samples), fraction, seed=seed)
    assert len(second) == round(fraction * samples)
    both = first.targets.tolist() + second.targets.tolist()
    assert sorted(both) == list(range(samples))
    for part in (first, second):
        assert part.targets.tolist() == sorted(part.targets.tolist())
        assert torch.equal(part.inputs[:, 0, 0, 0], part.targets.float())


def test_arrays_stay_arrays_with_their_normalisation():
    for part in split(_arrays(10), 0.3, seed=0):
        assert isinstance(part, Arrays)
        assert part.normalize == Normalize((0,), (2,))


def test_other_data_sets_become_the_same_subsets():
    first, second = split(Squares(20), 0.25, seed=3)
    expected = split(_arrays(20), 0.25, seed=3)
    assert isinstance(first, Subset)
    assert [item[1] for item in first] == (expected[0].targets ** 2).tolist()
    assert [item[1] for item in second] == (expected[1].targets ** 2).tolist()


def test_seed_decides():
    held_out = [split(_arrays(50), 0.2, seed=seed)[1].targets for seed in (1, 1, 2)]
    assert torch.equal(held_out[0], held_out[1])
    assert not torch.equal(held_out[0], held_out[2])


def test_global_generator_is_left_alone():
    before = torch.get_rng_state()
    split(_arrays(10), 0.5, seed=0)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("fraction", [0, 1, -0.1, 1.5, float("nan")])
def test_fraction_outside_is_refused(fraction):
    with pytest.raises(
        ValueError, match=rf"fraction must lie in \(0, 1\), got {fraction}"
    ):
        split(_arrays(10), fraction, seed=0)


@pytest.mark.parametrize("fraction", [0.01, 0.99])
def test_empty_side_is_refused(fraction):
    with pytest.raises(ValueError, match=f"each side of 10, got {fraction}"):
        split(_arrays(10), fraction, seed=0)


def test_streams_are_refused():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(())

    with pytest.raises(ValueError, match=r"dataset must be map-style .* got Stream"):
        split(Stream(), 0.5, seed=0)
