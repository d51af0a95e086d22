"""Batches divided into shards in one process, against naive twins in float64."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import data_parallel_cases as cases
import tepui
from tepui.core.seeding import derive
from tepui.data.arrays import Arrays, Batch, Division
from tepui.losses import cross_entropy
from tepui.methods import GSAM, SAM, SED, DeepEnsemble, SharpBalance
from tepui.training.batches import BatchSplit
from tepui.training.passes import MemberPasses
from tepui.training.run_folder import RunFolder
from tepui.training.runner import member_step
from tepui.training.shards import DataGroup, Shards, shard_of, tree_sum

WIDE = {"dropout": 0.0, "dtype": torch.float64}


def batch_of(samples, rows=None, seed=0):
    stream = torch.Generator().manual_seed(seed)
    inputs = torch.randn(samples, 4, generator=stream, dtype=torch.float64)
    labels, index = torch.arange(samples) % 3, torch.arange(samples)
    division = None if rows is None else Division(rows, rows / samples)
    return Batch(inputs, labels, index, division)


def member_of(module, shards):
    rate = torch.tensor(0.1, dtype=torch.float64)
    return MemberPasses(
        module, loss=cross_entropy, learning_rate=rate, samples=8, shards=shards
    )


class Naive:
    """A method's step without an optimizer, as ``member_step`` takes it."""

    def __init__(self, module, method, shards):
        self.passes, self.method = member_of(module, shards), method

    def __getattr__(self, name):
        return getattr(self.passes, name)

    def take_step(self, gradients):
        self.gradients = gradients


@settings(deadline=None)
@given(st.integers(1, 30), st.integers(1, 6), st.data())
def test_every_sample_is_in_one_shard_and_kinds_are_kept(samples, count, data):
    rows = data.draw(st.none() | st.integers(0, samples))
    batch = batch_of(samples, rows)
    shards = [shard_of(batch, number, count) for number in range(count)]
    index = torch.cat([shard.index for shard in shards])
    assert torch.equal(index.sort().values, batch.index)
    for shard in shards:
        assert torch.equal(shard.inputs, batch.inputs[shard.index])
        assert torch.equal(shard.targets, batch.targets[shard.index])
        if rows is not None:
            assert shard.division.share == batch.division.share
            assert torch.equal(
                shard.index < rows, torch.arange(len(shard.index)) < shard.division.rows
            )


def test_dict_inputs_are_divided_too():
    batch = batch_of(5, rows=2)
    named = batch._replace(inputs={"a": batch.inputs, "b": -batch.inputs})
    shard = shard_of(named, 1, 2)
    assert shard.index.tolist() == [1, 3]
    assert torch.equal(shard.inputs["b"], -batch.inputs[[1, 3]])


@settings(deadline=None)
@given(st.sampled_from([1, 2, 4, 8]), st.integers(1, 3), st.integers(0, 99))
def test_sums_of_blocks_are_subtrees(ranks, block, seed):
    terms = torch.randn(ranks * block, 5, generator=torch.Generator().manual_seed(seed))

    def term(number):
        return terms[number]

    whole = tree_sum(term, range(len(terms)))
    sums = [
        tree_sum(term, range(rank * block, (rank + 1) * block)) for rank in range(ranks)
    ]
    assert torch.equal(tree_sum(lambda rank: sums[rank], range(ranks)), whole)
    torch.testing.assert_close(whole, terms.sum(0))


@pytest.mark.parametrize(
    "options",
    [
        {"method": DeepEnsemble(), "clip_norm": 0.1},
        {"method": SAM(rho=0.3, adaptive=True), "batch_size": 19},
        {"method": GSAM(rho=0.3), "accumulate": 2},
        {"method": SharpBalance(rho=0.3, switch_at=1)},
        {"method": SharpBalance(rho=0.3, switch_at=1, stratified=False)},
    ],
    ids=lambda options: type(options["method"]).__name__,
)
@pytest.mark.parametrize("shards", [2, 3])
def test_shards_change_nothing_but_rounding_where_samples_do_not_meet(
    monkeypatch, options, shards
):
    monkeypatch.setattr(
        cases,
        "network",
        lambda dropout, dtype: nn.Sequential(
            nn.Flatten(), nn.Linear(50, 8), nn.Tanh(), nn.Linear(8, 3)
        ).to(dtype),
    )
    whole = cases.trained(**WIDE, **options)
    divided = cases.trained(virtual_shards=shards, **WIDE, **options)
    for name, tensor in whole.items():
        torch.testing.assert_close(divided[name], tensor, rtol=1e-9, atol=1e-9)


