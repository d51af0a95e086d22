import copy

import pytest
import torch
from torch import nn

from tepui import Ensemble
from tepui.modules.sharing import (
    apart,
    frozen_names,
    share_frozen,
    size_of,
)


class LowRank(nn.Module):
    """A frozen linear layer with a trained change of low rank, as LoRA has it."""

    def __init__(self, base, rank=1):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def adapted(width=64):
    """Return what makes members: copies of one body, with an adapter and a head."""
    body = nn.Linear(4, width)
    return lambda: nn.Sequential(
        LowRank(copy.deepcopy(body)), nn.ReLU(), nn.Linear(width, 3)
    )


def pointers(modules):
    return {p.data_ptr() for module in modules for p in module.parameters()}


def test_equal_frozen_parameters_become_one_object():
    modules = [adapted()() for _ in range(1)]
    modules += [copy.deepcopy(modules[0]) for _ in range(2)]
    before = [copy.deepcopy(module.state_dict()) for module in modules]
    share_frozen(modules)
    assert len({id(module[0].base.weight) for module in modules}) == 1
    assert len({id(module[2].weight) for module in modules}) == 3
    for module, state in zip(modules, before, strict=True):
        assert all(state[n].equal(t) for n, t in module.state_dict().items())
    doubled = nn.ModuleList(modules).double()
    assert len({id(module[0].base.weight) for module in doubled}) == 1


@pytest.mark.parametrize("change", ["value", "sign of zero", "dtype", "trained"])
def test_what_differs_stays_apart(change):
    first = nn.Linear(2, 2).requires_grad_(False)
    second = copy.deepcopy(first)
    first.bias.zero_()
    second.bias.zero_()
    if change == "value":
        second.bias[1] = 1e-9
    elif change == "sign of zero":
        second.bias[1] = -0.0
    elif change == "dtype":
        second.bias.data = second.bias.data.double()
    else:
        second.bias.requires_grad_(True)
    share_frozen([first, second])
    assert first.weight is second.weight
    assert first.bias is not second.bias


def test_ties_within_a_module_stay():
    def tied():
        table = nn.Embedding(5, 3)
        out = nn.Linear(3, 5, bias=False)
        out.weight = table.weight
        return nn.ModuleList([table, out]).requires_grad_(False)

    first = tied()
    second = copy.deepcopy(first)
    share_frozen([first, second])
    assert second[0].weight is second[1].weight is first[0].weight
    nn.ModuleList([first, second]).requires_grad_(True)
    first, second = apart([first, second])
    assert second[0].weight is second[1].weight is not first[0].weight


def test_modules_apart_share_frozen_parameters_only():
    body = nn.Sequential(nn.Linear(2, 2).requires_grad_(False), nn.BatchNorm1d(2))
    first, second = apart([nn.Sequential(body), nn.Sequential(body)])
    assert first[0] is body is not second[0]
    assert second[0][0].weight is body[0].weight
    assert second[0][1].running_mean is not body[1].running_mean
    heads = Ensemble.on_features(body.eval(), lambda: nn.Linear(2, 2), 2).members
    assert apart([*heads]) == [*heads]


def test_an_lstm_computes_with_what_it_shares():
    first = nn.LSTM(3, 3).requires_grad_(False)
    second = copy.deepcopy(first)
    share_frozen([first, second])
    x = torch.randn(2, 1, 3)
    assert first(x)[0].equal(second(x)[0])
    assert second._flat_weights[0] is first.weight_ih_l0


def test_tables_that_passes_shorten_are_not_frozen():
    table = nn.Embedding(5, 3, max_norm=1).requires_grad_(False)
    assert frozen_names(table) == frozenset()


def test_size_counts_what_is_shared_once():
    body = nn.Linear(8, 8).requires_grad_(False)
    members = [nn.Sequential(body, nn.BatchNorm1d(8)) for _ in range(3)]
    size = size_of(members)
    assert size.shared == 72 * 4
    assert size.trained == (64,) * 3
    assert size.own == (64 + 8,) * 3
    assert size.total == 72 * 4 + 3 * (64 + 72)


def test_a_saved_ensemble_is_loaded_with_what_it_shared(tmp_path):
    factory = adapted(width=512)
    ensemble = Ensemble.build(factory, members=3)
    share_frozen([*ensemble.members])
    one = ensemble.size()
    assert one.shared == 5 * 512 * 4
    file = ensemble.save(tmp_path)
    assert file.stat().st_size < 1.1 * one.total + 10_000
    import tepui

    loaded = tepui.load(tmp_path, factory)
    assert loaded.size() == one
    assert not loaded.members[1][0].base.weight.requires_grad
    x = torch.randn(5, 4)
    assert loaded.logits(x).equal(ensemble.logits(x))
