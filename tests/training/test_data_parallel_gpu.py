"""Captured steps that hold the exchange between ranks, at world size one by nccl."""

import pytest
import torch
from torch import distributed, nn

import tepui
from tepui.data import Arrays
from tepui.methods import SAM, DeepEnsemble, SharpBalance
from tepui.training.exchange import LocalExchange, StepRanks
from training.cases import ON_GPU, assert_same_bits, needs_gpu

pytestmark = needs_gpu

CASES = {
    "plain": {"method": DeepEnsemble()},
    "sam": {"method": SAM(rho=0.1)},
    "sharpbalance": {"method": SharpBalance(rho=0.1, switch_at=1)},
}


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    store = tmp_path_factory.mktemp("ranks") / "store"
    device = torch.device("cuda", 0)
    distributed.init_process_group(
        "nccl", init_method=f"file://{store}", rank=0, world_size=1, device_id=device
    )
    yield StepRanks(None, distributed.new_group(backend="gloo"))
    distributed.destroy_process_group()


class Sharing(LocalExchange):
    """One process that reaches itself through nccl, and says it has company."""

    sharing = 2

    def __init__(self, ranks):
        self.ranks = ranks

    def data_group(self, device):
        return self.ranks


def network():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(8 * 36, 5),
    )


def trained(exchange, **options):
    stream = torch.Generator().manual_seed(0)
    images = torch.rand(96, 3, 8, 8, generator=stream)
    ensemble = tepui.Ensemble.build(network, members=2, seed=3)
    data, settings = Arrays(images, torch.arange(96) % 5), {**ON_GPU, **options}
    tepui.fit(ensemble, data, exchange=exchange, data_parallel=2, **settings)
    return {name: t.detach().cpu() for name, t in ensemble.state_dict().items()}


@pytest.mark.parametrize("name", CASES)
def test_graphs_hold_the_exchange_between_ranks(ranks, name):
    """What cannot be captured is an error here, as warnings are."""
    options = CASES[name]
    graph = trained(Sharing(ranks), runner="graph", **options)
    assert_same_bits(graph, trained(Sharing(ranks), runner="eager", **options))


def test_sums_over_nccl_are_exact(ranks):
    rows = torch.randn(101, device="cuda")
    expected = rows.clone()
    ranks.sum_(rows)
    assert torch.equal(rows, expected)
    assert ranks.agreed(True)
    assert not ranks.agreed(False)
