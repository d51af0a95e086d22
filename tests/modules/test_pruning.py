"""Global magnitude pruning: counts, ties, masks that travel with the state."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tepui.models import MLP
from tepui.modules.pruning import (
    add_masks,
    masks_of,
    prune_,
    sparsity_of,
)
from tepui.modules.state import load_tensor_state, tensor_state


def naive_threshold(module, sparsity):
    """Sort all weights of linear and convolutional layers in one list."""
    weights = [
        w.detach().abs().flatten()
        for layer in module.modules()
        if isinstance(layer, nn.Linear | nn.Conv2d)
        for w in [layer.weight]
    ]
    together = sorted(torch.cat(weights).tolist())
    return together[round(sparsity * len(together))]


@pytest.mark.filterwarnings("ignore:all weights of")
@given(sparsity=st.floats(0, 0.99), seed=st.integers(0, 100))
@settings(max_examples=25, deadline=None)
def test_the_smallest_weights_of_all_layers_go(sparsity, seed):
    torch.manual_seed(seed)
    model = MLP(5, (7, 6), 3)
    before = copy.deepcopy(model)
    prune_(model, sparsity)
    threshold = naive_threshold(before, sparsity)
    masks = masks_of(model)
    weights = {n: p for n, p in before.named_parameters() if n in masks}
    assert len(weights) == 3
    for name, mask in masks.items():
        assert torch.equal(mask, weights[name].abs() >= threshold)
        assert torch.equal(model.get_parameter(name), weights[name] * mask)


def test_pruning_again_keeps_the_zeros():
    torch.manual_seed(0)
    model = MLP(5, (7,), 3)
    prune_(model, 0.4)
    first = {name: mask.clone() for name, mask in masks_of(model).items()}
    prune_(model, 0.7)
    for name, mask in masks_of(model).items():
        assert not (mask & ~first[name]).any()
    assert sparsity_of(model) == pytest.approx(0.7, abs=0.02)


def test_shared_weights_have_one_mask():
    layer = nn.Linear(4, 4)
    model = nn.Sequential(layer, nn.ReLU(), layer)
    add_masks(model)
    assert list(masks_of(model)) == ["0.weight"]


def test_masks_travel_with_the_state():
    model, other = MLP(5, (7,), 3), MLP(5, (7,), 3)
    prune_(model, 0.5)
    load_tensor_state(other, tensor_state(model), "a copy")
    for name, mask in masks_of(model).items():
        assert torch.equal(masks_of(other)[name], mask)