def normalized_net():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 3)
    ).double()


def naive_sam(module, batch, rho):
    """Loss, perturbed gradient and module after the first pass, by the definition."""
    module, there = copy.deepcopy(module), copy.deepcopy(module)
    loss = cross_entropy(module(batch.inputs), batch.targets).mean()
    values = torch.autograd.grad(loss, list(module.parameters()))
    norm = torch.cat([value.flatten() for value in values]).norm()
    with torch.no_grad():
        for parameter, value in zip(there.parameters(), values, strict=True):
            parameter.add_(rho * value / norm)
    moved = cross_entropy(there(batch.inputs), batch.targets).mean()
    return loss, torch.autograd.grad(moved, list(there.parameters())), module


@pytest.mark.parametrize("samples", [12, 13])
def test_perturbation_and_statistics_by_shard_are_the_naive_ones(samples):
    net, batch = normalized_net(), batch_of(samples)
    member = Naive(copy.deepcopy(net), SAM(rho=0.4), Shards(3, "shard"))
    loss = member_step(member, batch)
    parts = [batch.take(slice(number, None, 3)) for number in range(3)]
    shares = [len(part.targets) / samples for part in parts]
    found = [naive_sam(net, part, 0.4) for part in parts]
    expected = sum(s * f[0] for s, f in zip(shares, found, strict=True))
    torch.testing.assert_close(loss, expected.detach())
    for number, value in enumerate(member.gradients):
        twin = sum(s * f[1][number] for s, f in zip(shares, found, strict=True))
        torch.testing.assert_close(value, twin)
    for name in ("running_mean", "running_var"):
        twins = [getattr(f[2][1], name) for f in found]
        twin = sum(s * t for s, t in zip(shares, twins, strict=True))
        torch.testing.assert_close(getattr(member.module[1], name), twin)
    assert member.module[1].num_batches_tracked == 1


def test_a_global_perturbation_is_the_same_for_all_shards():
    net, batch = normalized_net(), batch_of(12)
    by_shard = Naive(copy.deepcopy(net), SAM(rho=0.4), Shards(3, "shard"))
    together = Naive(copy.deepcopy(net), SAM(rho=0.4), Shards(3))
    assert torch.equal(member_step(by_shard, batch), member_step(together, batch))
    apart = by_shard.gradients[0] - together.gradients[0]
    assert apart.norm() > 1e-3


def test_synchronized_statistics_are_those_of_the_whole_batch_in_one_process():
    net, batch = normalized_net(), batch_of(12)
    whole = member_of(copy.deepcopy(net), Shards()).gradient(batch)
    together = member_of(copy.deepcopy(net), Shards(3, "global", "synchronized"))
    for first, second in zip(
        together.gradient(batch).values, whole.values, strict=True
    ):
        assert torch.equal(first, second)


def test_buffers_that_no_pass_changes_keep_their_bits():
    net = normalized_net()
    constants = torch.rand(7, dtype=torch.float64)
    net.register_buffer("constants", constants.clone())
    net.register_buffer("mask", torch.tensor([True, False]))
    member_of(net, Shards(3)).gradient(batch_of(12))
    assert torch.equal(net.constants, constants)
    assert net.mask.tolist() == [True, False]


def test_too_small_a_part_is_divided_into_fewer_shards():
    net, batch = normalized_net(), batch_of(5)
    shards = Shards(4)
    parts = [shards.of(batch, number) for number in range(4)]
    sizes = [None if part is None else len(part.targets) for part in parts]
    assert sizes == [3, 2, None, None]
    few = member_of(copy.deepcopy(net), Shards(2)).gradient(batch)
    many = member_of(copy.deepcopy(net), shards).gradient(batch)
    for first, second in zip(many.values, few.values, strict=True):
        torch.testing.assert_close(first, second)


