import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.utils.data import Dataset, IterableDataset, Subset

from data_layouts import picture
from tepui.data import Arrays, ImageFiles, Normalize, split, split_at


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


def test_arrays_stay_arrays_with_their_normalization():
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
    with pytest.raises(
        ValueError, match=f"one of 10 samples on each side, got {fraction}"
    ):
        split(_arrays(10), fraction, seed=0)


def test_streams_are_refused():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(())

    with pytest.raises(ValueError, match=r"dataset must be map-style .* got Stream"):
        split(Stream(), 0.5, seed=0)


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 40), st.data())
def test_named_samples_are_the_second_part(samples, data):
    numbers = st.lists(st.integers(0, samples - 1), min_size=1, unique=True)
    rows = data.draw(numbers.filter(lambda rows: len(rows) < samples))
    for dataset in (_arrays(samples), Squares(samples)):
        first, second = split_at(dataset, rows)
        assert _numbers(second) == sorted(rows)
        assert _numbers(first) == [i for i in range(samples) if i not in rows]


def _numbers(part):
    scale = 2 if isinstance(part, Arrays) else 1  # undoes the normalization
    return [round(float(part[i][0]) * scale) for i in range(len(part))]


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


def test_split_at_needs_a_length():
    with pytest.raises(ValueError, match="must be map-style"):
        split_at(Dataset(), [0])


def test_images_that_fit_stay_in_tensors(tmp_path):
    files = [picture(tmp_path / f"{i}.png", (i, i, i), size=(4, 4)) for i in range(5)]
    first, second = split(ImageFiles(files, range(5)), 0.4, seed=1)
    for part in (first, second):
        assert isinstance(part, Arrays)
        assert part.inputs[:, 0, 0, 0].tolist() == part.targets.tolist()
