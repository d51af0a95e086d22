"""What Python programs use: each name of the pages by one call and what it returns.

The names of the README, the tutorial and the how-to pages stand in CASES, each with the
function that asks it; all other public names stand in public_names.txt. Arguments are
never the defaults, and what each brings about is read back.
"""

import ast
import csv
import json
import math
import re
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from itertools import combinations
from operator import attrgetter
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import optimize, stats
from torch import nn
from torch.nn import functional as F

from exam.cases import (
    copied,
    descended,
    exact,
    fitted,
    flat,
    images,
    moved,
    near,
    network,
    rows,
    same_bits,
    slope,
    smooth,
    table,
    uphill,
    whole,
)
from exam.names import NAMES, public

ROOT = Path(__file__).parents[2]
PLAIN = public("methods.DeepEnsemble")()


@dataclass(frozen=True)
class Trained:
    """Two members that learned three kinds of rows, and data they did not see."""

    ensemble: nn.Module
    run: object
    train: object
    held_out: object
    test: object


@pytest.fixture(scope="module")
def trained():
    train, held_out, test = table(96), table(90, seed=1), table(80, seed=2)
    ensemble = public("Ensemble").build(network, members=2, seed=(4, 11))
    run = public("fit")(
        *(ensemble, train),
        method=public("methods.SAM")(rho=0.08),
        epochs=4,
        batch_size=24,
        progress="none",
    )
    return Trained(ensemble, run, train, held_out, test)


@contextmanager
def batches_of(module):
    """Collect the sizes of the batches that go through a module."""
    sizes = []
    hook = module.register_forward_hook(lambda m, x, out: sizes.append(len(x[0])))
    yield sizes
    hook.remove()


def joined_probs(logits, rule):
    """Return the ensemble's probabilities by either rule, by hand."""
    if rule == "logit":
        return logits.mean(0).softmax(-1)
    return logits.softmax(-1).mean(0)


def plain(run, *, before, gradient, rates=(0.3,) * 3, **how):
    """Raise unless a run's members are where a descent by hand leads."""
    for member, found in zip(before, run.ensemble.members, strict=True):
        near(flat(found), descended(member, gradient, rates, **how)[-1], 1e-7)


# Arguments of fit ----------------------------------------------------------------


def counted_loss():
    """Return a loss, and the sizes of the batches it was asked about in training."""
    sizes = []

    def loss(outputs, targets):
        if outputs.requires_grad:
            sizes.append(len(targets))
        return F.cross_entropy(outputs, targets, reduction="none")

    return loss, sizes


def fit_epochs(folder):
    data = exact()
    before, run = fitted(PLAIN, data, epochs=5)
    assert [record.epoch for record in run.history] == [0, 1, 2, 3, 4]
    plain(run, before=before, gradient=lambda m: slope(m, whole(data)), rates=[0.3] * 5)
    losses = [whole(data)(member).item() for member in before]
    assert run.history[0].loss == pytest.approx(losses)


def fit_batch_size(folder):
    loss, sizes = counted_loss()
    fitted(PLAIN, exact(48), epochs=2, members=1, batch_size=20, loss=loss)
    assert sizes == [20] * 6  # the last batch is filled


def fit_method(folder):
    data = exact()
    before, run = fitted(public("methods.SAM")(rho=0.25), data)
    plain(run, before=before, gradient=lambda m: uphill(m, whole(data), 0.25))


def fit_loss(folder):
    data = exact()
    how = {"label_smoothing": 0.2, "class_weights": (1.0, 2.5, 0.5)}
    loss = public("losses.CrossEntropy")(**how)
    before, run = fitted(PLAIN, data, loss=loss)
    options = {"weight": torch.tensor(how["class_weights"]).double()}
    options |= {"label_smoothing": 0.2, "reduction": "none"}

    def by_hand(module):
        return F.cross_entropy(module(data.inputs), data.targets, **options).mean()

    plain(run, before=before, gradient=lambda m: slope(m, by_hand))


def fit_optimizer(folder):
    data = exact()
    kinds = {
        public("SGD")(lr=0.2, momentum=0.5, weight_decay=0.03, nesterov=True): partial(
            torch.optim.SGD, lr=0.2, momentum=0.5, weight_decay=0.03, nesterov=True
        ),
        public("AdamW")(
            lr=0.02, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.2
        ): partial(
            torch.optim.AdamW, lr=0.02, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.2
        ),
        partial(torch.optim.RMSprop, lr=0.01): partial(torch.optim.RMSprop, lr=0.01),
    }
    for ours, theirs in kinds.items():
        before, run = fitted(PLAIN, data, optimizer=ours)
        for member, found in zip(before, run.ensemble.members, strict=True):
            optimizer = theirs(list(member.parameters()))
            for _ in range(3):
                optimizer.zero_grad()
                whole(data)(member).backward()
                optimizer.step()
            near(flat(found), flat(member), 1e-6)


def fit_schedule(folder):
    data = exact()
    shapes = {
        public("Cosine")(final=0.2): [
            0.2 + 0.8 * (1 + math.cos(math.pi * t / 4)) / 2 for t in range(4)
        ],
        public("MultiStep")(milestones=(1, 0.75), gamma=0.5): [1, 0.5, 0.5, 0.25],
        public("Constant")(warmup=2.0): None,
    }
    for schedule, factors in shapes.items():
        before, run = fitted(PLAIN, data, epochs=4, schedule=schedule)
        rates = [record.learning_rate[0] for record in run.history]
        if factors is not None:
            assert rates == pytest.approx([0.3 * factor for factor in factors])
        else:
            assert rates[0] < rates[1] <= rates[2] == pytest.approx(0.3)
        gradient = partial(lambda m: slope(m, whole(data)))
        plain(run, before=before, gradient=gradient, rates=rates)


def convnet():
    return public("models.ConvNet")(3, in_channels=3, width=4)


def fit_augment(folder):
    data = images(24)
    mirrored = replace(data, inputs=data.inputs.flip(-1))
    flip = public("data.HorizontalFlip")(probability=1.0)
    how = {"model": convnet, "members": 2, "batch_size": 12}
    turned = fitted(PLAIN, data, augment=[flip], **how)[1]
    given = fitted(PLAIN, mirrored, **how)[1]
    assert same_bits(turned.ensemble, given.ensemble)
    assert not same_bits(turned.ensemble, fitted(PLAIN, data, **how)[1].ensemble)


def fit_validation(folder):
    data, held_out = exact(), exact(30, seed=4)
    run = fitted(PLAIN, data, validation=held_out)[1]
    last = run.history[-1]
    members = run.ensemble.members
    expected = [whole(held_out)(member).item() for member in members]
    assert last.validation_loss == pytest.approx(expected)
    right = [
        float((m(held_out.inputs).argmax(1) == held_out.targets).float().mean())
        for m in members
    ]
    assert last.validation_accuracy == pytest.approx(right)
    loss, sizes = counted_loss()
    fitted(PLAIN, data, members=1, epochs=1, validation=0.25, loss=loss)
    assert sizes[-1] == 36


def fit_unlabeled(folder):
    A2D = public("methods.A2D")(weight=0.5)
    runs = [
        fitted(A2D, exact(), unlabeled=exact(seed=seed))[1].ensemble
        for seed in (1, 2, 2)
    ]
    assert same_bits(runs[1], runs[2])
    assert not same_bits(runs[0], runs[1])


def fit_sample_weights(folder):
    data = exact()
    factors = torch.linspace(0.2, 1.8, len(data)).double()

    def weighted(module):
        losses = F.cross_entropy(module(data.inputs), data.targets, reduction="none")
        return (factors * losses).mean()

    before, run = fitted(PLAIN, data, sample_weights=factors)
    plain(run, before=before, gradient=lambda m: slope(m, weighted))


def fit_keep(folder):
    data, held_out = exact(24), exact(60, seed=5)
    how = {"validation": held_out, "optimizer": public("SGD")(lr=6.0)}
    last = fitted(PLAIN, data, epochs=6, **how)[1]
    best = fitted(PLAIN, data, epochs=6, keep="best", **how)[1]
    losses = np.array([record.validation_loss for record in last.history])
    for place, member in enumerate(best.ensemble.members):
        found = whole(held_out)(member).item()
        assert found == pytest.approx(losses[:, place].min())
    assert not np.allclose(losses.min(0), losses[-1])
    assert len(best.best_epochs) == 3


def fit_early_stopping(folder):
    data, held_out, margin = exact(24), exact(60, seed=5), 0.15
    stopping = public("EarlyStopping")("loss", patience=3, min_delta=margin)
    how = {"validation": held_out, "optimizer": public("SGD")(lr=0.1)}
    run = fitted(PLAIN, data, epochs=30, early_stopping=stopping, **how)[1]
    means = [np.mean(record.loss) for record in run.history]
    assert (np.diff(means) < 0).all()  # every epoch is better, but by how much?
    best, waited, ends = math.inf, 0, []
    for mean in means:
        waited = 0 if mean < best - margin else waited + 1
        best = mean if waited == 0 else best
        ends.append(waited == 3)
    assert ends == [False] * (len(means) - 1) + [True]
    assert len(means) < 30
    assert run.stopped_by == "EarlyStopping"


def fit_accumulate(folder):
    data, (loss, sizes) = exact(), counted_loss()
    before, run = fitted(PLAIN, data, accumulate=3, loss=loss)
    assert sizes[-3:] == [16, 16, 16]
    plain(run, before=before, gradient=lambda m: slope(m, whole(data)))


def fit_clip_norm(folder):
    data, bound = exact(), 0.1

    def clipped(module):
        found = slope(module, whole(data))
        assert found.norm() > bound
        return found * (bound / found.norm())

    before, run = fitted(PLAIN, data, clip_norm=bound)
    for member, found in zip(before, run.ensemble.members, strict=True):
        near(flat(found), descended(member, clipped, [0.3] * 3)[-1], 1e-5)


def fit_method_average(folder):
    data = exact()
    before, run = fitted(public("methods.EoA")(), data, epochs=8)
    for member, found in zip(before, run.ensemble.members, strict=True):
        path = descended(member, lambda m: slope(m, whole(data)), [0.3] * 8)
        near(flat(found), torch.stack(path[6:]).mean(0), 1e-7)


