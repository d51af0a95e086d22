"""SAM under DistributedDataParallel, in two real processes."""

import os
import socket
import subprocess
import sys

import torch
from torch import nn

from tepui.optim import SAM

WORKER = """
import sys
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from tepui.optim import SAM

rank, folder = int(sys.argv[1]), sys.argv[2]
torch.set_num_threads(1)
start, x, y = torch.load(f"{folder}/start.pt", weights_only=True)
distributed.init_process_group(
    "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2
)
results = {}
for sync in (True, False):
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)).double()
    net.load_state_dict(start)
    parallel = DistributedDataParallel(net)
    optimizer = SAM(
        parallel.parameters(), torch.optim.SGD, rho=0.5, lr=0.1, momentum=0.9,
        module=parallel, sync_perturbation=sync,
    )
    passes = []
    def closure():
        optimizer.zero_grad()
        passes.append(nn.utils.parameters_to_vector(net.parameters()).detach())
        (parallel(x[rank::2]) - y[rank::2]).square().mean().backward()
    optimizer.step(closure)
    one = nn.utils.parameters_to_vector(net.parameters()).detach()
    optimizer.step(closure)
    two = nn.utils.parameters_to_vector(net.parameters()).detach()
    results[sync] = {"perturbed": passes[1], "one": one, "two": two}
torch.save(results, f"{folder}/{rank}.pt")
distributed.destroy_process_group()
"""


def two_processes(folder):
    loopback = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(rank), str(folder)],
            env={**os.environ, "GLOO_SOCKET_IFNAME": loopback},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        errors = [rank.communicate(timeout=100)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], errors
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


def flat(net):
    return nn.utils.parameters_to_vector(net.parameters()).detach()


def closure_of(net, optimizer, x, y):
    def closure():
        optimizer.zero_grad()
        (net(x) - y).square().mean().backward()

    return closure


def shard_step(net, start, x, y):
    """The weights after one step in which every shard perturbs by its own gradient."""
    total = 0
    for rank in range(2):
        net.load_state_dict(start)
        optimizer = SAM(net.parameters(), Gradient, 0.5, lr=0.1)
        optimizer.step(closure_of(net, optimizer, x[rank::2], y[rank::2]))
        total = total + optimizer.base_optimizer.seen
    return flat(net) - 0.1 * total / 2


class Gradient(torch.optim.SGD):
    """Remembers the gradient it was given, and leaves the weights alone."""

    def step(self, closure=None):
        parameters = self.param_groups[0]["params"]
        self.seen = nn.utils.parameters_to_vector([p.grad for p in parameters])


def test_two_processes_perturb_together_or_by_shard_and_end_alike(tmp_path):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)).double()
    x, y = torch.randn(16, 3).double(), torch.randn(16, 2).double()
    start = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    torch.save((start, x, y), tmp_path / "start.pt")
    ranks = two_processes(tmp_path)

    together = [rank[True] for rank in ranks]
    optimizer = SAM(net.parameters(), torch.optim.SGD, 0.5, lr=0.1, momentum=0.9)
    for name in ("one", "two"):
        optimizer.step(closure_of(net, optimizer, x, y))
        for rank in together:
            torch.testing.assert_close(rank[name], flat(net), rtol=1e-10, atol=1e-10)
    assert torch.equal(together[0]["perturbed"], together[1]["perturbed"])

    by_shard = [rank[False] for rank in ranks]
    expected = shard_step(net, start, x, y)
    assert (by_shard[0]["perturbed"] - by_shard[1]["perturbed"]).norm() > 1e-3
    torch.testing.assert_close(by_shard[0]["one"], expected, rtol=1e-10, atol=1e-10)
    for name in ("one", "two"):
        assert torch.equal(by_shard[0][name], by_shard[1][name])
