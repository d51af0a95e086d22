"""Running modules without leaving a trace on them."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from strategies import modest
from tepui.data import Batch
from tepui.modules.running import (
    blocks,
    chunks,
    evaluating,
    forward,
    over_samples,
    undisturbed,
)


def nested(modes):
    """A tree of seven parts in the given modes."""
    module = nn.Sequential(
        nn.Linear(2, 2),
        nn.Sequential(nn.BatchNorm1d(2), nn.Dropout()),
        nn.ModuleList([nn.Linear(2, 2)]),
    )
    for part, training in zip(module.modules(), modes, strict=True):
        part.training = training
    return module


def modes_of(module):
    return [part.training for part in module.modules()]


MODES = st.lists(st.booleans(), min_size=7, max_size=7)


@modest
@given(MODES)
def test_every_part_is_in_eval_mode_inside_and_as_before_after(modes):
    module = nested(modes)
    with evaluating(module):
        assert not any(modes_of(module))
    assert modes_of(module) == modes


def test_parts_with_a_train_of_their_own_are_restored_too():
    class Frozen(nn.BatchNorm1d):
        def train(self, mode=True):
            return super().train(False)

    module = nn.Sequential(nn.Linear(2, 2), Frozen(2)).train()
    for training in (False, True):
        module[1].training = training
        with evaluating(module):
            assert not any(modes_of(module))
        assert modes_of(module) == [True, True, training]


def test_forward_takes_the_logits_of_an_output_object():
    output = SimpleNamespace(logits=torch.ones(2), loss=torch.zeros(()))
    assert forward(lambda inputs: output, torch.zeros(2)) is output.logits


@pytest.mark.parametrize(
    ("output", "name"),
    [
        ((torch.zeros(2),), "tuple"),
        ({"scores": torch.zeros(2)}, "dict"),
        (None, "NoneType"),
        (SimpleNamespace(logits=[1.0]), "list"),
    ],
)
def test_an_output_without_a_tensor_is_refused(output, name):
    class Net(nn.Module):
        def forward(self, inputs):
            return output

    with pytest.raises(
        ValueError, match=f"return a tensor, .*logits.*, got {name} from Net"
    ):
        forward(Net(), torch.zeros(2))


@modest
@given(st.integers(1, 20), st.integers(1, 25))
def test_chunks_cover_the_inputs_in_order(samples, batch_size):
    x = torch.arange(2 * samples).reshape(samples, 2)
    parts = list(chunks(x, batch_size))
    assert torch.equal(torch.cat(parts), x)
    assert all(len(part) == batch_size for part in parts[:-1])
    rows = list(chunks({"a": x, "b": x[:, 0]}, batch_size))
    assert torch.equal(torch.cat([row["a"] for row in rows]), x)
    assert torch.equal(torch.cat([row["b"] for row in rows]), x[:, 0])
    assert len(rows) == len(parts)


@modest
@given(st.integers(1, 20), st.integers(1, 25), st.booleans())
def test_blocks_cover_a_batch_in_order_and_keep_it_together(samples, size, mapping):
    index = torch.arange(samples)
    inputs = {"a": 2 * index, "b": 3 * index} if mapping else 2 * index
    parts = list(blocks(Batch(inputs, 5 * index, index), size))
    assert torch.equal(torch.cat([part.index for part in parts]), index)
    assert [len(part.index) for part in parts[:-1]] == [size] * (len(parts) - 1)
    for part in parts:
        assert torch.equal(part.targets, 5 * part.index)
        first = part.inputs["a"] if mapping else part.inputs
        assert torch.equal(first, 2 * part.index)


def test_samples_that_cannot_be_vectorized_are_taken_in_turn():
    rows = {"a": torch.arange(6.0).view(3, 2)}, torch.arange(3)
    calls = []

    def plain(inputs, target):
        calls.append(1)
        return {"sum": inputs["a"].sum() + target}

    def looking(inputs, target):
        bool(inputs["a"].all())
        return plain(inputs, target)

    together = over_samples(plain, *rows)["sum"]
    assert len(calls) == 1
    assert torch.equal(over_samples(looking, *rows)["sum"], together)
    assert len(calls) == 4


def test_undisturbed_restores_modes_and_buffers_even_after_an_error():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    model[0].eval()
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}

    def disturb():
        assert not model[1].training
        model[1].running_mean.fill_(5.0)
        model[1].num_batches_tracked.add_(1)
        raise RuntimeError("midway")

    with pytest.raises(RuntimeError, match="midway"), undisturbed(model):
        disturb()
    assert (model.training, model[0].training, model[1].training) == (True, False, True)
    assert all(torch.equal(before[n], b) for n, b in model.named_buffers())
