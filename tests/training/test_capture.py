"""What precedes and guards a captured step, as far as it needs no GPU."""

import pytest
import torch

from tepui.core import foreach
from tepui.data import (
    Arrays,
    Batch,
    CutMix,
    Division,
    HorizontalFlip,
    Mixup,
    RandomCrop,
)
from tepui.testing.expecting import Subject
from tepui.testing.steps import _HandingOver, _Reading
from tepui.training.batches import source_of
from tepui.training.graphs import fixed_batch, refill
from training.cases import images, numbers, pairs


def batch_of(data, division=None):
    return Batch(data.inputs, data.targets, torch.arange(len(data)), division)


def test_a_batch_is_copied_into_the_tensors_that_a_graph_reads():
    for first, second in (
        (images(8), images(8, seed=1)),
        (pairs(8), pairs(8)),
        (numbers(8), numbers(8, seed=1)),
    ):
        fixed = fixed_batch(batch_of(first))
        before = [fixed.targets.data_ptr(), fixed.index.data_ptr()]
        refill(fixed, batch_of(second)._replace(index=torch.arange(8) + 3))
        assert [fixed.targets.data_ptr(), fixed.index.data_ptr()] == before
        assert torch.equal(fixed.index, torch.arange(8) + 3)
        if isinstance(second.inputs, torch.Tensor):
            assert torch.equal(fixed.inputs, second.inputs)
        else:
            for name, tensor in second.inputs.items():
                assert torch.equal(fixed.inputs[name], tensor)


def differing():
    data = numbers(8)
    yield numbers(7)
    yield Arrays(data.inputs.double(), data.targets)
    yield Arrays(data.inputs[:, :3], data.targets)
    yield Arrays(data.inputs, data.targets.float())


@pytest.mark.parametrize("number", range(4))
def test_a_batch_of_another_shape_is_refused(number):
    other = list(differing())[number]
    with pytest.raises(ValueError, match=r"batch must have the shapes .* fixed_shapes"):
        refill(fixed_batch(batch_of(numbers(8))), batch_of(other))


def test_a_batch_that_is_divided_otherwise_is_refused():
    fixed = fixed_batch(batch_of(numbers(8), Division(3, 0.4)))
    refill(fixed, batch_of(numbers(8, seed=1), Division(3, 0.4)))
    with pytest.raises(ValueError, match=r"batch must have the shapes .*rows=4"):
        refill(fixed, batch_of(numbers(8), Division(4, 0.4)))


@pytest.mark.parametrize("dtypes", [(torch.float32,), (torch.float32, torch.int64)])
def test_lists_are_copied_whatever_their_types(dtypes):
    sources = [torch.arange(3).to(dtype) for dtype in dtypes for _ in range(2)]
    targets = [torch.zeros_like(tensor) for tensor in sources]
    foreach.copy_(targets, sources)
    assert all(torch.equal(a, b) for a, b in zip(targets, sources, strict=True))
    foreach.copy_([], [])


def test_batches_know_their_parts():
    batch = batch_of(numbers(8), Division(3, 0.5))
    first, second = batch.parts()
    assert first.index.tolist() == [0, 1, 2]
    assert second.index.tolist() == [3, 4, 5, 6, 7]
    assert first.division is None
    with pytest.raises(ValueError, match="division must be given"):
        first.parts()


@pytest.mark.parametrize(
    ("steps", "views"),
    [([HorizontalFlip(), Mixup()], 0), ([CutMix()], 0), ([RandomCrop(1)], 2)],
    ids=repr,
)
def test_mixed_samples_and_views_read_nothing_and_are_refilled(steps, views):
    source = source_of(images(), steps, torch.device("cpu"), 0, None, views=views)
    draws, rows = source.draws(5, 0, torch.device("cpu")), torch.arange(24).view(2, 12)
    source.cut(rows[0], draws)  # the first one makes tables
    subject = Subject("mixing")
    with _Reading(subject, "read no value"), _HandingOver(subject, "read no value"):
        first, second = (source.cut(index, draws) for index in rows)
    fixed = fixed_batch(first)
    places = [tensor.data_ptr() for tensor in tensors_of(fixed)]
    refill(fixed, second)
    assert [tensor.data_ptr() for tensor in tensors_of(fixed)] == places
    for one, other in zip(tensors_of(fixed), tensors_of(second), strict=True):
        assert torch.equal(one, other)


def tensors_of(batch):
    """All tensors of a batch of images: what it is made of, or mixed with."""
    found = [batch.inputs, batch.targets, batch.index, *batch.views]
    return [*found, *(batch.partners or ())]
