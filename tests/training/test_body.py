"""Heads on one frozen extractor, which runs once per batch for all of them."""

from dataclasses import dataclass
from typing import final

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import tepui
from tepui import Ensemble
from tepui.core.storage import read_tensors
from tepui.data import Arrays, AugMix, HorizontalFlip, Mixup
from tepui.losses import CrossEntropy
from tepui.methods import (
    A2D,
    GSAM,
    SAM,
    SED,
    DeepEnsemble,
    DivDis,
    EoA,
    MemberMethod,
    SharpBalance,
    SnapshotEnsemble,
)
from tepui.training import Constant
from tepui.training.batches import index_stream
from tepui.training.graphs import LoadedBatches, fed_step, feed_of
from tepui.training.member import TrainingMember
from tepui.training.runner import Runner, derive
from training.cases import (
    CLASSES,
    Noisy,
    Plain,
    StoppedError,
    assert_same_bits,
    assert_same_runs,
    body,
    fitted,
    head,
    images,
    interrupted_everywhere,
    one_thread,
    pairs,
    stop_after,
    untimed,
)

single = pytest.fixture(autouse=True)(one_thread)

SPLIT = SharpBalance(switch_at=1, stratified=False)


class Counting(tepui.Callback):
    """Counts calls of a module in every epoch, after what a run checks first."""

    def __init__(self, module):
        self.calls = 0
        self.epochs = []
        module.register_forward_hook(self.count)

    def count(self, *_):
        self.calls += 1

    def on_start(self, config):
        self.calls = 0

    def on_epoch(self, record):
        self.epochs.append(self.calls)
        self.calls = 0


def trained(method, data=None, *, members=5, **how):
    data = images() if data is None else data
    if method.needs_unlabeled:
        how["unlabeled"] = images(seed=1)
    how = {"method": method, "extractor": body(), **how}
    return fitted(data, head, members=members, **how)


@pytest.mark.parametrize(
    ("method", "passes"),
    [
        *((DeepEnsemble(), 1), (SAM(), 1), (GSAM(), 1), (EoA(average=0.5), 1)),
        *((SED(), 1), (SED(base=SAM(), active=2), 1), (SnapshotEnsemble(), 1)),
        *((A2D(), 2), (DivDis(base=SAM()), 2)),  # the other one is of unlabeled data
        (SPLIT, 1),
        (
            SharpBalance(switch_at=1, select="random"),
            5,
        ),  # every head has batches of its own
    ],
    ids=repr,
)
def test_the_body_runs_once_per_batch(method, passes):
    front = body()
    count, steps, checks = Counting(front), 3, 2
    how = {"extractor": front, "callbacks": [count], "epochs": 5}
    trained(method, validation=images(16, seed=2), **how)
    assert count.epochs[0] in (steps + checks, 2 * steps + checks)
    scoring = int(isinstance(method, SharpBalance))  # before the second epoch
    assert count.epochs[1] == passes * steps + checks + scoring
    assert count.epochs[2:] == [passes * steps + checks] * 3


@pytest.mark.parametrize("data", [images(), Plain(images())], ids=["held", "loaded"])
def test_policies_of_members_take_a_pass_each(data):
    front = body()
    count = Counting(front)
    how = {
        "augment": [[HorizontalFlip()], [], []],
        "members": 3,
        "extractor": front,
        "callbacks": [count],
    }
    trained(SAM(), data, **how)
    assert count.epochs == [9, 9]


@pytest.mark.parametrize("rho", [0.0, 0.1])
def test_heads_learn_as_one_by_one_from_features_of_the_first_ones_batches(rho):
    """The twin knows neither members nor a body."""
    front, data = body(), images()
    count, rates = 3, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.0}
    ensemble = Ensemble.on_features(front, lambda: nn.Linear(6, CLASSES), count, seed=7)
    rows = index_stream(24, 8, ensemble.seeds[0], first_step=0, steps=6)
    twins = []
    for member in ensemble.heads.members:
        twin = nn.Linear(6, CLASSES)
        twin.load_state_dict(member.state_dict())
        optimizer = torch.optim.SGD(twin.parameters(), **rates)
        for row in rows:
            features, targets = front(data.inputs[row]), data.targets[row]
            naive_step(twin, optimizer, features.detach(), targets, rho)
        twins.append(twin)
    how = {"method": SAM(rho=rho), "epochs": 2, "batch_size": 8, "device": "cpu"}
    how |= {"optimizer": tepui.SGD(**rates), "schedule": Constant()}
    tepui.fit(ensemble, data, progress="none", **how)
    for member, twin in zip(ensemble.heads.members, twins, strict=True):
        for name, value in twin.state_dict().items():
            torch.testing.assert_close(member.state_dict()[name], value)