def fit_ema(folder):
    data = exact()
    before, run = fitted(PLAIN, data, epochs=6, ema=0.7)
    for member, found in zip(before, run.ensemble.members, strict=True):
        _, mean, *path = descended(member, lambda m: slope(m, whole(data)), [0.3] * 6)
        for weights in path:
            mean = 0.7 * mean + 0.3 * weights
        near(flat(found), mean, 1e-7)


def fit_part_at(folder):
    data = exact()
    before, run = fitted(PLAIN, data, epochs=4, part_at=3)
    path = descended(before[0], lambda m: slope(m, whole(data)), [0.3] * 4)
    for found in run.ensemble.members:
        near(flat(found), path[-1], 1e-7)
    how = {"epochs": 4, "batch_size": 12}
    parted = fitted(PLAIN, data, part_at=3, **how)[1]
    alone = fitted(PLAIN, data, members=1, **how)[1]
    first, second, _ = map(flat, parted.ensemble.members)
    assert torch.equal(first, flat(alone.ensemble.members[0]))
    assert not torch.equal(first, second)
    for record in parted.history:
        assert (len({*record.loss}) == 1) == (record.epoch < 3)


def batch_normalized():
    return nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)).double()


def fit_precision(folder):
    data = table(48)
    ensembles = {
        precision: fitted(PLAIN, data, model=network, precision=precision)[1].ensemble
        for precision in ("float32", "auto", "bfloat16")
    }
    assert same_bits(ensembles["float32"], ensembles["auto"])
    pairs = zip(
        *(ensembles[name].members for name in ("float32", "bfloat16")), strict=True
    )
    for first, second in pairs:
        gap = float((flat(first) - flat(second)).norm() / flat(first).norm())
        assert 1e-5 < gap < 0.1


def fit_execution(folder):
    """What decides how a run is carried out is told, and changes no bit."""
    told, data = [], table(48)

    class Told(public("Callback")):
        def on_start(self, config):
            told.append(json.dumps(config, default=str))
            told.append(torch.are_deterministic_algorithms_enabled())

    usual = fitted(PLAIN, data, model=network)[1].ensemble
    options = {
        "deterministic": True,
        "runner": "eager",
        "compile": False,
        "offload": True,
        "device": "cpu",
        "exchange": public("training.LocalExchange")(),
        "callbacks": [Told()],
    }
    run = fitted(PLAIN, data, model=network, **options)[1]
    assert same_bits(run.ensemble, usual)
    assert told[1] is True
    assert "eager" in told[0]


class Listed(torch.utils.data.Dataset):
    """A data set that is read item by item."""

    def __init__(self, data):
        self.data = data

    def __len__(self):
        return len(self.data)

    def __getitem__(self, place):
        return self.data.inputs[place], self.data.targets[place]


def fit_workers(folder):
    data = table(48)
    how = {"model": network, "epochs": 1, "batch_size": 16}
    alone = fitted(PLAIN, data, **how)[1].ensemble
    assert same_bits(fitted(PLAIN, Listed(data), workers=1, **how)[1].ensemble, alone)


def fit_callbacks(folder):
    told = []

    class Told(public("Callback")):
        def on_start(self, config):
            told.append("start")

        def on_epoch(self, record):
            told.append(record.epoch)
            return record.epoch == 2

        def on_end(self, run):
            told.append(len(run.history))

    run = fitted(PLAIN, exact(), epochs=7, callbacks=[Told(), told.append])[1]
    assert told[0] == "start"
    assert [t for t in told if isinstance(t, int)] == [0, 1, 2, 3]
    assert len([t for t in told if hasattr(t, "loss")]) == 3
    assert len(run.history) == 3
    assert run.stopped_by is not None


def fit_folder(folder):
    """A run that was stopped goes on to the same bits, and so do its branches."""
    data, SAM = table(48), public("methods.SAM")
    how = {"model": network, "epochs": 6, "batch_size": 20}
    whole_run = fitted(SAM(rho=0.2), data, **how)[1]
    out = folder / "run"
    stopped = fitted(SAM(rho=0.2), data, out=out, stop_after=3, **how)[1]
    assert len(stopped.history) == 3
    assert not same_bits(stopped.ensemble, whole_run.ensemble)
    with pytest.raises(FileExistsError):
        fitted(SAM(rho=0.2), data, out=out, **how)
    resumed = fitted(SAM(rho=0.2), data, out=out, resume=True, **how)[1]
    assert same_bits(resumed.ensemble, whole_run.ensemble)
    assert len(resumed.history) == 6
    assert resumed.path == out
    assert same_bits(public("load")(out, network), whole_run.ensemble)

    def kill(record):
        if record.epoch == 2:
            raise RuntimeError("killed")

    again, rare = [], {"out": folder / "rare", "checkpoint_every": 4}
    with pytest.raises(RuntimeError, match="killed"):
        fitted(PLAIN, data, callbacks=[kill], **rare, **how)
    note = lambda record: again.append(record.epoch)  # noqa: E731
    fitted(PLAIN, data, resume=True, callbacks=[note], **rare, **how)
    assert again == [0, 1, 2, 3, 4, 5]
    begun = folder / "begun"
    fitted(PLAIN, data, out=begun, stop_after=4, **how)
    late = SAM(rho=0.2, start_at=4)
    branch = fitted(late, data, out=folder / "branch", branch_from=begun, **how)[1]
    assert same_bits(branch.ensemble, fitted(late, data, **how)[1].ensemble)
    assert not same_bits(branch.ensemble, fitted(PLAIN, data, **how)[1].ensemble)


def fit_progress(folder):
    out = folder.capsys
    fitted(PLAIN, exact(), epochs=2)
    assert out.readouterr() == ("", "")
    ensemble = public("Ensemble").build(smooth, members=2)
    public("fit")(ensemble, exact(), method=PLAIN, epochs=2, progress="lines")
    said = out.readouterr()
    assert len((said.out + said.err).strip().splitlines()) >= 2


FIT = {
    "epochs": fit_epochs,
    "batch_size": fit_batch_size,
    "method": fit_method,
    "loss": fit_loss,
    "optimizer": fit_optimizer,
    "schedule": fit_schedule,
    "augment": fit_augment,
    "validation": fit_validation,
    "unlabeled": fit_unlabeled,
    "sample_weights": fit_sample_weights,
    "keep": fit_keep,
    "early_stopping": fit_early_stopping,
    "accumulate": fit_accumulate,
    "clip_norm": fit_clip_norm,
    "average of method": fit_method_average,
    "ema": fit_ema,
    "part_at": fit_part_at,
    "precision": fit_precision,
    "device, deterministic, runner, compile, offload": fit_execution,
    "workers": fit_workers,
    "callbacks": fit_callbacks,
    "out, resume, branch_from, checkpoint_every, stop_after": fit_folder,
}


@pytest.mark.parametrize("argument", FIT)
def test_an_argument_of_fit_arrives(argument, tmp_path):
    FIT[argument](tmp_path)


def test_progress_is_shown_if_asked(capsys):
    fit_progress(SimpleNamespace(capsys=capsys))


# Ensembles -----------------------------------------------------------------------


def ensemble(got, folder):
    """Built from seeds; predicts by either rule; saved and loaded to the same bits."""
    Ensemble, data = public("Ensemble"), got.test
    built = Ensemble.build(smooth, members=3, seed=21)
    assert len(built) == 3
    assert same_bits(built, Ensemble.build(smooth, members=3, seed=21))
    assert not same_bits(built, Ensemble.build(smooth, members=3, seed=22))
    found = got.ensemble
    members = torch.stack([m.eval()(data.inputs) for m in found.members]).detach()
    with batches_of(found.members[1]) as sizes:
        logits = found.logits(data.inputs, batch_size=7)
    assert sizes == [7] * 11 + [3]
    near(logits, members, 1e-5)
    for rule in ("probability", "logit"):
        with batches_of(found.members[1]) as sizes:
            out = found.predict(data, rule=rule, batch_size=9)
        assert sizes == [9] * 8 + [8]
        probs = joined_probs(members, rule)
        near(out.probs, probs, 1e-5)
        assert torch.equal(out.labels, probs.argmax(1))
        near(out.confidence, probs.amax(1), 1e-5)
    p = members.softmax(-1)
    entropy = -(p.mean(0) * p.mean(0).log()).sum(-1)
    own = -(p * p.log()).sum(-1).mean(0)
    near(out.total_uncertainty, entropy, 1e-4)
    near(out.aleatoric, own, 1e-4)
    near(out.epistemic, entropy - own, 1e-4)
    near(out.ood_score("pds"), p.amax(0).mean(-1), 1e-5)
    found.save(folder / "saved")
    again = public("load")(folder / "saved", network)
    assert torch.equal(again.logits(data.inputs), found.logits(data.inputs))
    with pytest.raises(FileExistsError):
        found.save(folder / "saved")
    found.subset([1]).save(folder / "saved", overwrite=True)
    assert len(public("load")(folder / "saved", network)) == 1


def calibrate(got, folder):
    """One temperature, by the likelihood of held-out data; either rule."""
    for rule in ("probability", "logit"):
        found = public("load")(saved(got, folder, rule), network)
        found.calibrate(got.held_out, method="temperature", rule=rule)
        logits = got.ensemble.logits(got.held_out.inputs).double()

        def nll(log_t, logits=logits, rule=rule):
            p = joined_probs(logits / math.exp(log_t), rule)
            return F.nll_loss(p.log(), got.held_out.targets).item()

        best = optimize.minimize_scalar(nll, bounds=(-3, 3), method="bounded").x
        expected = joined_probs(
            got.ensemble.logits(got.test.inputs) / math.exp(best), rule
        )
        near(found.predict(got.test, rule=rule).probs, expected, 1e-3)
        assert abs(best) > 0.01
    kinds = {}
    for method in ("temperature", "vector", "isotonic"):
        found = public("load")(folder / "logit", network)
        found.calibrate(got.held_out, method=method)
        kinds[method] = found.predict(got.held_out).probs
        right = kinds[method][range(90), got.held_out.targets]
        raw = got.ensemble.predict(got.held_out).probs[range(90), got.held_out.targets]
        assert right.clamp(min=1e-9).log().mean() > raw.log().mean()
    for first, second in combinations(kinds.values(), 2):
        assert not torch.allclose(first, second)


