"""Runs whose batches are divided into shards, for one process or several."""

import torch
from torch import nn

import tepui
from tepui.core.seeding import generator
from tepui.data import Arrays
from tepui.methods import GSAM, SAM, DeepEnsemble, SharpBalance
from tepui.modules.pruning import Prune
from tepui.training import AdamW

CLASSES = 3


def data(dtype=torch.float32):
    """Small images that can be told apart by their brightness."""
    stream = torch.Generator().manual_seed(0)
    labels = torch.arange(40) % CLASSES
    noise = torch.rand(40, 2, 5, 5, generator=stream, dtype=dtype)
    return Arrays((noise + labels[:, None, None, None]) / CLASSES, labels)


def network(dropout=0.2, dtype=torch.float32):
    return nn.Sequential(
        nn.Conv2d(2, 3, 3),
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(27, CLASSES),
    ).to(dtype)


SPLIT = {"switch_at": 1, "rho": 0.3}
# Bit-equal for any number of ranks that divides the shards.
EXACT = {
    "plain": {"method": DeepEnsemble(), "clip_norm": 0.5, "validation": 0.2},
    "sam": {"method": SAM(rho=0.3), "batch_size": 19},
    "sam by shard": {"method": SAM(rho=0.3), "perturbation": "shard"},
    "gsam, averaged": {"method": GSAM(rho=0.3), "average": 0.5, "accumulate": 2},
    "adaptive, pruned": {
        "method": SAM(rho=0.3, adaptive=True),
        "prune": Prune(sparsity=0.5),
        "optimizer": AdamW(),
    },
    "sharpbalance": {"method": SharpBalance(**SPLIT)},
    "sharpbalance by shard": {
        "method": SharpBalance(**SPLIT, refresh_every=1),
        "perturbation": "shard",
    },
    "sharpbalance, released": {"method": SharpBalance(**SPLIT, stratified=False)},
}
# Equal up to rounding, and only without dropout.
SYNCHRONIZED = {
    "plain": {"method": DeepEnsemble()},
    "sam": {"method": SAM(rho=0.3), "batch_size": 19},
    "sharpbalance": {"method": SharpBalance(**SPLIT)},
}


def trained(ranks=1, *, members=2, dropout=0.2, dtype=torch.float32, **options):
    """Return weights, buffers and losses of a small run."""
    ensemble = tepui.Ensemble.build(
        lambda: network(dropout, dtype), members=members, seed=3
    )
    run = tepui.fit(
        ensemble,
        data(dtype),
        **{"epochs": 2, "batch_size": 24, "progress": "none", **options},
        data_parallel=ranks,
    )
    state = {name: tensor.clone() for name, tensor in ensemble.state_dict().items()}
    losses = [(record.loss, record.validation_loss) for record in run.history]
    state["losses"] = torch.tensor([[*a, *b] for a, b in losses], dtype=torch.float64)
    return state


def exact(ranks, shards=4):
    """Carry out all cases whose bits do not depend on the ranks."""
    return {
        name: trained(ranks, virtual_shards=shards, **case)
        for name, case in EXACT.items()
    }


def synchronized(ranks, shards=4):
    """Carry out all cases that agree up to rounding, in float64."""
    wide = {"dropout": 0.0, "dtype": torch.float64, "batch_norm": "synchronized"}
    return {
        name: trained(ranks, virtual_shards=shards, **wide, **case)
        for name, case in SYNCHRONIZED.items()
    }


# Twelve shards can be shared by two, three and four ranks.
STOPPED = {
    "method": SharpBalance(**SPLIT),
    "virtual_shards": 12,
    "batch_size": 24,
    "keep": "best",
    "validation": 0.2,
}


def mesh(ranks, shards):
    """Three members, dealt over pairs of ranks where there are pairs."""
    sharing = 2 if ranks % 2 == 0 else ranks
    method = SharpBalance(**SPLIT)
    return trained(sharing, members=3, virtual_shards=shards, method=method)


def refusal(ranks):
    """What a run says for which there are not processes enough."""
    try:
        trained(ranks, method=SAM())
    except ValueError as error:
        return str(error)


def random_rows(rank, rows, length):
    """What a rank brings to a sum, drawn for the test of the sum itself."""
    return torch.randn(rows, length, generator=generator(rank, rows, length))