def naive_step(model, optimizer, features, targets, rho):
    parameters = [*model.parameters()]
    F.cross_entropy(model(features), targets).backward()
    if rho:
        norm = torch.cat([p.grad.flatten() for p in parameters]).norm()
        offsets = [rho * p.grad / norm for p in parameters]
        with torch.no_grad():
            before = [p.clone() for p in parameters]
            for p, offset in zip(parameters, offsets, strict=True):
                p.add_(offset)
        optimizer.zero_grad()
        F.cross_entropy(model(features), targets).backward()
        with torch.no_grad():
            for p, value in zip(parameters, before, strict=True):
                p.copy_(value)
    optimizer.step()
    optimizer.zero_grad()


@pytest.mark.parametrize("method", [DeepEnsemble(), SAM(rho=0.1), EoA()], ids=repr)
def test_heads_have_the_bits_of_runs_on_precomputed_features(method):
    """Of features that do not depend on how samples are batched."""
    front, data = nn.Sequential(nn.Flatten(), nn.ReLU()), images()
    features = Arrays(front(data.inputs - 0.5), data.targets)
    shifted = Arrays(data.inputs - 0.5, data.targets)
    how = {"method": method, "members": 1, "validation": 0.25, "keep": "best"}

    def make():
        return nn.Sequential(nn.Linear(16, 4), nn.ReLU(), nn.Linear(4, CLASSES))

    run = fitted(shifted, make, extractor=front, **{**how, "members": 3})
    heads = Ensemble.build(make, members=3, seed=3)
    for index, member in enumerate(run.ensemble.heads.members):
        first = heads.seeds[0]  # in whose order all heads see the data
        alone = fitted(features, lambda i=index: heads.members[i], seed=[first], **how)
        assert_same_bits(member, alone.ensemble.members[0])
        losses = [record.validation_loss[index] for record in run.history]
        assert losses == [record.validation_loss[0] for record in alone.history]


def test_adding_heads_changes_no_other():
    few, more = trained(SAM(), members=2), trained(SAM(), members=4)
    for one, other in zip(few.ensemble.members, more.ensemble.members, strict=False):
        assert_same_bits(one, other)


HOW = [
    {"method": SAM(), "validation": 0.25, "keep": "best", "ema": 0.9},
    {"method": SharpBalance(switch_at=1, refresh_every=1)},
    {"method": SPLIT, "augment": [HorizontalFlip()]},
    {"method": SED(base=SAM(), active=2)},
    {"method": A2D(), "augment": [Mixup()]},
    {"method": SnapshotEnsemble(), "epochs": 3},
    {"method": DeepEnsemble(), "prune": tepui.Prune(sparsity=0.5), "part_at": 1},
    {"method": SAM(), "data": Noisy(images()), "accumulate": 2},
    {"method": EoA(), "augment": [AugMix()], "loss": CrossEntropy(consistency=12)},
]


@pytest.mark.parametrize("how", HOW, ids=lambda how: repr(how["method"]))
def test_a_stopped_run_resumes_to_the_same_bits(tmp_path, how):
    how = {"members": 3, "epochs": 3, **how}
    whole = trained(**how, out=tmp_path / "whole")
    with pytest.raises(StoppedError):
        trained(**how, out=tmp_path / "run", callbacks=[stop_after(1)])
    resumed = trained(**how, out=tmp_path / "run", resume=True)
    assert_same_runs(whole, resumed)
    for member in range(3):
        (file,) = (tmp_path / "run" / "checkpoint").glob(f"member{member}-*")
        tensors, _ = read_tensors(file, "member")
        kept = {name for name in tensors if name.startswith("module/")}
        heads = resumed.ensemble.heads.members[member].state_dict()
        assert kept == {f"module/{name}" for name in heads}
    assert_same_bits(tepui.load(tmp_path / "run", head, body), resumed)


def test_a_run_that_is_interrupted_within_an_epoch_resumes(tmp_path):
    how = {"factory": head, "extractor": body(), "epochs": 1}
    interrupted_everywhere(tmp_path, DeepEnsemble(), 6, **how)


def test_a_resumed_run_has_the_extractor_that_it_began_with(tmp_path):
    whole = trained(SAM())
    trained(SAM(), out=tmp_path, stop_after=1)
    other = body()
    with torch.no_grad():
        other[1].weight.add_(1)
        other[2].running_mean.add_(1)
    resumed = trained(SAM(), out=tmp_path, resume=True, extractor=other)
    assert_same_bits(whole, resumed)


