"""Runs that are the same over any number of ranks.

One rank carries out the named runs one after the other and saves what every one of them
gave it (:func:`rank`).
"""

import os
import signal
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import final
from unittest.mock import patch

import torch

import tepui
from tepui.data import AugMix, CutMix, Mixup
from tepui.losses import CrossEntropy, cross_entropy
from tepui.methods import A2D, GSAM, SAM, SED, DeepEnsemble, DivDis, EoA, SharpBalance
from training.cases import (
    Lookahead,
    Plain,
    body,
    convnet,
    fitted,
    head,
    images,
    noisy_net,
    untimed,
)

SIZES = (1, 2, 3, 5)
SCRIPT = "import sys; from training.rank_cases import rank; rank(*sys.argv[1:])"


@final
@dataclass(frozen=True, kw_only=True)
class TellingLookahead(Lookahead):
    """Has something to show of every member's state."""

    def summary(self, states):
        return {"steps": [float(state["step"]) for state in states]}


def frozen_body():
    """A network of which only the last layer is trained."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = noisy_net()
    for parameter in [*net.parameters()][:-2]:
        parameter.requires_grad_(False)
    net[-1].reset_parameters()
    return net


SPLIT = SharpBalance(switch_at=1, stratified=False, leftover="none")
REFRESHED = SharpBalance(switch_at=1, refresh_every=1, rho=0.1)
OWN_SMOOTHING = CrossEntropy((0.0, 0.1, 0.2))
UNEQUAL = (noisy_net, convnet, noisy_net)
BEST = {"validation": 0.25, "keep": "best"}
ONCE = tepui.EarlyStopping("loss", patience=1, min_delta=1e6)
WEIGHTS = torch.arange(24) % 4
HEADS = {"factory": head, "extractor": body()}


def told_to_stop(record):
    return record.epoch == 1


CASES = {
    "deep ensemble": {"method": DeepEnsemble(), **BEST},
    "SAM": {"method": SAM(rho=0.1), "optimizer": tepui.AdamW(lr=0.01)},
    "SharpBalance": {"method": REFRESHED, **BEST},
    "SharpBalance, batches split": {"method": SPLIT},
    "SharpBalance, offloaded": {"method": REFRESHED, "offload": True},
    "EoA": {"method": EoA(average=0.5), **BEST},
    "SED": {"method": SED(base=SAM(rho=0.1), active=2), "members": 4},
    "SED, all observed": {"method": SED(alpha="all", active=2), "members": 4},
    "SED, late and flat": {
        "method": SED(base=GSAM(start_at=1), active=2, average=0.5),
    },
    "A2D": {"method": A2D(base=SAM()), "loss": OWN_SMOOTHING, **BEST},
    "A2D, sequential": {"method": A2D(parallel=False)},
    "DivDis": {"method": DivDis()},
    "DivDis, pruned": {"method": DivDis(), "prune": tepui.Prune(sparsity=0.5)},
    "pruned": {"method": SAM(), "prune": tepui.Prune(sparsity=(0.3, 0.5, 0.9))},
    "unequal": {"method": SAM(), "factory": UNEQUAL},
    "unequal and coupled": {"method": SED(active=2), "factory": UNEQUAL},
    "frozen body": {"method": SED(active=2), "factory": frozen_body, **BEST},
    "heads": {"method": SAM(rho=0.1), **HEADS, **BEST},
    "heads, with sets": {"method": REFRESHED, **HEADS},
    "heads, coupled": {"method": SED(base=SAM(rho=0.1), active=2), **HEADS},
    "one member": {"method": SharpBalance(switch_at=1), "members": 1},
    "own state": {"method": TellingLookahead()},
    "stopped early": {"method": SharpBalance(switch_at=2), "early_stopping": ONCE},
    "stopped": {
        "method": SED(active=2),
        "callbacks": [told_to_stop],
        "checkpoint_every": 3,
    },
    "moving average": {"method": SAM(), "ema": 0.9, **BEST},
    "parting": {"method": SAM(), "part_at": 1, "optimizer": tepui.AdamW(lr=0.01)},
    "parting, averaged": {"method": DeepEnsemble(), "part_at": 2, "ema": 0.9, **BEST},
    "parting, stopped": {
        "method": DeepEnsemble(),
        "part_at": 2,
        "callbacks": [told_to_stop],
    },
    "weighted": {"method": SAM(), "sample_weights": WEIGHTS, "validation": 0.25},
    "weighted and coupled": {"method": SED(active=2), "sample_weights": WEIGHTS},
    "loaded data": {"method": DeepEnsemble(), "data": Plain(images())},
    "mixed": {"method": SAM(), "augment": [Mixup()], "sample_weights": WEIGHTS},
    "mixed by member": {
        "method": DeepEnsemble(),
        "augment": [[CutMix()], [], [AugMix()]],
    },
    "mixed and coupled": {"method": A2D(), "augment": [CutMix()]},
    "consistent": {
        "method": SAM(),
        "augment": [AugMix()],
        "loss": CrossEntropy(consistency=12),
    },
}


def run_case(name, **how):
    """Carry out one of the runs."""
    case = {"members": 3, "epochs": 3, "factory": noisy_net, **CASES[name], **how}
    data, method = case.pop("data", images()), case["method"]
    if method.needs_unlabeled:
        case["unlabeled"] = images(samples=16, seed=1)
    if isinstance(case["factory"], tuple):
        case.pop("members")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of clones and of SharpBalance without others
        return fitted(data, members=case.pop("members", None), **case)


def outcome(run):
    """Return what must not depend on the number of ranks."""
    exam = tepui.evaluate(run.ensemble, images(samples=12, seed=2)).document()
    return {
        "weights": run.ensemble.state_dict(),
        "history": untimed(run.history),
        "best epochs": run.best_epochs,
        "stopped by": run.stopped_by,
        "summary": run.summary,
        "exam": exam,
    }


class Troubled:
    """Cross-entropy that makes trouble in one of its calls, on one of the ranks."""

    def __init__(self, trouble, rank, at):
        self.trouble, self.at, self.calls = trouble, at, 0
        self.here = os.environ.get("RANK") == str(rank)

    @classmethod
    def named(cls, name):
        trouble, rank, at = name.partition("=")[2].split(":")
        return cls(trouble, int(rank), int(at))

    def __call__(self, outputs, targets):
        self.calls += 1
        if self.here and self.calls == self.at:
            if self.trouble == "error":
                raise ArithmeticError("no luck")
            if self.trouble == "nan":
                return cross_entropy(outputs * torch.nan, targets)
            os.kill(os.getpid(), getattr(signal, self.trouble))
        return cross_entropy(outputs, targets)


class SlowLoss:
    """Cross-entropy that takes its time, so that a run can be killed in any part."""

    def __call__(self, outputs, targets):
        time.sleep(0.002)
        return cross_entropy(outputs, targets)


def rank_net():
    """A network whose second rank has the same first weights in another order."""
    net = noisy_net()
    with torch.no_grad():
        net[1].weight.copy_(net[1].weight.roll(int(os.environ["RANK"]), 0))
    return net


def rank_samples():
    """Samples that the second rank finds in another order, as in a folder's list."""
    data = images()
    return Plain(data.subset(torch.arange(len(data)).roll(int(os.environ["RANK"]))))