def saved(got, folder, name):
    got.ensemble.save(folder / name)
    return folder / name


def conformal(got, folder):
    """Sets are those of the quantile of held-out scores."""
    saved(got, folder, "raw")
    for rule, coverage in (("probability", 0.8), ("logit", 0.6)):
        found = public("load")(folder / "raw", network)
        found.conformal(got.held_out, coverage=coverage, score="threshold", rule=rule)
        probs = [
            joined_probs(got.ensemble.logits(part.inputs), rule)
            for part in (got.held_out, got.test)
        ]
        scores = (1 - probs[0][range(90), got.held_out.targets]).sort().values
        limit = scores[math.ceil(91 * coverage) - 1]
        sets = found.predict(got.test, rule=rule).sets
        assert torch.equal(sets, 1 - probs[1] <= limit + 1e-6)
        found.conformal(got.held_out, coverage=coverage, score="aps", rule=rule)
        sure = found.predict(got.held_out, rule=rule).sets
        held = sure[range(90), got.held_out.targets].float().mean()
        assert coverage <= held <= 1
        assert sure.any(1).all()


def on_features(got, folder):
    """Heads share one frozen extractor, which runs before each of them."""
    torch.manual_seed(3)
    body = nn.Sequential(nn.Linear(6, 5), nn.Tanh())
    built = public("Ensemble").on_features(body, partial(nn.Linear, 5, 3), 3, seed=8)
    x = got.test.inputs
    expected = torch.stack([head(body(x)) for head in built.heads.members]).detach()
    near(built.logits(x), expected, 1e-5)
    with batches_of(built.extractor) as sizes:
        features = public("cached_features")(
            *(built.extractor, got.test, folder), batch_size=13
        )
    assert (sizes.count(13), max(sizes)) == (6, 13)
    near(features.inputs, body(x).detach(), 1e-6)
    assert torch.equal(features.targets, got.test.targets)
    assert any(folder.iterdir())


def cached_features(got, folder):
    """Several passes over changed images stand after each other."""
    data = images(12)
    body = nn.Sequential(nn.Flatten(), nn.Linear(192, 4))
    crop = public("data.RandomCrop")(padding=2)
    how = {"passes": 3, "augment": [crop], "seed": 5}
    found = public("cached_features")(body, data, folder / "a", **how)
    assert found.inputs.shape == (36, 4)
    assert torch.equal(found.targets, data.targets.repeat(3))
    again = public("cached_features")(body, data, folder / "b", **how)
    other = public("cached_features")(body, data, folder / "c", **how | {"seed": 6})
    assert torch.equal(found.inputs, again.inputs)
    assert not torch.equal(found.inputs, other.inputs)
    assert not torch.equal(found.inputs[:12], found.inputs[12:24])


def run_in_a_folder(got, folder):
    """A folder is the run: it goes on to the same bits, says its history, evaluates."""
    build = partial(public("Ensemble").build, network, members=2, seed=(4, 11))
    how = {"method": public("methods.SAM")(rho=0.08), "epochs": 3, "progress": "none"}
    whole = public("fit")(build(), got.train, out=folder / "whole", **how)
    public("fit")(build(), got.train, out=folder / "half", stop_after=1, **how)
    half = public("Run").open(folder / "half", network)
    assert len(half.history) == 1
    done = half.resume(got.train, progress="none")
    assert same_bits(done.ensemble, whole.ensemble)
    again = public("Run").open(folder / "half", network)
    assert [r.loss for r in again.history] == [r.loss for r in whole.history]
    assert again.spec.method.rho == 0.08
    nll = again.evaluate(got.test).clean.nll
    assert again.evaluations["clean"]["nll"] == nll
    near(nll, public("evaluate")(whole.ensemble, got.test).clean.nll, 1e-6)


def ensemble_of(got, folder):
    """Weights that other programs saved, one architecture for each member."""
    torch.manual_seed(1)
    first, second = nn.Linear(6, 3), network().eval()
    torch.save({"epoch": 3, "state_dict": first.state_dict()}, folder / "a.pt")
    prefixed = {f"module.{name}": t for name, t in second.state_dict().items()}
    torch.save(prefixed, folder / "b.pt")
    files = [folder / "a.pt", folder / "b.pt"]
    found = public("ensembles.ensemble_of")(files, [partial(nn.Linear, 6, 3), network])
    x = got.test.inputs
    near(found.logits(x), torch.stack([first(x), second(x)]).detach(), 1e-6)


def task(got, folder):
    """A task says what outputs mean: here numbers, whose spread is known."""
    torch.manual_seed(2)
    built = public("Ensemble").build(partial(nn.Linear, 6, 2), members=4, seed=3)
    built.task = public("tasks.Numbers")()
    out, x = built.predict(got.test.inputs), got.test.inputs
    members = torch.stack([m(x) for m in built.members]).detach()
    near(out.mean, members.mean(0), 1e-6)
    near(out.std, members.std(0, correction=0), 1e-4)


def evaluate(got, folder):
    """Scores by the rule and classes asked for, and those of one's own."""
    noise = public("data.Arrays")(4 * torch.randn(50, 6), torch.zeros(50).long())
    shifted = {"warm": replace(got.test, inputs=got.test.inputs + 0.7)}
    margin = lambda logits, labels: logits.mean()  # noqa: E731
    mask = torch.tensor([True, True, True])
    for rule in ("probability", "logit"):
        with batches_of(got.ensemble.members[1]) as sizes:
            found = public("evaluate")(
                *(got.ensemble, got.test),
                shifted=shifted,
                ood={"noise": noise},
                classes=mask,
                metrics={"margin": margin},
                rule=rule,
                batch_size=11,
                out=folder / rule,
                logits_in="float16",
            )
        assert sizes.count(11) >= 7 + 4 + 7
        assert max(sizes) == 11
        logits = got.ensemble.logits(got.test.inputs)
        probs, y = joined_probs(logits, rule), got.test.targets
        clean = found.clean
        right = (probs.argmax(1) == y).float().mean()
        assert clean.accuracy == pytest.approx(float(right))
        assert clean.nll == pytest.approx(float(F.nll_loss(probs.log(), y)), rel=1e-4)
        brier = (probs - F.one_hot(y, 3)).square().sum(1).mean()
        assert clean.brier == pytest.approx(float(brier), rel=1e-4)
        own = (logits.argmax(-1) == y).float().mean(1)
        assert clean.member_accuracies == pytest.approx(own.tolist())
        assert clean.individual_accuracy == pytest.approx(float(own.mean()))
        assert clean.improvement == pytest.approx(float(right - own.mean()), abs=1e-6)
        assert clean.custom["margin"] == pytest.approx(float(logits.mean()), abs=1e-4)
        moved_probs = joined_probs(got.ensemble.logits(shifted["warm"].inputs), rule)
        expected = (moved_probs.argmax(1) == y).float().mean()
        assert found.natural["warm"].accuracy == pytest.approx(float(expected))
        scores = [
            1 - got.ensemble.logits(part.inputs).softmax(-1).mean(0).amax(-1)
            for part in (got.test, noise)
        ]
        wins = (scores[1][:, None] > scores[0]).float().mean()
        wins += (scores[1][:, None] == scores[0]).float().mean() / 2
        seen = found.ood["noise"]["max_mean_probability"].auroc
        assert seen == pytest.approx(float(wins), abs=1e-3)
        stored = public("read_logits")(folder / rule)
        near(stored.clean[0].float(), logits, 2e-3)
        assert stored.clean[0].dtype == torch.float16
        assert (stored.rule, found.rule) == (rule, rule)
    recall = [
        float((joined_probs(logits, "logit").argmax(1)[y == c] == c).float().mean())
        for c in range(3)
    ]
    assert found.by_class.recall == pytest.approx(recall)


def measure(got, folder):
    """Every member is measured on the same samples, by options of one's own."""
    double = public("Ensemble")([m.double() for m in copied(got.ensemble)])
    data = exact(40)
    measured = public("measure")(
        double,
        data,
        {"flat": partial(public("sharpness.sam_sharpness"), rho=0.02, num_draws=4)},
        seed=5,
    )
    assert list(measured) == ["flat"]
    values = [member.value for member in measured["flat"].members]
    assert measured["flat"].mean == pytest.approx(np.mean(values))
    for member, value in zip(double.members, values, strict=True):
        alone = public("sharpness.sam_sharpness")(
            member, data, rho=0.02, num_draws=4, generator=None
        )
        assert alone.settings["rho"] == 0.02
        assert value != alone.value  # another seed
    worst = partial(public("sharpness.fisher_rao"), num_samples=30)
    smoothed = public("losses.CrossEntropy")(label_smoothing=0.3)
    plain_value = public("measure")(double, data, worst)["fisher_rao"]
    assert {m.settings["samples"] for m in plain_value.members} == {30}
    other = public("measure")(double, data, worst, loss=smoothed)["fisher_rao"].mean
    assert other != plain_value.mean


def prune(got, folder):
    """The smallest weights go, at the share of the run that was asked for."""
    seen = []
    built = public("Ensemble").build(network, members=2, seed=3)
    sparsity_of = public("modules.sparsity_of")

    def note(record):
        seen.append([sparsity_of(member) for member in built.members])

    public("fit")(
        *(built, got.train),
        method=PLAIN,
        epochs=4,
        prune=public("Prune")(sparsity=(0.25, 0.5), prune_at=0.75),
        callbacks=[note],
        progress="none",
    )
    assert seen[:3] == [[0, 0]] * 3
    assert seen[3] == pytest.approx([0.25, 0.5], abs=0.02)
    weights = [m.weight for m in built.members[1] if isinstance(m, nn.Linear)]
    zeros = sum(int((w == 0).sum()) for w in weights)
    assert seen[3][1] == pytest.approx(zeros / sum(w.numel() for w in weights))