@final
class Lanes(Runner):
    """Steps as a GPU captures them, of heads side by side."""

    def run_epoch(self, members, epoch):
        for group in self.plan.groups(members):
            shared = LoadedBatches(self.plan, group, epoch)
            feeds = [feed_of(self.plan, m, epoch, shared) for m in group]
            for member in group:
                member.module.train()
            running = True
            while running and not self.plan.stopping():
                shared.advance()
                running = False
                for feed in feeds:
                    running |= self.replayed(feed)

    def replayed(self, feed):
        member: TrainingMember = feed.member
        if not feed.advance():
            return False
        member.set_time(*self.plan.time(member.step))
        member.noise_seed = derive(member.seed, "noise", member.step)
        fed_step(member, feed)
        member.step += 1
        return True


@pytest.mark.parametrize("method", [SAM(), SharpBalance(switch_at=1)], ids=repr)
def test_heads_side_by_side_see_what_heads_in_turn_do(monkeypatch, method):
    alone = trained(method, augment=[HorizontalFlip()])
    monkeypatch.setattr("tepui.training.prepare.EagerRunner", Lanes)
    front = body()
    count = Counting(front)
    how = {"extractor": front, "callbacks": [count]}
    beside = trained(method, augment=[HorizontalFlip()], **how)
    assert_same_bits(alone, beside)
    assert untimed(alone.history) == untimed(beside.history)
    # One batch more for what a capture needs, in each epoch.
    assert count.epochs[0] == 4


def test_a_head_that_is_ahead_waits_for_the_others(tmp_path, monkeypatch):
    """As a rank leaves it that was stopped later than others."""
    how = {"method": SAM(), "members": 3, "epochs": 2}
    whole = trained(**how)
    for runner in ("EagerRunner", "Lanes"):
        out = tmp_path / runner
        with monkeypatch.context() as patched:
            patched.setattr("tepui.training.prepare.EagerRunner", Uneven)
            with pytest.raises(SystemExit):
                trained(**how, out=out)
        if runner == "Lanes":
            monkeypatch.setattr("tepui.training.prepare.EagerRunner", Lanes)
        assert_same_bits(whole, trained(**how, out=out, resume=True))


class Uneven(Runner):
    """Takes one step of the first member, none of the second and two of the third."""

    def run_epoch(self, members, epoch):
        for steps, member in zip((1, 0, 2), members, strict=True):
            left = self.plan.batches(member, epoch)
            member.module.train()
            for _ in range(steps):
                member.set_time(*self.plan.time(member.step))
                member.noise_seed = derive(member.seed, "noise", member.step)
                loss, gradients = member.method.gradient(member, next(left))
                member.take_step(gradients)
                member.step_losses[member.step] = loss
                member.step += 1
        raise_signal(self.plan)


def raise_signal(plan):
    plan.stopping._interruption.signal = 15


@final
@dataclass(frozen=True, kw_only=True)
class Ending(MemberMethod):
    """Looks at raw samples once the run has ended."""

    def gradient(self, member, batch):
        assert batch.inputs.shape[1:] == (6,)
        return member.gradient(batch)

    def finish(self, member, dataset):
        with torch.no_grad():
            assert member.module(dataset.inputs).shape == (24, CLASSES)


def test_methods_see_features_and_at_the_end_raw_samples():
    trained(Ending())


def scores(module, dataset):
    assert dataset.inputs.shape[1:] == (6,)
    with torch.no_grad():
        return F.cross_entropy(
            module(dataset.inputs), dataset.targets, reduction="none"
        )


def test_own_scores_are_of_heads_on_features():
    trained(SharpBalance(switch_at=1, score=scores, stratified=False))


class Difference(nn.Module):
    def forward(self, left, right):
        return left - right


def test_an_extractor_of_several_inputs():
    ensemble = Ensemble.on_features(Difference(), lambda: nn.Linear(4, CLASSES), 3)
    count = Counting(ensemble.extractor)
    how = {"epochs": 2, "batch_size": 8, "progress": "none", "callbacks": [count]}
    tepui.fit(ensemble, pairs(), method=SAM(), **how)
    assert count.epochs == [3, 3]


def test_an_extractor_in_half_precision_serves_heads_in_full():
    front, data = body().to(torch.bfloat16), images()
    run = trained(SAM(), extractor=front, validation=0.25)
    (member, *_) = run.ensemble.members
    assert member.head[0].weight.dtype == torch.float32
    features = front(data.inputs.bfloat16()).float()
    with torch.no_grad():
        expected = member.head.eval()(features)
    torch.testing.assert_close(run.ensemble.logits(data.inputs)[0], expected)
    assert tepui.evaluate(run.ensemble, data).clean.nll > 0


def test_heads_cannot_wait_elsewhere():
    with pytest.raises(ValueError, match=r"offload must be False for heads, .* True"):
        trained(SAM(), offload=True)
