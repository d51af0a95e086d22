"""Twelve small runs, one per kind of method, no option at its default.

A run is a table of what ``fit`` is given, in which a ``partial`` is still to be called:
so each of its options can be left out, to see that it matters.
"""

import hashlib
import json
import os
from functools import partial
from pathlib import Path

import torch
from torch.utils.data import Dataset

from exam.cases import CLASSES, images, network, table
from exam.names import public


class Loaded(Dataset):
    """Hides that a data set is held in tensors, so that workers may load it."""

    def __init__(self, arrays):
        self.arrays = arrays

    def __len__(self):
        return len(self.arrays)

    def __getitem__(self, index):
        return self.arrays[index]


def of(name, **options):
    """Return a call of a public name, to be made later."""
    return partial(public(name), **options)


def runs():
    """Return what each run gives to ``fit``, by its name."""
    sgd = of("SGD", lr=0.07, momentum=0.7, weight_decay=0.003)
    sam = of("methods.SAM", adaptive=True)
    weights = 0.5 + torch.arange(60) % 3 / 2
    elsewhere = {"unlabeled": table(40, seed=5), "optimizer": sgd}
    return {
        "deep ensemble": {
            "method": of("methods.DeepEnsemble"),
            "optimizer": of("SGD", lr=0.3, momentum=0.6, nesterov=True),
            "schedule": of("MultiStep", milestones=(0.7,), gamma=0.4),
            "validation": 0.25,
            "keep": "best",
            "sample_weights": weights,
            "loss": of("losses.CrossEntropy", label_smoothing=(0.0, 0.1, 0.2)),
        },
        "SAM": {
            "method": of(
                "methods.SAM",
                rho=0.4,
                adaptive=True,
                update_statistics=True,
                start_at=0.25,
            ),
            "data": images,
            "model": of("models.ConvNet", in_channels=3, num_classes=CLASSES, width=2),
            "augment": [of("data.RandomCrop", padding=2), of("data.HorizontalFlip")],
            "loss": of("losses.CrossEntropy", class_weights=(1.0, 2.0, 0.5)),
        },
        "SAM+": {
            "method": of("methods.SAM", rho=(0.05, 0.1, 0.2)),
            "optimizer": of("AdamW", lr=(0.01, 0.02, 0.03), betas=(0.8, 0.98)),
            "accumulate": 2,
            "clip_norm": 0.7,
        },
        "GSAM": {
            "method": of("methods.GSAM", rho=0.3, rho_min=0.1, alpha=0.7, average=0.5),
            "optimizer": sgd,
            "schedule": of("Cosine", warmup=1.5),
        },
        "SharpBalance": {
            "method": of(
                "methods.SharpBalance",
                rho=0.3,
                fraction=0.3,
                switch_at=0.3,
                refresh_every=1,
            ),
            "optimizer": sgd,
        },
        "SharpBalance after SAM": {
            "method": of(
                "methods.SharpBalance",
                before="sam",
                select="highest",
                leftover="split",
                base=of("methods.GSAM", alpha=0.8),
                switch_at=1,
            ),
            "validation": 0.2,
            "members": 3,
        },
        "SharpBalance as released": {
            "method": partial(
                public("methods.SharpBalance").released, "cifar100", rho=0.1
            ),
            "optimizer": sgd,
        },
        "SharpBalance by another score": {
            "method": of(
                "methods.SharpBalance",
                score="hessian_trace",
                stratified=False,
                off_by_one=True,
                switch_at=0.25,
                rho=0.5,
            )
        },
        "SED": {
            "method": of(
                "methods.SED",
                base=sam,
                weight=0.4,
                active=2,
                alpha="all",
                pair_norm="mean",
            ),
            "optimizer": sgd,
        },
        "A2D": {
            "method": of("methods.A2D", parallel=False, weight=0.5, base=sam),
            **elsewhere,
        },
        "DivDis": {
            "method": of("methods.DivDis", weight=0.6, regularizer=0.4),
            "prune": of("Prune", sparsity=0.4, prune_at=0.3),
            **elsewhere,
        },
        "shared features": {
            "method": of("methods.SED", kernel="divdis", main="all", active=2),
            "model": heads(),
            "early_stopping": of(
                "EarlyStopping", monitor="loss", patience=1, min_delta=0.4
            ),
        },
    }


def heads():
    """Return what builds members that share a frozen extractor."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        whole = network().eval()
    return partial(
        public("models.split_last_layers")(whole, layers=1).whole, fresh=True
    )


def called(value):
    """Return a value with every call in it made."""
    if isinstance(value, list):
        return [called(each) for each in value]
    if not isinstance(value, partial):
        return value
    keywords = {name: called(each) for name, each in value.keywords.items()}
    return value.func(*value.args, **keywords)


def trained(run, *, loaded=False, **how):
    """Carry out a run; return the trained ensemble."""
    rest = dict(run)
    data = rest.pop("data", table)(60)
    model, members = rest.pop("model", network), rest.pop("members", 3)
    ensemble = public("Ensemble").build(model, members=members, seed=11)
    rest = {name: called(value) for name, value in rest.items()} | how
    data = Loaded(data) if loaded else data
    settings = {"epochs": 3, "batch_size": 20, "device": "cpu", "progress": "none"}
    public("fit")(ensemble, data, **{**settings, **rest})
    return ensemble


def digest(ensemble):
    """Return the SHA-256 of the members' weights, in the order of their names."""
    found = hashlib.sha256()
    for member in ensemble.members:
        for name, value in sorted(member.state_dict().items()):
            found.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
            found.update(value.detach().contiguous().cpu().numpy().tobytes())
    return found.hexdigest()


def rank(folder):
    """Carry out all runs as one of several ranks and write their digests."""
    torch.set_num_threads(1)
    found = {name: digest(trained(run)) for name, run in runs().items()}
    Path(folder, f"{os.environ['RANK']}.json").write_text(json.dumps(found))