# What the second rank is told instead.
DIFFERENCES = {
    "epochs": {"epochs": 4},
    "data": {"data": images(seed=5)},
    "order": {},
    "seeds": {"seed": 4},
    "checkpoint_every": {"checkpoint_every": 2},
    "out": {},
    "members": {},
    "torch": {},
}


def run_differently(what, out):
    """Carry out a run of which ranks were told different things."""
    other = os.environ["RANK"] == "1"
    how = DIFFERENCES[what] if other else {}
    version = "1.0" if what == "torch" and other else torch.__version__
    folder = out.with_name(f"{out.name}-1") if what == "out" and other else out
    if what == "members":
        how = {"factory": rank_net}
    if what == "order":
        how = {"data": rank_samples()}
    with patch.object(torch, "__version__", version):
        return run_case("SAM", out=folder, **how)


def rank(folder, *names, number=None):
    """Carry out runs; those named ``case=trouble:rank:call`` meet trouble."""
    torch.set_num_threads(1)
    found = {}
    for name in names:
        out = Path(folder) / name
        if "=" not in name:
            found[name] = outcome(run_case(name, out=out))
            continue
        try:
            case, trouble = name.split("=")
            if case == "different":
                run_differently(trouble, out)
            else:
                run_case(case, loss=Troubled.named(name), out=out)
            found[name] = "ended well"
        except BaseException as error:
            found[name] = f"{type(error).__name__}: {error}"
    torch.save(found, Path(folder) / f"{os.environ.get('RANK', number)}.pt")
