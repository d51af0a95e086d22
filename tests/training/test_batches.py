import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import Subset, TensorDataset

from strategies import modest
from tepui.core.seeding import derive, generator
from tepui.data import (
    Arrays,
    AugMix,
    HorizontalFlip,
    Mixup,
    Normalize,
    RandomCrop,
    TrivialAugment,
)
from tepui.training.batches import (
    BatchSplit,
    ReadSource,
    TensorSource,
    index_stream,
    source_of,
    stratified_stream,
)
from training.cases import CLASSES, Noisy, Plain, global_states, images, numbers

CPU = torch.device("cpu")
AUGMENT = (RandomCrop(1), HorizontalFlip())

sizes = st.integers(1, 30)
seeds = st.integers(0, 2**40)
# A fork of a process with threads, which Python 3.12 warns of.
forks = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


def stream_naive(samples, batch_size, seed, steps):
    """Shuffle, shuffle again, without end; then cut."""
    size, endless, cycle = min(batch_size, samples), [], 0
    while len(endless) < steps * size:
        shuffle = torch.randperm(samples, generator=generator(seed, "order", cycle))
        endless += shuffle.tolist()
        cycle += 1
    return [endless[step * size : (step + 1) * size] for step in range(steps)]


def stratified_naive(split, batch_size, seed, steps):
    """Deal every batch from two endless piles, each shuffled on its own."""
    piles = [
        [
            stratum[index].tolist()
            for index in stream_naive(
                len(stratum), size, derive(seed, "stratum", number), steps
            )
        ]
        for number, (stratum, size) in enumerate(
            [(split.first, split.rows), (split.second, batch_size - split.rows)]
        )
    ]
    return [first + second for first, second in zip(*piles, strict=True)]


@st.composite
def divisions(draw):
    """Some of the samples but not all, anywhere, and a batch size that fits."""
    samples = draw(st.integers(2, 30))
    mask = torch.zeros(samples, dtype=torch.bool)
    count = draw(st.integers(1, samples - 1))
    mask[torch.randperm(samples, generator=generator(draw(seeds)))[:count]] = True
    batch_size = draw(st.integers(2, samples))
    return BatchSplit.of(mask, batch_size), batch_size


def batches_of(source, rows, seed=5, epoch=0):
    return list(source.batches(torch.as_tensor(rows), seed, epoch))


def by_index(batches):
    """Return what each sample looked like, whatever batch it was in."""
    return {
        int(index): x
        for batch in batches
        for index, x in zip(batch.index, batch.inputs, strict=True)
    }


def same(first, second):
    return first.keys() == second.keys() and all(
        torch.equal(first[key], second[key]) for key in first
    )


@given(sizes, sizes, seeds, st.integers(0, 12))
@modest
def test_stream_matches_naive(samples, batch_size, seed, steps):
    rows = index_stream(samples, batch_size, seed, 0, steps)
    assert rows.tolist() == stream_naive(samples, batch_size, seed, steps)
    assert rows.shape == (steps, min(batch_size, samples))


@given(sizes, sizes, seeds, st.integers(0, 12), st.integers(0, 12))
@modest
def test_any_part_of_the_stream_is_a_slice_of_the_whole(
    samples, batch_size, seed, first, steps
):
    whole = index_stream(samples, batch_size, seed, 0, first + steps)
    part = index_stream(samples, batch_size, seed, first, steps)
    assert torch.equal(part, whole[first:])


@given(divisions(), seeds, st.integers(0, 12))
@modest
def test_stratified_stream_matches_naive(division, seed, steps):
    split, batch_size = division
    rows = stratified_stream(split, batch_size, seed, 0, steps)
    assert rows.tolist() == stratified_naive(split, batch_size, seed, steps)
    assert rows.shape == (steps, batch_size)


@given(divisions(), seeds, st.integers(0, 12), st.integers(0, 12))
@modest
def test_any_part_of_a_stratified_stream_is_a_slice_of_the_whole(
    division, seed, first, steps
):
    whole = stratified_stream(*division, seed, 0, first + steps)
    part = stratified_stream(*division, seed, first, steps)
    assert torch.equal(part, whole[first:])


@pytest.mark.parametrize("wrap", [lambda a: a, Plain], ids=["tensors", "loaded"])
def test_augmentation_of_a_sample_does_not_depend_on_its_place(wrap):
    source = source_of(wrap(images(6)), AUGMENT, CPU, 0, CLASSES)
    one = by_index(batches_of(source, [[0, 1, 2], [3, 4, 5]]))
    other = by_index(batches_of(source, [[5, 3], [1, 0], [4, 2]]))
    assert same(one, other)


