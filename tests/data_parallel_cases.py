"""Runs whose batches are divided into shards, for one process or several."""

import os

import torch
from torch import nn
from torch.utils.data import Dataset

import tepui
from tepui.core.seeding import generator
from tepui.data import Arrays, CutMix, HorizontalFlip, Mixup, RandomCrop
from tepui.losses import CrossEntropy, cross_entropy
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


class Loaded(Dataset):
    """Hides that data are held in tensors, and counts what is read."""

    def __init__(self, arrays):
        self.arrays = arrays
        self.read = 0

    def __len__(self):
        return len(self.arrays)

    def __getitem__(self, index):
        self.read += 1
        return self.arrays[index]


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
WEIGHTS = torch.arange(40) % 5 / 2
# Bit-equal for any number of ranks that divides the shards.
EXACT = {
    "plain": {"method": DeepEnsemble(), "clip_norm": 0.5, "validation": 0.2},
    "sam": {"method": SAM(rho=0.3), "batch_size": 19},
    "sam by shard": {"method": SAM(rho=0.3), "perturbation": "shard"},
    "gsam, averaged": {"method": GSAM(rho=0.3), "average": 0.5, "accumulate": 2},
    "parting, moving average": {"method": SAM(rho=0.3), "part_at": 1, "ema": 0.9},
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
    "weighted": {"method": SAM(rho=0.3), "sample_weights": WEIGHTS, "validation": 0.2},
    "mixed": {
        "method": SAM(rho=0.3),
        "augment": [HorizontalFlip(), Mixup(0.5)],
        "sample_weights": WEIGHTS,
    },
    "cut and mixed by shard": {
        "method": SharpBalance(**SPLIT, select="random"),
        "augment": [CutMix()],
        "perturbation": "shard",
    },
    "consistent": {
        "method": SAM(rho=0.3),
        "augment": [RandomCrop(1)],
        "loss": CrossEntropy(consistency=12),
    },
    "stopped early": {
        "method": SharpBalance(**SPLIT),
        "epochs": 4,
        "validation": 0.2,
        "early_stopping": tepui.EarlyStopping(patience=1, min_delta=1e6),
    },
    "stopped by a callback": {
        "method": SAM(rho=0.3),
        "epochs": 4,
        "callbacks": [lambda record: record.epoch == 1],
    },
}
# Equal up to rounding, and only without dropout.
SYNCHRONIZED = {
    "plain": {"method": DeepEnsemble()},
    "sam": {"method": SAM(rho=0.3), "batch_size": 19},
    "sharpbalance": {"method": SharpBalance(**SPLIT)},
}


def trained(
    ranks=1, *, members=2, dropout=0.2, dtype=torch.float32, loads=False, **options
):
    """Return weights, buffers and losses of a small run, and what was read for it."""
    samples = data(dtype)
    samples = Loaded(samples) if loads else samples
    ensemble = tepui.Ensemble.build(
        lambda: network(dropout, dtype), members=members, seed=3
    )
    run = tepui.fit(
        ensemble,
        samples,
        **{"epochs": 2, "batch_size": 24, "progress": "none", **options},
        data_parallel=ranks,
    )
    state = {name: tensor.clone() for name, tensor in ensemble.state_dict().items()}
    losses = [
        (*record.loss, *record.validation_loss, *record.validation_accuracy)
        for record in run.history
    ]
    state["losses"] = torch.tensor(losses, dtype=torch.float64)
    if loads:
        state["read"] = torch.tensor(samples.read)
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


def loaded(ranks, shards):
    """Members that learn from data which are read sample by sample."""
    cases = {
        "sam": {"method": SAM(), "augment": [HorizontalFlip()]},
        "weighted": {"method": SAM(), "sample_weights": WEIGHTS},
        "divided": {"method": SharpBalance(**SPLIT, select="random")},
        "divided by shard": {
            "method": SharpBalance(**SPLIT, select="random"),
            "perturbation": "shard",
        },
        "undivided": {
            "method": SharpBalance(**SPLIT, select="random", stratified=False)
        },
    }
    return {
        name: trained(ranks, loads=True, virtual_shards=shards, **case)
        for name, case in cases.items()
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


def troubled_loss(outputs, targets):
    """Cross-entropy, in whose seventh evaluation rank 1 gets the signal asked for."""
    trouble["calls"] += 1
    if trouble["calls"] == 7 and trouble["signal"] is not None:
        os.kill(os.getpid(), trouble["signal"])
    return cross_entropy(outputs, targets)


trouble = {"calls": 0, "signal": None}
# Ten steps per epoch and member, so that ranks agree in the midst of one.
TROUBLED = {
    "method": DeepEnsemble(),
    "batch_size": 4,
    "virtual_shards": 2,
    "loss": troubled_loss,
}


def random_rows(rank, rows, length):
    """What a rank brings to a sum, drawn for the test of the sum itself."""
    return torch.randn(rows, length, generator=generator(rank, rows, length))