class Recorded(nn.Module):
    """Keeps the masks that dropout drew."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, dtype=torch.float64))
        self.masks = []

    def forward(self, x):
        mask = nn.functional.dropout(torch.ones(len(x), 3).double(), 0.5)
        self.masks.append(mask)
        return mask * self.weight


def test_each_shard_has_dropout_masks_of_its_own_the_same_in_all_passes():
    net = Recorded()
    member = Naive(net, SAM(), Shards(2))
    member.passes.noise_seed = 7
    member_step(member, batch_of(40))
    first, second, first_again, second_again = net.masks
    assert torch.equal(first, first_again)
    assert torch.equal(second, second_again)
    assert not torch.equal(first, second)
    torch.manual_seed(derive(7, "shard", 1))
    drawn = nn.functional.dropout(torch.ones(20, 3).double(), 0.5)
    assert torch.equal(second, drawn)


def test_divided_batches_hold_both_kinds_for_every_shard():
    mask = torch.arange(100) < 3
    assert BatchSplit.of(mask, 32).rows == 2
    assert BatchSplit.of(torch.arange(100) < 9, 32, shards=4).rows == 8


def test_a_run_is_resumed_with_the_shards_it_had(tmp_path):
    out = tmp_path / "run"
    cases.trained(method=SAM(), virtual_shards=2, epochs=1, out=out)
    config = RunFolder(out).recorded()["config"]
    assert config["virtual_shards"] == 2
    assert "data_parallel" not in config
    with pytest.raises(ValueError, match="virtual_shards must be what the run"):
        cases.trained(method=SAM(), virtual_shards=4, epochs=1, out=out, resume=True)


def test_a_resumed_run_has_the_bits_of_one_that_was_not_stopped(tmp_path):
    options = {"method": SharpBalance(**cases.SPLIT), "virtual_shards": 2}
    whole = cases.trained(**options)
    cases.trained(**options, out=tmp_path / "run", stop_after=1)
    again = cases.trained(**options, out=tmp_path / "run", resume=True)
    for name, tensor in whole.items():
        assert torch.equal(again[name], tensor), name


REFUSED = {
    "virtual_shards must be a multiple of data_parallel": {
        "virtual_shards": 3,
        "data_parallel": 2,
    },
    "virtual_shards must be positive": {"virtual_shards": 0},
    "perturbation must be one of": {"perturbation": "local"},
    'perturbation must be "global" where a batch is one': {"perturbation": "shard"},
    'batch_norm must be "shard" where a batch is one': {"batch_norm": "synchronized"},
    'batch_norm must be "shard" with perturbation="shard"': {
        "virtual_shards": 2,
        "perturbation": "shard",
        "batch_norm": "synchronized",
    },
    'batch_norm must be "shard" with accumulate': {
        "virtual_shards": 2,
        "accumulate": 2,
        "batch_norm": "synchronized",
    },
    'batch_norm must be "shard" with a SharpBalance': {
        "method": SharpBalance(stratified=False),
        "virtual_shards": 2,
        "batch_norm": "synchronized",
    },
    "batch_size must give two samples to each shard": {
        "virtual_shards": 4,
        "batch_size": 7,
    },
    "batch_size must give two samples to each shard and kind": {
        "method": SharpBalance(),
        "virtual_shards": 4,
        "batch_size": 15,
        "perturbation": "shard",
    },
    "virtual_shards must be 1 where members are coupled": {
        "method": SED(active=2),
        "virtual_shards": 2,
    },
    "data_parallel must be the number of processes that share a batch, which is 1": {
        "data_parallel": 2
    },
    "data_parallel must be positive": {"data_parallel": 0},
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_does_not_go_together_is_refused_by_name(message):
    options = {"method": SAM(), "epochs": 1, "progress": "none", **REFUSED[message]}
    ensemble = tepui.Ensemble.build(lambda: nn.Linear(4, 3), members=2)
    data = Arrays(torch.randn(20, 4), torch.arange(20) % 3)
    with pytest.raises(ValueError, match=message):
        tepui.fit(ensemble, data, **options)


def test_shards_that_ranks_cannot_share_are_refused():
    class Three(DataGroup):
        rank, size = 0, 3

        def summed(self, rows):
            return rows[0]

        def agreed(self, flag):
            return flag

    with pytest.raises(ValueError, match="virtual_shards must be a multiple"):
        Shards(4, group=Three())


def test_too_few_samples_of_a_kind_are_refused_before_steps_need_them():
    method = SharpBalance(fraction=0.05, select="random", switch_at=1)
    options = {"virtual_shards": 4, "perturbation": "shard", "method": method}
    with pytest.raises(ValueError, match="two samples of each kind to every shard"):
        cases.trained(**options)