def hyperparameter_grid(got, folder):
    """Every member has a cell of its own while there are enough."""
    found = public("hyperparameter_grid")(
        6, seed=3, lr=(0.1, 0.2, 0.4), label=(0.0, 0.3)
    )
    cells = list(zip(found["lr"], found["label"], strict=True))
    assert sorted(cells) == [(a, b) for a in (0.1, 0.2, 0.4) for b in (0.0, 0.3)]
    other = public("hyperparameter_grid")(
        6, seed=4, lr=(0.1, 0.2, 0.4), label=(0.0, 0.3)
    )
    assert other != found


def aggregations(got, folder):
    """Members, ensembles and soups are compared on the same data."""
    built = public("Ensemble").build(partial(nn.Linear, 6, 3), members=3, seed=5)
    found = public("aggregations")(built, got.test, held_out=got.held_out, batch_size=9)
    logits, y = built.logits(got.test.inputs), got.test.targets
    accuracies = [row.accuracy for row in found]
    for probs in (joined_probs(logits, "probability"), joined_probs(logits, "logit")):
        right = float((probs.argmax(1) == y).float().mean())
        assert any(right == pytest.approx(a) for a in accuracies)
    soup = sum(m.weight for m in built.members) / 3
    bias = sum(m.bias for m in built.members) / 3
    right = ((got.test.inputs @ soup.T + bias).argmax(1) == y).float().mean()
    assert any(float(right) == pytest.approx(a) for a in accuracies)
    best = float((logits.argmax(-1) == y).float().mean(1).max())
    assert [row.accuracy for row in found if row.oracle] == [pytest.approx(best)]
    fewer = public("aggregations")(built, got.test, soups=False)
    assert len(fewer) < len(found)


# Methods -------------------------------------------------------------------------


def flat_methods(got, folder):
    """SAM and SharpBalance perturb by rho; relative to each weight if adaptive."""
    data, rho = exact(), 0.3

    def adaptive(module):
        w, here = flat(module).abs(), slope(module, whole(data))
        step = rho * w**2 * here / (w * here).norm()
        return slope(moved(module, step), whole(data))

    before, run = fitted(public("methods.SAM")(rho=rho, adaptive=True), data)
    plain(run, before=before, gradient=adaptive)
    before, run = fitted(public("methods.SAM")(rho=rho, start_at=2), data)
    for member, found in zip(before, run.ensemble.members, strict=True):
        path = descended(member, lambda m: slope(m, whole(data)), [0.3] * 2)
        middle = moved(member, path[-1] - path[0])
        end = descended(middle, lambda m: uphill(m, whole(data), rho), [0.3])
        near(flat(found), end[-1], 1e-7)


def sharpbalance(got, folder):
    """With all samples selected it is SAM from the switch on."""
    method = public("methods.SharpBalance")(rho=0.3, fraction=1.0, switch_at=2)
    late = public("methods.SAM")(rho=0.3, start_at=2)
    data = exact()
    found, expected = (fitted(each, data)[1].ensemble for each in (method, late))
    for one, two in zip(found.members, expected.members, strict=True):
        near(flat(one), flat(two), 1e-9)
    run = fitted(replace(method, fraction=0.25, leftover="none"), data)[1]
    assert run.summary["samples"] == 48
    assert all(12 <= size <= 24 for size in run.summary["sizes"])
    assert np.allclose(np.diag(run.summary["overlaps"]), 1)


def deep_ensemble(got, folder):
    """Each member descends its own loss."""
    data = exact()
    before, run = fitted(PLAIN, data, epochs=4)
    gradient = partial(slope, loss=whole(data))
    plain(run, before=before, gradient=gradient, rates=[0.3] * 4)


def diverse(kind, got, folder):
    """Members of a larger weight disagree more where labels do not say otherwise."""
    stream = torch.Generator().manual_seed(0)
    labels = torch.randint(3, (90,), generator=stream)
    signs = F.one_hot(labels, 3).float()
    train = public("data.Arrays")(signs.repeat(1, 2), labels)
    free = torch.eye(3)[torch.randint(3, (90, 2), generator=stream)].flatten(1)
    unlabeled = public("data.Arrays")(free, torch.zeros(90).long())
    found = []
    weights = (0.0, 3.0) if kind == "A2D" else (0.0, 12.0)
    for weight in weights:
        method = public(f"methods.{kind}")(weight=weight)
        built = public("Ensemble").build(partial(nn.Linear, 6, 3), members=2, seed=3)
        optimizer = public("AdamW")(lr=0.06)
        given = {"unlabeled": unlabeled} if kind != "SED" else {}
        public("fit")(
            *(built, train),
            method=method,
            epochs=25,
            optimizer=optimizer,
            progress="none",
            **given,
        )
        found.append(float(public("metrics.disagreement")(built.logits(free))))
    return found


def a2d(got, folder):
    found = diverse("A2D", got, folder)
    assert found[1] > found[0] + 0.1


def divdis(got, folder):
    found = diverse("DivDis", got, folder)
    assert found[1] > found[0] + 0.1


def sed(got, folder):
    """The pair drawn shares one step; the joint loss is theirs."""
    how = {"members": 4, "epochs": 3, "batch_size": 16}
    method = public("methods.SED")(weight=0.4, active=2)
    _, run = fitted(method, exact(), **how)
    for record in run.history:
        assert sum(loss is not None for loss in record.loss) >= 2
        assert record.joint_loss > np.mean(record.trained) - 0.2
    other = fitted(replace(method, weight=0.0), exact(), **how)[1]
    assert not same_bits(run.ensemble, other.ensemble)


def snapshots(got, folder):
    """Each member is the end of a cycle, at whose beginning the rate is restored."""
    data, method = exact(), public("methods.SnapshotEnsemble")()
    how = {"schedule": public("Cosine")(), "epochs": 6}
    before, run = fitted(method, data, **how)
    rates = [0.3, 0.15] * 3
    path = descended(before[0], lambda m: slope(m, whole(data)), rates)
    for place, found in enumerate(run.ensemble.members, 1):
        near(flat(found), path[2 * place], 1e-7)


# Data ----------------------------------------------------------------------------


def arrays(got, folder):
    """Pairs with a length, normalized where images are bytes; parts by position."""
    data = images(9)
    x, y = data[4]
    mean, std = data.normalize.mean, data.normalize.std
    expected = (data.inputs[4].float() / 255 - torch.tensor(mean)[:, None, None]) / (
        torch.tensor(std)[:, None, None]
    )
    near(x, expected, 1e-5)
    assert (len(data), int(y)) == (9, int(data.targets[4]))
    part = data.subset([7, 2])
    assert torch.equal(part.inputs, data.inputs[[7, 2]])
    of = public("data.Normalize").of(torch.tensor([[1.0, 10.0], [3.0, 50.0]]))
    assert of.mean == pytest.approx((2, 30))


def array_files(got, folder):
    """numpy files, channels last or first, normalized by given numbers."""
    draw = np.random.default_rng(0)
    pixels = draw.integers(0, 256, (9, 8, 8, 3), dtype=np.uint8)
    labels = np.arange(9) % 3
    np.savez(
        folder / "mine.npz",
        x_train=pixels,
        y_train=labels,
        x_test=pixels[:4],
        y_test=labels[:4],
    )
    how = {"channels": "last", "mean": (0.3, 0.4, 0.5), "std": (0.2, 0.25, 0.3)}
    train = public("data.ArrayFile")(folder / "mine.npz", **how)
    test = public("data.ArrayFile")(folder / "mine.npz", train=False, **how)
    assert (train.inputs.numpy() == pixels.transpose(0, 3, 1, 2)).all()
    assert (len(test), test.targets.tolist()) == (4, [0, 1, 2, 0])
    assert train.normalize.mean == (0.3, 0.4, 0.5)
    assert train.normalize.std == (0.2, 0.25, 0.3)


def arrays_on_disk(got, folder):
    """Rows are read when they are asked for and train to the same bits."""
    data = images(30)
    np.save(folder / "x.npy", data.inputs.numpy().transpose(0, 2, 3, 1))
    np.save(folder / "y.npy", data.targets.numpy())
    stored = public("data.ArraysOnDisk")(
        folder / "x.npy", folder / "y.npy", data.normalize, channels="last"
    )
    assert torch.equal(public("data.to_arrays")(stored).inputs, data.inputs)
    assert len(stored.subset([3, 7])) == 2
    how = {"model": convnet, "members": 2, "batch_size": 10, "epochs": 2}
    found, expected = (
        fitted(PLAIN, each, **how)[1].ensemble for each in (stored, data)
    )
    assert same_bits(found, expected)


def digits(got, folder):
    """1797 images of ten classes, a fixed part of them for testing."""
    train, test = public("data.Digits")(), public("data.Digits")(train=False)
    assert (len(train) + len(test), len(test)) == (1797, 360)
    assert train.inputs.shape[1:] == (1, 8, 8)
    assert set(test.targets.tolist()) == set(range(10))


def pictures(folder, sizes=((20, 24), (30, 20))):
    """Write images of two classes for training and test."""
    draw = np.random.default_rng(0)
    for part, count in (("train", 6), ("test", 3)):
        for name, shade in (("bright", 160), ("dark", 40)):
            place = folder / part / name
            place.mkdir(parents=True)
            for number in range(count):
                size = sizes[number % 2]
                pixels = draw.integers(0, 60, (*size, 3)) + shade
                file = place / f"{number}.png"
                Image.fromarray(pixels.astype(np.uint8)).save(file)
    return folder


def image_folder(got, folder):
    """One folder per class, cut to a square of the size asked for."""
    root = pictures(folder / "photos")
    how = {"size": 16, "mean": (0.3, 0.3, 0.3), "std": (0.5, 0.5, 0.5)}
    train = public("data.ImageFolder")(root, **how)
    test = public("data.ImageFolder")(root, train=False, **how)
    assert (len(train), len(test)) == (12, 6)
    assert train.classes == ("bright", "dark")
    x, y = test[4]
    assert x.shape == (3, 16, 16)
    assert int(y) == 1
    near(x.mean(), (torch.tensor(69.5 / 255) - 0.3) / 0.5, 0.15)
    raw = test.raw(torch.arange(6))
    assert (raw.dtype, raw.shape) == (torch.uint8, (6, 3, 16, 16))
    every = public("data.ImageFolder")(root / "test", part="all", **how)
    assert len(every) == 6