@pytest.mark.parametrize("views", [0, 2])
@pytest.mark.parametrize("policy", [TrivialAugment(), AugMix()], ids=str)
def test_batches_augmented_together_are_those_augmented_one_by_one(
    policy, views, monkeypatch
):
    source = source_of(
        images(20), [RandomCrop(1), policy], CPU, 0, CLASSES, views=views
    )
    rows = torch.randperm(20).view(5, 4).tolist()
    one_by_one = batches_of(source, rows)
    monkeypatch.setattr(TensorSource, "at_once", lambda self, size: 2)
    for one, other in zip(one_by_one, batches_of(source, rows), strict=True):
        assert len(one.views) == len(other.views) == views
        assert torch.equal(one.inputs, other.inputs)
        assert torch.equal(one.index, other.index)
        assert torch.equal(one.targets, other.targets)
        assert all(map(torch.equal, one.views, other.views))


@pytest.mark.parametrize(
    ("device", "steps", "size", "count"),
    [
        ("meta", [RandomCrop(), TrivialAugment()], 128, 10),
        ("meta", [TrivialAugment()], 2000, 1),
        ("meta", [RandomCrop()], 128, 1),
        ("meta", [TrivialAugment(), Mixup()], 128, 1),
        ("cpu", [TrivialAugment()], 128, 1),
    ],
    ids=str,
)
def test_only_a_gpu_augments_bytes_of_several_batches_together(
    device, steps, size, count
):
    data = Arrays(torch.zeros(4, 3, 32, 32, dtype=torch.uint8), torch.zeros(4).long())
    source = TensorSource(tuple(steps), data.to(torch.device(device)))
    assert source.at_once(size) == count


@pytest.mark.parametrize("change", [{"seed": 6}, {"epoch": 1}], ids=str)
def test_augmentation_differs_between_members_and_epochs(change):
    source = source_of(images(6), AUGMENT, CPU, 0, CLASSES)
    rows = [list(range(6))]
    one, other = batches_of(source, rows), batches_of(source, rows, **change)
    assert not same(by_index(one), by_index(other))


def test_bytes_are_augmented_before_they_are_normalized():
    black = torch.zeros(6, 1, 4, 4, dtype=torch.uint8)
    data = Arrays(black, torch.zeros(6).long(), Normalize((0.5,), (0.25,)))
    source = source_of(data, [RandomCrop(2, fill=1.0)], CPU, 0, 1)
    (batch,) = batches_of(source, [[0, 1, 2, 3, 4, 5]])
    assert set(batch.inputs.unique().tolist()) == {-2.0, 2.0}


@given(st.integers(2, 9), st.integers(1, 5), seeds)
@modest
def test_loaded_equals_tensors(samples, batch_size, seed):
    data = images(samples)
    fast = source_of(data, AUGMENT, CPU, 0, CLASSES)
    slow = source_of(Plain(data), AUGMENT, CPU, 0, CLASSES)
    assert isinstance(fast, TensorSource)
    assert isinstance(slow, ReadSource)
    assert fast.samples == slow.samples == samples
    rows = index_stream(samples, batch_size, seed, 0, 3)
    pairs_of_batches = zip(
        batches_of(fast, rows, seed), batches_of(slow, rows, seed), strict=True
    )
    for row, (one, other) in zip(rows, pairs_of_batches, strict=True):
        assert torch.equal(one.inputs, other.inputs)
        assert torch.equal(one.targets, other.targets)
        assert torch.equal(one.index, row)
        assert torch.equal(other.index, row)


def test_a_tensor_dataset_takes_the_fast_path_and_a_subset_does_not():
    data = numbers(6)
    held = TensorDataset(data.inputs, data.targets)
    assert isinstance(source_of(held, (), CPU, 0, CLASSES), TensorSource)
    part = source_of(Subset(held, [1, 3]), (), CPU, 0, CLASSES)
    (batch,) = batches_of(part, [[1, 0]])
    assert torch.equal(batch.inputs, data.inputs[[3, 1]])


@forks
def test_random_transforms_depend_on_neither_workers_nor_place():
    data = Noisy(numbers(8))
    alone = source_of(data, (), CPU, 0, CLASSES)
    helped = source_of(data, (), CPU, 2, CLASSES)
    before = global_states()
    one = by_index(batches_of(alone, [[0, 1, 2, 3], [4, 5, 6, 7]]))
    other = by_index(batches_of(helped, [[7, 2], [0, 5], [3, 6], [1, 4]]))
    assert same(one, other)
    assert global_states() == before
