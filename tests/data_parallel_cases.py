"""Runs whose batches ranks share, for one process or several."""

import os

import torch
from torch import nn
from torch.utils.data import Dataset

import tepui
from tepui.data import Arrays, CutMix, HorizontalFlip, Mixup, RandomCrop
from tepui.losses import CrossEntropy, cross_entropy
from tepui.methods import GSAM, SAM, DeepEnsemble, SharpBalance
from tepui.modules.pruning import Prune
from tepui.training import AdamW

CLASSES = 3


def data(dtype=torch.float64):
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


def network():
    return nn.Sequential(
        nn.Conv2d(2, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(27, CLASSES)
    )


def meeting_network():
    """Samples meet in BatchNorm, and draws follow the ranks."""
    return nn.Sequential(nn.BatchNorm2d(2), network(), nn.Dropout(0.2))


SPLIT = {"switch_at": 1, "rho": 0.3}
WEIGHTS = torch.arange(40) % 5 / 2
# Those of one process within rounding.
CLOSE = {
    "plain": {"method": DeepEnsemble(), "clip_norm": 0.5, "validation": 0.2},
    "sam": {"method": SAM(rho=0.3), "batch_size": 19},
    "gsam, averaged": {"method": GSAM(rho=0.3, average=0.5), "accumulate": 2},
    "parting, moving average": {"method": SAM(rho=0.3), "part_at": 1, "ema": 0.9},
    "adaptive, pruned": {
        "method": SAM(rho=0.3, adaptive=True),
        "prune": Prune(sparsity=0.5),
        "optimizer": AdamW(),
    },
    "sharpbalance": {"method": SharpBalance(**SPLIT, refresh_every=1)},
    "weighted": {"method": SAM(rho=0.3), "sample_weights": WEIGHTS, "validation": 0.2},
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
    "three members": {"method": SharpBalance(**SPLIT, select="random"), "members": 3},
}
# The same on all ranks, but not those of one process.
OWN = {
    "meeting": {"method": SAM(rho=0.3)},
    "mixed": {"method": SAM(rho=0.3), "augment": [HorizontalFlip(), Mixup(0.5)]},
    "cut and mixed": {
        "method": SharpBalance(**SPLIT, select="random"),
        "augment": [CutMix()],
    },
}


def trained(ranks=1, *, members=2, factory=network, loads=False, **options):
    """Return weights, buffers and losses of a small run, and what was read for it."""
    samples = Loaded(data()) if loads else data()
    ensemble = tepui.Ensemble.build(lambda: factory().double(), members=members, seed=3)
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


def close(ranks):
    """Carry out all cases that agree with one process within rounding."""
    return {
        name: trained(2 if name == "three members" and ranks % 2 == 0 else ranks, **how)
        for name, how in CLOSE.items()
    }


def own(ranks):
    """Carry out all cases whose samples or draws follow the ranks."""
    return {
        name: trained(ranks, factory=meeting_network, **how)
        for name, how in OWN.items()
    }


def loaded(ranks):
    """Members that learn from data which are read sample by sample."""
    cases = {
        "sam": {"method": SAM(), "augment": [HorizontalFlip()]},
        "weighted": {"method": SAM(), "sample_weights": WEIGHTS},
        "divided": {"method": SharpBalance(**SPLIT, select="random")},
    }
    return {name: trained(ranks, loads=True, **case) for name, case in cases.items()}


STOPPED = {"method": SharpBalance(**SPLIT), "keep": "best", "validation": 0.2}


class Careless(DeepEnsemble.__base__):
    """Differentiates the losses of the rows that it sees."""

    def gradient(self, member, batch):
        loss = member.losses(batch).mean()
        values = torch.autograd.grad(loss, member.parameters)
        return tepui.methods.Gradient(loss.detach(), list(values))


def refusals(ranks):
    """What runs say that cannot share their batches."""
    said = []
    for processes, method in ((ranks + 1, SAM()), (ranks, Careless())):
        try:
            trained(processes, method=method)
        except ValueError as error:
            said.append(str(error))
    return said


def troubled_loss(outputs, targets):
    """Cross-entropy, in whose seventh evaluation rank 1 gets the signal asked for."""
    trouble["calls"] += 1
    if trouble["calls"] == 7 and trouble["signal"] is not None:
        os.kill(os.getpid(), trouble["signal"])
    return cross_entropy(outputs, targets)


trouble = {"calls": 0, "signal": None}
# Ten steps per epoch and member, so that ranks agree in the midst of one.
TROUBLED = {"method": DeepEnsemble(), "batch_size": 4, "loss": troubled_loss}