def csv_table(got, folder):
    """Columns are standardized by the training rows, words become ones and zeros."""
    draw = np.random.default_rng(1)
    for part, count in (("train", 60), ("test", 20)):
        lines = ["size,city,id,sold"]
        for number in range(count):
            size, city = draw.uniform(40, 100), ["Bern", "Oslo"][number % 2]
            sold = "xyz"[int(size // 21) % 3]
            lines.append(f"{size:.2f},{city},{number},{sold}")
        (folder / f"{part}.csv").write_text("\n".join(lines))
    how = {"ignore": ("id",), "kind": "classes"}
    train = public("data.Table")(folder, "sold", **how)
    test = public("data.Table")(folder, "sold", train=False, **how)
    assert (len(train), len(test)) == (60, 20)
    assert train.inputs.shape == (60, 3)
    sizes = [float(line.split(",")[0]) for line in lines[1:]]
    rows_of = (folder / "train.csv").read_text().splitlines()[1:]
    learned = [float(line.split(",")[0]) for line in rows_of]
    expected = (np.array(sizes) - np.mean(learned)) / np.std(learned)
    x = torch.stack([test[n][0] for n in range(20)])
    gaps = [np.abs(x[:, c].numpy() - expected).max() for c in range(3)]
    assert min(gaps) < 0.05
    assert set(train.classes) == set("xyz")
    built = public("Ensemble").build(partial(nn.Linear, 3, 3), members=2, seed=3)
    public("fit")(built, train, method=PLAIN, epochs=1, progress="none")
    near(built.predict(folder / "test.csv").probs, built.predict(test).probs, 1e-5)


def texts(got, folder):
    """Words become numbers by one tokenizer; an ensemble that learned them keeps it."""
    train = public("data.Texts")(
        ["good day today", "bad day today", "so so so so"] * 4,
        [0, 1, 2] * 4,
        vocabulary=1500,
        length=3,
        classes=("good", "bad", "so"),
    )
    test = public("data.Texts")(["good", "bad day"], [0, 1], tokenizer=train.tokenizer)
    assert train.tokenizer == test.tokenizer
    assert len(train.tokenizer) <= 1500
    assert train.inputs["input_ids"].shape[1] == 3
    tokenizer = public("data.Tokenizer").build(
        ["The cat sat.", "A dog ran."], size=40, buckets=8
    )
    pairs = tokenizer.batch([("The cat ran.", "A zebra sat.")])
    assert set(pairs) == {"input_ids", "attention_mask", "token_type_ids"}
    assert int(pairs["input_ids"].max()) < 40
    assert tokenizer.encode("the CAT") == tokenizer.encode("The cat")
    assert tokenizer.encode("cat") != tokenizer.encode("dog")

    class Bag(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.head = nn.Embedding(1500, 4), nn.Linear(4, 3)

        def forward(self, input_ids, attention_mask):
            mask = attention_mask[..., None].float()
            return self.head((self.words(input_ids) * mask).sum(1) / mask.sum(1))

    built = public("Ensemble").build(Bag, members=2, seed=3)
    optimizer = public("AdamW")(lr=0.1)
    public("fit")(
        built, train, method=PLAIN, epochs=12, optimizer=optimizer, progress="none"
    )
    out = built.predict(["bad bad day", "so"])
    assert out.label_names == ["bad", "so"]
    built.save(folder / "texts")
    again = public("load")(folder / "texts", Bag).predict(["bad bad day", "so"])
    assert torch.equal(again.probs, out.probs)


def splits(got, folder):
    """Parts share no sample, at random by a seed or at given positions."""
    data = table(40)
    kept, held_out = public("data.split")(data, 0.3, seed=5)
    assert (len(kept), len(held_out)) == (28, 12)
    both = torch.cat([kept.inputs, held_out.inputs])
    assert sorted(both.tolist()) == sorted(data.inputs.tolist())
    np.save(folder / "at.npy", [9, 3])
    rest, given = public("data.split_at")(data, folder / "at.npy")
    assert sorted(given.inputs.tolist()) == sorted(data.inputs[[3, 9]].tolist())
    assert len(rest) == 38
    pairs = [(data.inputs[at], data.targets[at]) for at in (5, 2)]
    stacked = public("data.to_arrays")(pairs)
    assert torch.equal(stacked.inputs, data.inputs[[5, 2]])
    assert torch.equal(stacked.targets, data.targets[[5, 2]])


def noise(got, folder):
    """Noise has the form of a data set, and all bytes are equally likely."""
    like = images(6, size=12)
    uniform = public("data.UniformNoise")(50, like=like, seed=3)
    assert uniform.inputs.shape == (50, 3, 12, 12)
    assert uniform.inputs.dtype == torch.uint8
    assert uniform.normalize == like.normalize
    again = public("data.UniformNoise")(50, like=like, seed=3)
    other = public("data.UniformNoise")(50, shape=(3, 12, 12), seed=4)
    assert torch.equal(again.inputs, uniform.inputs)
    assert not torch.equal(other.inputs, uniform.inputs)
    flat_spread = math.sqrt((256**2 - 1) / 12)
    assert float(uniform.inputs.double().std()) == pytest.approx(flat_spread, rel=0.01)


def corruptions(got, folder):
    """Copies are made as each corruption makes images, one's own included."""
    data = images(6)

    def dusk(pixels, severity, draws):
        return pixels * (1 - 0.15 * severity)

    copies = public("data.corrupted")(
        data, types=("snow", dusk), severities=(4, 2), strength="imagenet", seed=3
    )
    assert [severity for _, severity in copies] == [4, 2, 4, 2]
    made = public("data.corrupt")(data.inputs, "snow", 4, strength="imagenet", seed=3)
    assert torch.equal(copies["snow", 4].inputs, made)
    weak = public("data.corrupt")(data.inputs, "snow", 4, strength="cifar", seed=3)
    assert not torch.equal(weak, made)
    found = copies["dusk", 2].inputs.double()
    assert (found - 0.7 * data.inputs).abs().max() <= 1
    public("testing.check_corruption")(dusk)
    with pytest.raises((AssertionError, ValueError)):
        public("testing.check_corruption")(
            lambda pixels, severity, draws: pixels[..., 1:]
        )


def random_crop(got, folder):
    """A window of the padded image; each of the places is met."""
    data = images(12, size=6)
    pixels = data.inputs / 255
    crop = public("data.RandomCrop")(padding=1, fill=0.6)
    padded = F.pad(pixels, (1, 1, 1, 1), value=0.6)
    windows = [padded[..., i : i + 6, j : j + 6] for i in range(3) for j in range(3)]
    seen = set()
    for seed in range(8):
        found = drawn(crop, pixels, seed)
        for place in range(12):
            hits = [torch.equal(w[place], found[place]) for w in windows]
            assert any(hits)
            seen.add(hits.index(True))
    assert seen == set(range(9))


def mixed(step, size):
    """Squared errors of zero are the share of ones that is left in each image."""
    seen = []

    class Zero(nn.Linear):
        def forward(self, x):
            if self.training:
                seen.append(x.clone())
            return 0 * super().forward(x.flatten(1))

    numbers = torch.arange(20.0) % 2
    squares = numbers[:, None, None, None].expand(20, 1, size, size)
    data = public("data.Arrays")(squares, numbers[:, None])
    how = {"loss": public("losses.MSE")(), "members": 1, "epochs": 3}
    model = partial(Zero, size**2, 1)
    run = fitted(PLAIN, data, model=model, augment=[step], **how)[1]
    for batch, record in zip(seen[-3:], run.history, strict=True):
        assert record.loss[0] == pytest.approx(float(batch.mean()), rel=1e-5)
    return torch.cat(seen[-3:])


def mixup(got, folder):
    """Images are averages, whose shares have a beta distribution."""
    means = mixed(public("data.Mixup")(0.5), 3).mean((1, 2, 3))
    inside = (means > 1e-4) & (means < 1 - 1e-4)
    assert 10 < int(inside.sum()) < 50
    assert float(mixed(public("data.Mixup")(50.0), 3).std()) < float(means.std())


def cutmix(got, folder):
    """Images have a rectangle of another; the loss knows its share of the pixels."""
    found = mixed(public("data.CutMix")(0.7), 5)
    assert {*found.unique().tolist()} == {0.0, 1.0}
    shares = found.mean((1, 2, 3))
    assert 10 < int(((shares > 0) & (shares < 1)).sum()) < 50


def drawn(augmentation, pixels, seed):
    """Return what a run shows its members of one batch."""
    shown = []

    class Shown(nn.Linear):
        def forward(self, x):
            if self.training:
                shown.append(x.detach())
            return super().forward(x.flatten(1))

    data = public("data.Arrays")(pixels, torch.arange(len(pixels)))
    build = partial(Shown, pixels[0].numel(), len(pixels))
    built = public("Ensemble").build(build, members=1, seed=seed)
    order = []

    def loss(outputs, targets):
        if outputs.requires_grad:
            order.append(targets)
        return F.cross_entropy(outputs, targets, reduction="none")

    public("fit")(
        *(built, data),
        method=PLAIN,
        epochs=1,
        loss=loss,
        augment=[augmentation],
        progress="none",
    )
    return shown[-1][order[-1].argsort()]


# Losses and models ---------------------------------------------------------------


def cross_entropy(got, folder):
    """Smoothed and weighted as torch's."""
    logits, y = got.ensemble.logits(got.test.inputs)[0], got.test.targets
    how = {"label_smoothing": 0.15, "class_weights": (0.5, 1.0, 3.0)}
    found = public("losses.CrossEntropy")(**how)(logits, y)
    weight = torch.tensor(how["class_weights"])
    how = {"label_smoothing": 0.15, "weight": weight, "reduction": "none"}
    near(found, F.cross_entropy(logits, y, **how), 1e-5)
    weights = public("losses.balanced_weights")(torch.tensor([0, 0, 0, 1, 2, 2]), 3)
    share = np.array([3, 1, 2]) * np.array(weights)
    assert share == pytest.approx(np.full(3, share.mean()))


def binary_cross_entropy(got, folder):
    """Labels that hold or not, positive ones weighted."""
    stream = torch.Generator().manual_seed(3)
    logits = torch.randn(7, 3, generator=stream)
    y = torch.randint(2, (7, 3), generator=stream)
    weights = (0.5, 2.0, 4.0)
    found = public("losses.BinaryCrossEntropy")(weights)(logits, y)
    expected = F.binary_cross_entropy_with_logits(
        *(logits, y.float()), pos_weight=torch.tensor(weights), reduction="none"
    )
    ratio = found / expected.mean(1)
    near(ratio, ratio[:1].expand(7), 1e-4)
    assert float(ratio[0]) == pytest.approx(1) or float(ratio[0]) == pytest.approx(3)


def gaussian_nll(got, folder):
    """Outputs are a mean and a log-variance; an ensemble is their mixture."""
    stream = torch.Generator().manual_seed(3)
    outputs = torch.randn(7, 2, generator=stream, dtype=torch.float64)
    y = torch.randn(7, generator=stream, dtype=torch.float64)
    found = public("losses.GaussianNLL")()(outputs, y)
    normal = stats.norm(outputs[:, 0], np.exp(outputs[:, 1].numpy() / 2))
    near(found, torch.from_numpy(-normal.logpdf(y.numpy())), 1e-6)


def convnet_model(got, folder):
    """Any channels, classes and width; eval mode does not depend on the batch."""
    model = public("models.ConvNet")(5, in_channels=3, width=6, stride=2).eval()
    x = torch.randn(4, 3, 9, 9)
    assert model(x).shape == (4, 5)
    near(model(x)[:1], model(x[:1]), 1e-5)
    usual = {"num_classes": 5, "in_channels": 3, "width": 6, "stride": 2}
    differing(public("models.ConvNet"), usual, {"width": 4, "stride": 1}, x)
    one, two = (
        sum(p.numel() for p in public("models.ConvNet")(width=w).parameters())
        for w in (6, 12)
    )
    assert 3 * one < two < 4.2 * one


def mlp(got, folder):
    """Linear layers with ReLU between them."""
    torch.manual_seed(4)
    model = public("models.MLP")(6, (5, 4), 3)
    x = got.test.inputs
    linear = [m for m in model.modules() if isinstance(m, nn.Linear)]
    assert [tuple(m.weight.shape) for m in linear] == [(5, 6), (4, 5), (3, 4)]
    by_hand = linear[2](F.relu(linear[1](F.relu(linear[0](x)))))
    near(model(x), by_hand, 1e-6)


def differing(model, usual, others, *inputs, **named):
    """Raise unless each argument of a model changes what it answers."""
    answers = []
    for change in ({}, *({name: value} for name, value in others.items())):
        torch.manual_seed(0)
        answers.append(model(**usual | change).eval()(*inputs, **named))
    for answer in answers[1:]:
        same = answer.shape == answers[0].shape
        assert not (same and torch.equal(answer, answers[0]))


def resnet(got, folder):
    """Published weights of the same form are loaded, but for another head."""
    ResNet18 = partial(public("models.ResNet18"), width=8, stem="imagenet")
    model = ResNet18(7)
    assert model(torch.randn(2, 3, 64, 64)).shape == (2, 7)
    with pytest.raises(ValueError, match="conv1"):
        public("models.load_torchvision")(model, {"fc.weight": torch.zeros(1000, 64)})


def vit(got, folder):
    """Patches, depth and channels as asked for; position counts."""
    how = {"in_channels": 1, "image_size": 8, "patch_size": 2, "depth": 1}
    model = public("models.ViTTiny")(4, **how).eval()
    x = torch.randn(3, 1, 8, 8)
    assert model(x).shape == (3, 4)
    assert not torch.allclose(model(x), model(x.flip(-1)))
    others = {"patch_size": 4, "depth": 2, "num_classes": 3}
    differing(public("models.ViTTiny"), {"num_classes": 4, **how}, others, x)


def albert(got, folder):
    """A classifier of pairs of sentences, which masked tokens do not reach."""
    model = public("models.Albert")(
        3, 40, embedding=8, width=16, depth=2, heads=2
    ).eval()
    ids = torch.randint(1, 40, (2, 6))
    mask = torch.tensor([[1] * 6, [1, 1, 1, 1, 0, 0]])
    kinds = torch.zeros_like(ids)
    given = {"attention_mask": mask, "token_type_ids": kinds}
    found = model(input_ids=ids, **given)
    other = ids.clone()
    other[1, 4:] = 1 + (ids[1, 4:] + 5) % 38
    assert found.shape == (2, 3)
    usual = {"vocabulary": 40, "embedding": 8, "width": 16, "depth": 2, "heads": 2}
    others = {"vocabulary": 50, "embedding": 4, "width": 8, "depth": 1, "heads": 4}
    differing(public("models.Albert"), usual, others, input_ids=ids, **given)
    near(model(input_ids=other, **given), found, 1e-5)


def split_last_layers(got, folder):
    """Two parts that are the whole, the last fresh if asked."""
    torch.manual_seed(5)
    model = public("models.MLP")(6, (5, 4), 3).eval()
    split = public("models.split_last_layers")(model, layers=2)
    x = got.test.inputs
    near(split.tail()(split.extractor(x)), model(x), 1e-6)
    assert not torch.allclose(split.tail(fresh=True)(split.extractor(x)), model(x))
    assert not any(p.requires_grad for p in split.extractor.parameters())


# Measures and theory -------------------------------------------------------------


def disagreement(got, folder):
    logits = (
        public("Ensemble").build(partial(nn.Linear, 6, 3), 3, 9).logits(got.test.inputs)
    )
    labels = logits.argmax(-1)
    pairs = [
        (labels[i] != labels[j]).float().mean() for i, j in combinations(range(3), 2)
    ]
    found = public("metrics.disagreement")(logits)
    assert float(found) == pytest.approx(float(sum(pairs) / 3))


def sample_mean(got, folder):
    """A metric of one's own is a mean over samples, whatever the chunks."""

    class Doubt(public("metrics.SampleMean")):
        """The share of samples of which the ensemble is unsure."""

        def per_sample(self, chunk):
            probs = chunk.ensemble_probs("logit")
            return (probs.amax(-1) < 0.6).to(probs.dtype)

    def doubt(logits, labels):
        return Doubt().once(logits, labels)

    logits, y = got.ensemble.logits(got.test.inputs), got.test.targets
    expected = (joined_probs(logits, "logit").amax(-1) < 0.6).float().mean()
    assert 0 < float(expected) < 1
    assert float(doubt(logits, y)) == pytest.approx(float(expected))
    public("testing.check_metric")(doubt)
    with pytest.raises(AssertionError):
        public("testing.check_metric")(lambda logits, labels: logits.mean(0))


def subset_accuracy(got, folder):
    """Some of the classes alone: left out, kept, or voted for."""
    logits, y = got.ensemble.logits(got.test.inputs), got.test.targets
    mask = torch.tensor([True, False, True])
    keep = mask[y]
    logits, y = logits[:, keep], y[keep]
    probs = logits.softmax(-1).mean(0)
    expected = {
        "unrestricted": probs.argmax(-1) == y,
        "restricted": logits[..., mask].softmax(-1).mean(0).argmax(-1) * 2 == y,
    }
    for protocol, right in expected.items():
        found = public("metrics.subset_accuracy")(logits, y, mask, protocol=protocol)
        assert float(found) == pytest.approx(float(right.float().mean()))
    votes = F.one_hot(logits.argmax(-1), 3).sum(0) * mask
    sure = votes[:, [0, 2]].max(1).values > votes[:, [0, 2]].min(1).values
    found = public("metrics.subset_vote")(logits, mask)
    assert torch.equal(found[sure], votes.argmax(-1)[sure])


def sam_optimizer(got, folder):
    """Two passes, BatchNorm's statistics of one, the gradient clipped."""
    data, bound = exact(), 0.05
    torch.manual_seed(6)
    net = batch_normalized()
    start = copied(SimpleNamespace(members=[net]))[0]
    optimizer = public("optim.SAM")(
        net.parameters(),
        torch.optim.SGD,
        rho=0.2,
        adaptive=True,
        module=net,
        max_grad_norm=bound,
        lr=0.3,
    )
    counted = []

    def closure():
        optimizer.zero_grad()
        loss = whole(data)(net)
        loss.backward()
        counted.append(loss.item())
        return loss

    loss = optimizer.step(closure)
    assert len(counted) == 2
    assert loss.item() == counted[0]
    once = copied(SimpleNamespace(members=[start]))[0]
    once(data.inputs)
    near(net[1].running_mean, once[1].running_mean, 1e-12)
    w, here = flat(start).abs(), slope(start, whole(data))
    there = slope(moved(start, 0.2 * w**2 * here / (w * here).norm()), whole(data))
    clipped = there * min(1.0, bound / float(there.norm()))
    near(flat(net), flat(start) - 0.3 * clipped, 1e-6)


def theory(got, folder):
    """Moments of the random quadratic give diversity and sharpness."""
    setting = public("theory.Setting")(
        rho0=0.03, n=900, d=150, sigma2=0.4, theta_norm=2.0
    )
    how = {"eta": 0.03, "rho": 0.2}
    assert bool(public("theory.stable")(**how, ratio=6.0))
    assert not bool(public("theory.stable")(0.3, 0.2, ratio=6.0))
    exact_value = {
        (i, j): float(public("theory.phi_exact")(i, j, **how, ratio=6.0))
        for i, j in ((4, 2), (10, 0))
    }
    found = public("theory.theorem1")(setting, 5, **how)
    assert float(found.diversity) == pytest.approx(0.4 * exact_value[10, 0])
    one = public("theory.theorem2")(setting, 5, subsets=1, **how)
    assert float(one.diversity) == pytest.approx(float(found.diversity))
    parts = public("theory.theorem2")(setting, 5, subsets=3, **how)
    ten, five = (float(public("theory.phi")(i, 0, **how, ratio=2.0)) for i in (10, 5))
    apart = 2.0**2 / 150 * (ten - five**2)  # two in three pairs have other blocks
    assert float(parts.diversity) == pytest.approx(0.4 * ten + apart * 2 / 3)
    level = float(found.sharpness_upper) * 1.2
    eta = float(public("theory.eta_at_sharpness")(setting, level, 5, rho=0.1))
    again = public("theory.theorem1")(setting, 5, eta=eta, rho=0.1)
    assert float(again.sharpness_upper) == pytest.approx(level)


# Beside the ensemble -------------------------------------------------------------


def export(got, folder):
    """A graph answers what predict answers, by the rule asked for."""
    x = got.test.inputs[:9]
    found = public("export.export_ensemble")(
        got.ensemble, x, folder / "rows.pt2", rule="logit", tolerance=1e-3
    )
    assert found.tolerance == 1e-3
    assert max(found.differences.values()) < 1e-3
    program = torch.export.load(folder / "rows.pt2").module()
    out = got.ensemble.predict(x, rule="logit")
    near(program(x)["probs"], out.probs, 1e-4)
    assert torch.equal(program(x[:4])["labels"], out.labels[:4])


def hub(got, folder):
    """A folder with a model card brings the ensemble back."""
    model = public("models.MLP")
    built = public("Ensemble").build(partial(model, 6, (5,), 3), members=2, seed=3)
    scores = public("evaluate")(built, got.test)
    place = public("hub.save_pretrained")(
        *(built, folder / "hub"),
        evaluation=scores,
        data="three kinds",
        license="mit",
        title="Rows",
    )
    card = (place / "README.md").read_text()
    for word in ("three kinds", "mit", "Rows"):
        assert word in card
    assert f"{scores.clean.nll:.4g}" in card
    assert same_bits(public("hub.from_pretrained")(place), built)


def detectors(got, folder):
    """Features of noise lie further out than those of the test data."""
    found = public("evaluation.FeatureDetectors").fit(
        got.ensemble, got.train, held_out=got.held_out
    )
    far = public("data.Arrays")(got.test.inputs * 4 + 3, got.test.targets)
    judge = deepcopy(got.ensemble)
    judge.detectors = found
    scores = public("evaluate")(judge, got.test, ood={"far": far}).ood["far"]
    assert scores["mahalanobis"].auroc > 0.95
    assert scores["nearest_neighbor"].auroc != scores["mahalanobis"].auroc
    share, usual = (judge.predict(x).unfamiliarity() for x in (far, got.held_out))
    assert float(usual.mean()) == pytest.approx(0.5, abs=0.05)
    assert float(share.mean()) > 0.9


def predictions(got, folder):
    """Many machines write a file of some rows each, which say what members do."""
    write, parts = public("evaluation.write_predictions"), (range(50), range(50, 80))
    rows = []
    for part in parts:
        file = folder / f"{part.start}.csv"
        data = torch.utils.data.Subset(got.test, part)
        write(got.ensemble, data, file, named={"row": part}, rule="logit")
        rows += [*csv.DictReader(file.read_text().splitlines())]
    assert [int(row["row"]) for row in rows] == [*range(80)]
    logits = got.ensemble.logits(got.test.inputs)
    p = joined_probs(logits, "probability")
    own = joined_probs(logits, "logit")

    def seen(name):
        return torch.tensor([float(row[name]) for row in rows], dtype=torch.double)

    near(seen("total_uncertainty"), -(p * p.log()).sum(-1).double(), 1e-4)
    near(seen("confidence"), own.amax(1).double(), 1e-4)
    assert torch.equal(seen("prediction").long(), own.argmax(1))
    assert torch.equal(seen("target").long(), got.test.targets)


def comparison(got, folder):
    """Methods are trained with the same seeds and compared pair by pair."""
    SAM = public("methods.SAM")
    found = public("studies.compare")(
        *([PLAIN, SAM(rho=0.3)], network, got.train, got.test),
        members=2,
        ensembles=2,
        epochs=2,
        batch_size=24,
        shifted={"warm": replace(got.test, inputs=got.test.inputs + 0.5)},
        title="three kinds",
        progress="none",
        out=folder / "compared",
    )
    assert found.title == "three kinds"
    nll = {"dataset": "clean", "metric": "nll"}
    one, two = (found.one(method=name, **nll) for name in ("DeepEnsemble", "SAM"))
    assert found.settings["methods"]["SAM"]["rho"] == 0.3
    assert one.seeds == two.seeds
    assert len({*one.seeds}) == 4
    values = two.values
    assert len(values) == 2
    assert two.value == pytest.approx(np.mean(values))
    assert two.sem == pytest.approx(np.std(values, ddof=1) / math.sqrt(2))
    warm = replace(got.test, inputs=got.test.inputs + 0.5)
    clean, shifted = [], []
    for seeds in (two.seeds[:2], two.seeds[2:]):
        built = public("Ensemble").build(network, 2, seed=seeds)
        how = {"epochs": 2, "batch_size": 24, "progress": "none"}
        public("fit")(built, got.train, method=SAM(rho=0.3), **how)
        scores = public("evaluate")(built, got.test, shifted={"warm": warm})
        clean.append(scores.clean.nll)
        shifted.append(scores.natural["warm"].nll)
    assert clean == pytest.approx(values)
    warm = found.one(method="SAM", dataset="warm", metric="nll")
    assert warm.value == pytest.approx(np.mean(shifted))
    assert public("studies.read_results")(folder / "compared").records == found.records
    reports = public("report.load_reports")([folder / "compared"])
    page = public("report.write_report")(reports, folder / "compared")
    text = page.read_text()
    assert "three kinds" in text
    accuracy = found.one(method="DeepEnsemble", dataset="clean", metric="accuracy")
    assert f"{100 * accuracy.value:.2f}" in text
    assert "http://" not in re.sub(r"http://www\.w3\.org\S*", "", text)


def paired_difference(got, folder):
    """Student's t on the differences, with the confidence asked for."""
    first, second = [0.4, 0.7, 0.9, 0.3], [0.1, 0.5, 0.95, 0.2]
    found = public("studies.paired_difference")(first, second, confidence=0.8)
    gaps = np.subtract(first, second)
    test = stats.ttest_rel(first, second)
    low, high = test.confidence_interval(0.8)
    assert found.mean == pytest.approx(gaps.mean())
    assert (found.low, found.high, found.p) == pytest.approx((low, high, test.pvalue))
    assert found.apart == (low > 0)
    values = torch.randn(4, 500, generator=torch.Generator().manual_seed(0)).double()
    values += torch.tensor([[0.1], [0.3], [0.2], [0.4]])
    crossed = public("studies.crossed_difference")(values, confidence=0.9)
    seeds = values.mean(1).numpy()
    reach = stats.t.ppf(0.95, 3) * stats.sem(seeds)
    assert crossed.mean == pytest.approx(seeds.mean())
    assert reach <= crossed.reach < 1.1 * reach
    again = public("studies.crossed_difference")(values, confidence=1 - crossed.p)
    assert again.low == pytest.approx(0, abs=1e-6)
    p = [0.04, 0.01, 0.03]
    assert public("studies.holm")(p) == pytest.approx([0.06, 0.03, 0.06])


def studies(got, folder):
    """Jobs are carried out once and kept; a search has a cell for each combination."""
    Samples, Digits = public("studies.Samples"), public("data.Digits")
    model = partial(public("models.MLP"), hidden=(6,))
    how = public("training.TrainingSpec")(
        method=public("methods.SAM")(rho=0.3), epochs=2, batch_size=50
    )
    seeds = public("studies.seeds")(2, 3)
    assert len({*seeds, *public("studies.seeds")(1, 3)}) == 6
    data = Samples(Digits, count=150, seed=4)
    trial = public("studies.Trial")(data, model, how, seeds)
    test = public("studies.EvaluationSpec")(
        Samples(Digits, part="test", count=90), rule="logit"
    )
    store = public("studies.Store")(folder / "store", device="cpu")
    assert not store.is_trained(trial)
    job = public("studies.Job")(trial, (test,))
    done = []
    public("studies.carry_out")([job], store, advance=done.append)
    assert store.is_trained(trial)
    assert sum(done) > 0
    found = store.evaluation(trial, test)
    run = store.run(trial)
    again = public("Ensemble").build(model, members=3, seed=seeds)
    options = {"method": how.method, "epochs": 2, "batch_size": 50}
    public("fit")(again, store.dataset(data), **options, progress="none")
    assert same_bits(run.ensemble, again)
    drawn = [store.dataset(replace(data, seed=seed)).inputs for seed in (4, 5)]
    assert len(drawn[0]) == len(drawn[1]) == 150
    assert not torch.equal(*drawn)
    rows = store.dataset(test.test)
    logits = again.logits(rows.normalize(rows.inputs))
    probs = joined_probs(logits, "logit")
    right = float((probs.argmax(1) == rows.targets).float().mean())
    assert found["clean"]["accuracy"] == pytest.approx(right)
    search = public("studies.search")([trial], {"rho": [0.1, 0.5], "lr": [0.02]})
    assert [dict(cell.values) for cell in search.combinations] == [
        *({"rho": 0.1, "lr": 0.02}, {"rho": 0.5, "lr": 0.02})
    ]
    others = [replace(trial, seeds=public("studies.seeds")(n, 2)) for n in (5, 6)]
    far = public("studies.Store")(folder / "far", device="cpu")
    how = {"workers": 2, "retries": 1, "executor": public("studies.Processes")()}
    public("studies.carry_out")(map(public("studies.Job"), others), far, **how)
    again = public("Ensemble").build(model, members=2, seed=others[1].seeds)
    public("fit")(again, far.dataset(data), **options, progress="none")
    assert far.is_trained(others[1])
    assert same_bits(far.run(others[1]).ensemble, again)


def papers(got, folder):
    """A panel is made at smoke size, its numbers named as the paper's."""
    item, recipe, panels = public("papers.look_up")("sharpbalance/figure9b")
    assert (item, panels) == ("sharpbalance/figure9", ("b",))
    order = public("papers.Order")("smoke", panels)
    store = public("studies.Store")(folder / "store", device="cpu")
    found = public("papers.reproduce")(item, recipe, order, store, folder / "out")
    assert {record.item for record in found.records} == {"sharpbalance/figure9b"}
    assert found.size == "smoke"
    assert all(math.isfinite(record.value) for record in found.records if record.value)
    again = public("studies.read_results")(folder / "out")
    assert again.records == found.records


def classifier(got, folder):
    """An estimator of classes by any name, with sets, kept without pickle."""
    x, y = rows(120, seed=1)
    x, y = x.numpy(), np.array(["ox", "cat", "ant"])[y.numpy()]
    model = public("sklearn.EnsembleClassifier")(
        members=2,
        method=public("methods.SAM")(rho=0.1),
        hidden=(7,),
        epochs=6,
        batch_size=30,
        random_state=3,
    )
    model.fit(x[:60], y[:60])
    assert list(model.classes_) == ["ant", "cat", "ox"]
    assert len(model.history_) == 6
    widths = [
        m.out_features
        for m in model.ensemble_.members[0].modules()
        if isinstance(m, nn.Linear)
    ]
    assert widths == [7, 3]
    first = model.predict_proba(x)
    assert (model.fit(x[:60], y[:60]).predict_proba(x) == first).all()
    other = model.set_params(random_state=4).fit(x[:60], y[:60]).predict_proba(x)
    assert (other != first).any()
    assert len(model.ensemble_) == 2
    probs = model.predict_proba(x[60:])
    assert np.allclose(probs.sum(1), 1, atol=1e-6)
    assert (model.predict(x[60:]) == model.classes_[probs.argmax(1)]).all()
    assert model.score(x[60:], y[60:]) == (model.predict(x[60:]) == y[60:]).mean()
    model.conformal(x[60:], y[60:], coverage=0.75)
    sets = model.predict_set(x[60:])
    held = sets[range(60), np.searchsorted(model.classes_, y[60:])].mean()
    assert 0.75 <= held < 0.95
    model.save(folder / "rows")
    again = public("sklearn.EnsembleClassifier").load(folder / "rows")
    assert (again.predict_proba(x) == model.predict_proba(x)).all()
    assert model.unfamiliar(9 * x + 9).mean() > 0.9
    assert model.unfamiliar(x[60:]).mean() < 0.1


def regressor(got, folder):
    """An estimator of numbers with their spread and intervals."""
    x, _ = rows(160, seed=2)
    x = x.numpy()
    y = 30 * x[:, 0] + 100 + np.random.default_rng(0).normal(0, 3, 160)
    model = public("sklearn.EnsembleRegressor")(
        members=3,
        epochs=80,
        hidden=(8,),
        optimizer=public("AdamW")(lr=0.03),
        loss=public("losses.GaussianNLL")(),
        random_state=2,
    )
    mean, std = model.fit(x[:80], y[:80]).predict(x[80:], return_std=True)
    assert np.sqrt(np.mean((mean - y[80:]) ** 2)) < 0.6 * y.std()
    assert (std > 0).all()
    assert (len(model.history_), len(model.ensemble_)) == (80, 3)
    model.conformal(x[80:], y[80:], coverage=0.7)
    low, high = model.predict_interval(x[80:])
    assert 0.7 <= ((low <= y[80:]) & (y[80:] <= high)).mean() < 0.8


def check_method(got, folder):
    """A method that is one passes; one that moves nothing does not."""
    public("testing.check_method")(public("methods.SAM")(rho=0.07, start_at=1))


def check_dataset(got, folder):
    """Pairs with a length pass; targets that no model has an output for do not."""
    check = partial(public("testing.check_dataset"), max_samples=20)
    check(got.train, factory=network)
    with pytest.raises((AssertionError, ValueError)):
        check(got.train, factory=partial(nn.Linear, 6, 2))


def check_measure(got, folder):
    """A measure passes; one that changes the model does not."""
    public("testing.check_measure")(public("sharpness.fisher_trace"))

    def careless(model, dataset, **options):
        with torch.no_grad():
            next(model.parameters()).add_(1.0)
        return public("sharpness.fisher_trace")(model, dataset, **options)

    with pytest.raises(AssertionError):
        public("testing.check_measure")(careless)


# Names ---------------------------------------------------------------------------

CASES = {
    "AdamW": fit_optimizer,
    "SGD": fit_optimizer,
    "Constant": fit_schedule,
    "Cosine": fit_schedule,
    "MultiStep": fit_schedule,
    "Callback": fit_callbacks,
    "EarlyStopping": fit_early_stopping,
    "data.HorizontalFlip": fit_augment,
    "fit": fit_method,
    "training.TrainingSpec": studies,
    "Ensemble": ensemble,
    "load": ensemble,
    "Run": run_in_a_folder,
    "Ensemble.calibrate": calibrate,
    "Ensemble.conformal": conformal,
    "Ensemble.on_features": on_features,
    "cached_features": cached_features,
    "ensembles.ensemble_of": ensemble_of,
    "tasks.Numbers": task,
    "evaluate": evaluate,
    "read_logits": evaluate,
    "measure": measure,
    "Prune": prune,
    "modules.sparsity_of": prune,
    "hyperparameter_grid": hyperparameter_grid,
    "aggregations": aggregations,
    "methods.DeepEnsemble": deep_ensemble,
    "methods.SAM": flat_methods,
    "methods.SharpBalance": sharpbalance,
    "methods.A2D": a2d,
    "methods.DivDis": divdis,
    "methods.SED": sed,
    "methods.SnapshotEnsemble": snapshots,
    "data.Arrays": arrays,
    "data.Normalize": arrays,
    "data.ArrayFile": array_files,
    "data.ArraysOnDisk": arrays_on_disk,
    "data.Digits": digits,
    "data.ImageFolder": image_folder,
    "data.Table": csv_table,
    "data.Texts": texts,
    "data.Tokenizer": texts,
    "data.split": splits,
    "data.to_arrays": splits,
    "data.split_at": splits,
    "data.UniformNoise": noise,
    "data.corrupt": corruptions,
    "data.corrupted": corruptions,
    "testing.check_corruption": corruptions,
    "data.RandomCrop": random_crop,
    "data.Mixup": mixup,
    "data.CutMix": cutmix,
    "losses.CrossEntropy": cross_entropy,
    "losses.balanced_weights": cross_entropy,
    "losses.BinaryCrossEntropy": binary_cross_entropy,
    "losses.GaussianNLL": gaussian_nll,
    "models.ConvNet": convnet_model,
    "models.MLP": mlp,
    "models.ResNet18": resnet,
    "models.load_torchvision": resnet,
    "models.ViTTiny": vit,
    "models.Albert": albert,
    "models.split_last_layers": split_last_layers,
    "metrics.disagreement": disagreement,
    "metrics.SampleMean": sample_mean,
    "testing.check_metric": sample_mean,
    "metrics.subset_accuracy": subset_accuracy,
    "metrics.subset_vote": subset_accuracy,
    "optim.SAM": sam_optimizer,
    "theory.Setting": theory,
    "theory.stable": theory,
    "theory.theorem1": theory,
    "theory.theorem2": theory,
    "theory.eta_at_sharpness": theory,
    "export.export_ensemble": export,
    "hub.save_pretrained": hub,
    "hub.from_pretrained": hub,
    "evaluation.FeatureDetectors": detectors,
    "evaluation.write_predictions": predictions,
    "studies.compare": comparison,
    "report.load_reports": comparison,
    "report.write_report": comparison,
    "studies.crossed_difference": paired_difference,
    "studies.paired_difference": paired_difference,
    "studies.holm": paired_difference,
    "studies.Samples": studies,
    "studies.Trial": studies,
    "studies.EvaluationSpec": studies,
    "studies.Store": studies,
    "studies.Job": studies,
    "studies.Processes": studies,
    "studies.carry_out": studies,
    "studies.search": studies,
    "studies.seeds": studies,
    "papers.look_up": papers,
    "papers.Order": papers,
    "papers.reproduce": papers,
    "sklearn.EnsembleClassifier": classifier,
    "sklearn.EnsembleRegressor": regressor,
    "testing.check_method": check_method,
    "testing.check_dataset": check_dataset,
    "testing.check_measure": check_measure,
}
ASKED = {}
for name, function in CASES.items():
    if not function.__name__.startswith("fit_"):
        ASKED.setdefault(function, []).append(name)


@pytest.mark.parametrize("function", ASKED, ids=lambda each: each.__name__)
def test_a_name_does_its_job(function, trained, tmp_path):
    function(trained, tmp_path)


def used_in(page):
    """Yield what the Python of a page takes from tepui."""
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and "tepui" in node.module:
                for name in node.names:
                    yield getattr(import_module(node.module), name.name)
            words = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
            if re.fullmatch(r"tepui(\.\w+)+", words):
                yield attrgetter(words.removeprefix("tepui."))(import_module("tepui"))


def test_every_name_of_the_pages_is_asked():
    asked = {public(name) for name in CASES if name in NAMES}
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    pages += (ROOT / "docs" / "tutorial").glob("*.md")
    used = {each for page in pages for each in used_in(page)}
    used = {getattr(each, "__self__", each) for each in used}  # of class methods
    used = {each for each in used if not isinstance(each, ModuleType)}
    assert len(used) > 60
    assert used <= asked


def test_the_public_names_are_those_listed():
    listed = {}
    for line in (ROOT / "tests/exam/public_names.txt").read_text().splitlines():
        if line.endswith(":"):
            names = listed.setdefault(line[:-1], [])
        else:
            names += line.split()
    for place, names in listed.items():
        assert sorted(import_module(place).__all__) == sorted(names), place
        assert all(hasattr(import_module(place), name) for name in names)
    for place, name in NAMES.values():
        assert name in listed[place]
