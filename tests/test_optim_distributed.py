"""SAM in loops of two real processes: DistributedDataParallel and fully_shard.

One launch runs all cases; each is compared with one process that does the same.
"""

import copy
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector

import tepui
from processes import saved
from tepui.optim import SAM

WORKER = """
import os
import sys
import torch
from torch import distributed, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector
import tepui
from tepui.optim import SAM

rank, folder = int(os.environ["RANK"]), sys.argv[1]
torch.set_num_threads(1)
weights, x, y, cases = torch.load(f"{folder}/start.pt", weights_only=True)
distributed.init_process_group(
    "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2
)
mesh = init_device_mesh("cpu", (2,))
mine, own = x[rank::2], y[rank::2]


def flat(net):
    values = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in net]
    return parameters_to_vector([value.detach() for value in values])


def started():
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    net.load_state_dict(weights)
    return net


def wrapped(kind):
    net = started()
    if kind == "ddp":
        return DistributedDataParallel(net)
    for part in (net[0], net[2], net):
        fully_shard(part, mesh=mesh)
    return net


def waiting(kind, net, waits):
    # As other people's loops accumulate: averaged with the last part of a batch.
    if kind == "fsdp":
        net.set_requires_gradient_sync(not waits)
    elif waits:
        with net.no_sync():
            yield
        return
    yield


def carried_out(kind, parts, options):
    net = wrapped(kind)
    parameters = list(net.parameters())
    optimizer = SAM(
        parameters, torch.optim.SGD, lr=0.1, momentum=0.9, module=net, **options
    )
    passes = []

    def closure():
        optimizer.zero_grad()
        passes.append(flat(parameters))
        blocks = list(zip(mine.chunk(parts), own.chunk(parts)))
        for number, (inputs, targets) in enumerate(blocks, 1):
            for _ in waiting(kind, net, number < parts):
                ((net(inputs) - targets).square().mean() / parts).backward()

    seen = {}
    for name in ("one", "two"):
        optimizer.step(closure)
        seen[name] = flat(parameters)
    momentum = [optimizer.state[p]["momentum_buffer"] for p in parameters]
    return {**seen, "perturbed": passes[1], "momentum": flat(momentum)}


def refusal(kind):
    net = wrapped(kind)
    optimizer = SAM(net.parameters(), torch.optim.SGD, lr=0.1)
    try:
        optimizer.step(lambda: (net(mine) - own).square().mean().backward())
    except RuntimeError as error:
        return str(error)


def stored():
    net = wrapped("fsdp")
    optimizer = SAM(net.parameters(), torch.optim.Adam, lr=0.1)

    def closure():
        optimizer.zero_grad()
        (net(mine) - own).square().mean().backward()

    optimizer.step(closure)
    state = get_optimizer_state_dict(net, optimizer)["state"]["0.weight"]
    return state["exp_avg"].full_tensor()


def refused_by_fit():
    net = wrapped("fsdp")
    try:
        data = tepui.data.Arrays(x, y[:, 0])
        tepui.fit(tepui.Ensemble([net]), data, method=tepui.methods.SAM(), epochs=1)
    except ValueError as error:
        return str(error)


def gathered():
    # A member trained in parts, whole again on every rank.
    net = wrapped("fsdp")
    optimizer = SAM(net.parameters(), torch.optim.SGD, lr=0.1)

    def closure():
        optimizer.zero_grad()
        (net(mine) - own).square().mean().backward()

    optimizer.step(closure)
    options = StateDictOptions(full_state_dict=True)
    state = get_model_state_dict(net, options=options)
    every = [None, None]
    distributed.all_gather_object(every, state)
    member = started()
    member.load_state_dict(every[0])
    return tepui.Ensemble([member]).logits(x)


results = {name: carried_out(*case) for name, case in cases.items()}
results["refused"] = [refusal(kind) for kind in ("ddp", "fsdp")]
results["stored"] = stored()
results["refused by fit"] = refused_by_fit()
results["predicted"] = gathered()
torch.save(results, f"{folder}/{rank}.pt")
distributed.destroy_process_group()
"""

PLAIN = {"rho": 0.5}
ASAM = {"rho": 0.5, "adaptive": True, "max_grad_norm": 0.3}
SHARD = {"rho": 0.5, "perturbation": "shard"}
CASES = {
    "ddp": ("ddp", 1, PLAIN),
    "ddp, adaptive and clipped": ("ddp", 1, ASAM),
    "ddp, accumulated": ("ddp", 2, PLAIN),
    "ddp, by shard": ("ddp", 1, SHARD),
    "ddp, by shard, accumulated": ("ddp", 2, SHARD),
    "fsdp": ("fsdp", 1, PLAIN),
    "fsdp, adaptive and clipped": ("fsdp", 1, ASAM),
    "fsdp, accumulated": ("fsdp", 2, PLAIN),
}
TOGETHER = [name for name in CASES if "shard" not in name]
BY_SHARD = [name for name in CASES if "shard" in name]
close = partial(torch.testing.assert_close, rtol=1e-10, atol=1e-10)


def started():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)).double()


def data():
    stream = torch.Generator().manual_seed(1)
    x, y = torch.randn(16, 3, generator=stream), torch.randn(16, 1, generator=stream)
    return x.double(), y.double()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    torch.save((started().state_dict(), *data(), CASES), folder / "start.pt")
    return saved(WORKER, folder, 2)


def flat(net):
    return parameters_to_vector(net.parameters()).detach()


def closure_of(net, optimizer, x, y):
    def closure():
        optimizer.zero_grad()
        (net(x) - y).square().mean().backward()

    return closure


@pytest.mark.slow
@pytest.mark.parametrize("name", TOGETHER)
def test_two_processes_that_perturb_together_do_what_one_does(ranks, name):
    net = started()
    options = CASES[name][2]
    optimizer = SAM(net.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9, **options)
    for step in ("one", "two"):
        optimizer.step(closure_of(net, optimizer, *data()))
        for rank in ranks:
            close(rank[name][step], flat(net))
    momentum = [optimizer.state[p]["momentum_buffer"] for p in net.parameters()]
    close(ranks[0][name]["momentum"], parameters_to_vector(momentum))
    assert torch.equal(ranks[0][name]["perturbed"], ranks[1][name]["perturbed"])


def shard_gradient(net, x, y, rho):
    """The gradient of one shard where its own gradient leads, from the definition."""
    there = copy.deepcopy(net)
    values = torch.autograd.grad((net(x) - y).square().mean(), list(net.parameters()))
    norm = parameters_to_vector(values).norm()
    with torch.no_grad():
        for parameter, value in zip(there.parameters(), values, strict=True):
            parameter.add_(rho * value / norm)
    loss = (there(x) - y).square().mean()
    return parameters_to_vector(torch.autograd.grad(loss, list(there.parameters())))


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_SHARD)
def test_two_processes_that_perturb_by_shard_average_what_each_finds(ranks, name):
    net, (x, y) = started(), data()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for step in ("one", "two"):
        shards = [shard_gradient(net, x[r::2], y[r::2], 0.5) for r in range(2)]
        mean = torch.stack(shards).mean(0)
        sizes = [p.numel() for p in net.parameters()]
        for parameter, part in zip(net.parameters(), mean.split(sizes), strict=True):
            parameter.grad = part.view_as(parameter)
        optimizer.step()
        for rank in ranks:
            close(rank[name][step], flat(net))
    apart = ranks[0][name]["perturbed"] - ranks[1][name]["perturbed"]
    assert apart.norm() > 1e-3


@pytest.mark.slow
def test_gradients_left_from_before_are_refused_in_both_kinds_of_loop(ranks):
    for rank in ranks:
        for message in rank["refused"]:
            assert "closure must zero gradients" in message


@pytest.mark.slow
def test_state_of_the_base_optimizer_is_what_distributed_checkpoints_find(ranks):
    net = started()
    optimizer = SAM(net.parameters(), torch.optim.Adam, lr=0.1)
    optimizer.step(closure_of(net, optimizer, *data()))
    close(ranks[1]["stored"], optimizer.state[net[0].weight]["exp_avg"])


@pytest.mark.parametrize("module", [None, nn.Linear(1, 1)])
def test_shards_need_a_module_that_every_process_holds_a_copy_of(module):
    with pytest.raises(ValueError, match='perturbation must be "global" unless'):
        SAM(
            nn.Linear(1, 1).parameters(),
            torch.optim.SGD,
            module=module,
            perturbation="shard",
        )


@pytest.mark.slow
def test_fit_refuses_members_that_are_divided(ranks):
    for rank in ranks:
        assert "members must be whole" in rank["refused by fit"]


@pytest.mark.slow
def test_members_trained_in_parts_become_an_ensemble(ranks):
    net = started()
    optimizer = SAM(net.parameters(), torch.optim.SGD, lr=0.1)
    optimizer.step(closure_of(net, optimizer, *data()))
    expected = tepui.Ensemble([net]).logits(data()[0])
    for rank in ranks:
        close(rank["predicted"], expected)
