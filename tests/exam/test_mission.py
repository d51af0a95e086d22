"""What the product is for: each item of its mission, with its criterion, at small size.

Items 1 to 53 are methods, models, data, measures and theory; the names after them are
the figures and tables to make, the commands, the axes of studies, and the costs.
"""

import json
import math
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import optimize, stats
from torch import nn
from torch.nn import functional as F
from torchmetrics.classification import MulticlassCalibrationError

import data_layouts
from data.mrpc_files import write as write_mrpc
from exam.cases import (
    copied,
    descended,
    exact,
    fitted,
    flat,
    images,
    moved,
    near,
    run,
    same_bits,
    slope,
    smooth,
    table,
    uphill,
    whole,
)
from exam.names import public

RATE = 0.3
NORMALIZATION = {
    "CIFAR10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "CIFAR100": ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
}


@dataclass(frozen=True)
class Place:
    """A folder of a test's own, and how it runs commands."""

    folder: Path
    capsys: pytest.CaptureFixture

    def run(self, *words):
        """Run a command that must succeed and return what it printed."""
        outcome = run(self.capsys, *words)
        assert outcome.status == 0, outcome.err
        return outcome.out


def after(before, gradient, steps=3, **how):
    """Return each member's weights after steps by hand."""
    return [descended(member, gradient, [RATE] * steps, **how)[-1] for member in before]


def weights(run):
    """Return each member's weights."""
    return [flat(member) for member in run.ensemble.members]


def scores_of(module, data):
    """Return each sample's loss, a score that differs between samples."""
    with torch.no_grad():
        return F.cross_entropy(module(data.inputs), data.targets, reduction="none")


def brute_force(scores, fraction, highest, leftover):
    """Return every member's sharpness-aware set, by the definition."""
    members, samples = len(scores), len(scores[0])
    picked = []
    for values in scores:
        order = sorted(range(samples), key=lambda n: float(values[n]), reverse=highest)
        picked.append(set(order[: int(fraction * samples)]))
    free = sorted(set(range(samples)) - set().union(*picked))
    sets = []
    for member in range(members):
        others = set().union(*(picked[j] for j in range(members) if j != member))
        turn = set(free[member::members])
        more = {"none": set(), "split": turn, "boost": set(free) - turn}[leftover]
        sets.append(others | more)
    return sets


def mixed(data, sharp, rho):
    """Return the gradient of the plain part and of the sharpness-aware part."""
    mask = torch.zeros(len(data), dtype=torch.bool)
    mask[sorted(sharp)] = True
    share = mask.double().mean()

    def gradient(module):
        parts = [
            lambda m, rows=rows: F.cross_entropy(
                m(data.inputs[rows]), data.targets[rows]
            )
            for rows in (mask, ~mask)
        ]
        aware, plain = uphill(module, parts[0], rho), slope(module, parts[1])
        return share * aware + (1 - share) * plain

    return gradient


def log_probs(modules, inputs):
    return torch.stack([m(inputs).log_softmax(1) for m in modules])


def agreement(p, q):
    """Return A2D of two members' probabilities, equation 2 of the paper."""
    y = p.argmax(-1, keepdim=True)
    p, q = p.gather(-1, y)[..., 0], q.gather(-1, y)[..., 0]
    return -(p * (1 - q) + (1 - p) * q).log()


class Heads(nn.Module):
    """Logits that are the inputs times a factor."""

    def __init__(self, factor):
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(factor, dtype=torch.float64))

    def forward(self, x):
        return x * self.factor


# Methods -------------------------------------------------------------------------


def deep_ensemble(at):
    """M checkpoints from M seeds, each its own; equal seeds give equal bits."""
    data, method = table(), public("methods.DeepEnsemble")()

    def trained(seeds, **how):
        ensemble = public("Ensemble").build(partial(nn.Linear, 6, 3), len(seeds), seeds)
        public("fit")(ensemble, data, method=method, epochs=2, progress="none", **how)
        return ensemble

    three = trained((5, 9, 14), out=at.folder / "run")
    assert same_bits(three, trained((5, 9, 14)))
    assert same_bits(three.subset([1]), trained((9,)))
    assert not torch.equal(flat(three.members[0]), flat(three.members[1]))
    again = public("load")(at.folder / "run", partial(nn.Linear, 6, 3))
    assert len(again) == 3
    assert same_bits(again, three)


def sam_optimizer(at):
    """On a quadratic a step is I - eta H - eta rho' H^2; rho = 0 is the base."""
    stream = torch.Generator().manual_seed(2)
    root = torch.randn(5, 5, generator=stream, dtype=torch.float64)
    start = torch.randn(5, generator=stream, dtype=torch.float64)
    H, eta, rho = root @ root.T / 5, 0.07, 0.13

    def stepped(build, **options):
        weights = nn.Parameter(start.clone())
        optimizer = build([weights], **options, lr=eta)

        def closure():
            optimizer.zero_grad()
            loss = weights @ H @ weights / 2
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)
        return weights.detach()

    w = start
    for _ in range(3):
        scale = rho / (H @ w).norm()
        w = w - eta * H @ w - eta * scale * H @ H @ w
    wrapped = partial(public("optim.SAM"), base_optimizer=torch.optim.SGD)
    near(stepped(wrapped, rho=rho), w, 1e-12)
    assert torch.equal(stepped(wrapped, rho=0.0), stepped(torch.optim.SGD))


def sam_ensemble(at):
    """The command trains what fit trains; the perturbation leaves no trace."""
    out = at.folder / "sam"
    at.run(
        *("train", "--data", "Digits", "--model", "MLP(hidden=[8])", "--seeds", "5"),
        *("--method", "SAM(rho=0.07)", "--members", "2", "--epochs", "1", "--out", out),
    )
    model = partial(public("models.MLP"), hidden=(8,))
    ensemble = public("Ensemble").build(model, members=2, seed=5)
    how = {"method": public("methods.SAM")(rho=0.07), "epochs": 1}
    public("fit")(ensemble, public("data.Digits")(), **how, progress="none")
    assert same_bits(public("load")(out), ensemble)
    data, still = exact(), {"optimizer": public("SGD")(lr=1e-300, momentum=0)}
    before, run = fitted(public("methods.SAM")(rho=0.5), data, **still)
    for first, last in zip(before, weights(run), strict=True):
        assert torch.equal(flat(first), last)


def balanced(data, **how):
    """Train SharpBalance with recorded scores; return starts, run and scores."""
    seen = []

    def score(module, given):
        seen.append(scores_of(module, given))
        return seen[-1]

    method = public("methods.SharpBalance")(score=score, **how)
    return *fitted(method, data), seen


def sharpbalance(at):
    """D_S and D_N are disjoint, cover D, and are those of brute force."""
    data, rho = exact(), 0.2
    for highest, leftover, before_rho in ((True, "none", 0), (False, "split", rho)):
        before, run, seen = balanced(
            data,
            rho=rho,
            fraction=0.3,
            switch_at=1,
            select="highest" if highest else "lowest",
            leftover=leftover,
            before="sam" if before_rho else "plain",
        )

        def start(module, radius=before_rho):
            loss = whole(data)
            return uphill(module, loss, radius) if radius else slope(module, loss)

        first = [moved(m, descended(m, start, [RATE])[-1] - flat(m)) for m in before]
        scores = [scores_of(module, data) for module in first]
        near(torch.stack(seen), torch.stack(scores))
        sets = brute_force(scores, 0.3, highest, leftover)
        assert run.summary["sizes"] == [len(sharp) for sharp in sets]
        shared = [[len(a & b) / len(a | b) for b in sets] for a in sets]
        assert np.allclose(run.summary["overlaps"], shared)
        for module, sharp, found in zip(first, sets, weights(run), strict=True):
            by_hand = descended(module, mixed(data, sharp, rho), [RATE] * 2)
            near(found, by_hand[-1], 1e-7)


def sequential(at):
    """One member on the device at a time gives the same sets and weights."""
    how = {"rho": 0.2, "fraction": 0.3, "switch_at": 1, "select": "highest"}
    method = public("methods.SharpBalance")(**how)
    options = {"batch_size": 20, "optimizer": public("SGD")(lr=0.2)}
    together = fitted(method, exact(), **options)[1]
    in_turn = fitted(method, exact(), offload=True, **options)[1]
    assert same_bits(together.ensemble, in_turn.ensemble)
    assert together.summary == in_turn.summary


def fisher(at):
    """Per-sample Fisher traces are those of a loop, whatever the batch."""
    torch.manual_seed(1)
    module, data = smooth(), exact(11)
    naive = torch.stack(
        [
            slope(module, whole(data.subset([n]))).square().sum()
            for n in range(len(data))
        ]
    )
    for batch_size in (1, 4, 11):
        found = public("sharpness.sample_fisher_trace")(
            module, data, batch_size=batch_size
        )
        near(found, naive, 1e-9)


def set_switches(at):
    """Sizes follow the table of rules; the released preset has the released rule."""
    data = exact()
    for highest in (True, False):
        for leftover in ("none", "split", "boost"):
            select = "highest" if highest else "lowest"
            how = {"fraction": 0.3, "switch_at": 1, "rho": 0.1}
            _, run, seen = balanced(data, select=select, leftover=leftover, **how)
            sets = brute_force(seen, 0.3, highest, leftover)
            assert run.summary["sizes"] == [len(sharp) for sharp in sets]
    for select in ("random", "same"):
        _, run, seen = balanced(data, select=select, fraction=0.3, switch_at=1)
        assert seen == []
        assert run.summary["sizes"] == [48 - int(0.7 * 48)] * 3
        assert (np.min(run.summary["overlaps"]) == 1) == (select == "same")
    names = [
        "rho",
        "fraction",
        "before",
        "select",
        "leftover",
        "stratified",
        "off_by_one",
    ]
    SharpBalance = public("methods.SharpBalance")
    for preset, values in {
        SharpBalance.paper(): (0.2, 0.4, "sam", "highest", "none", True, False),
        SharpBalance.released(): (0.2, 0.4, "sam", "lowest", "boost", False, True),
        SharpBalance.released("cifar100"): (
            *(0.2, 0.5, "sam", "lowest", "split", False, True),
        ),
        SharpBalance.released("tiny_imagenet"): (
            *(0.2, 0.3, "sam", "lowest", "split", False, True),
        ),
    }.items():
        assert tuple(getattr(preset, name) for name in names) == values
    seen = []

    def score(module, given):
        seen.append(scores_of(module, given))
        return seen[-1]

    preset = SharpBalance.released(score=score, switch_at=1)
    sizes = fitted(preset, data)[1].summary["sizes"]
    assert sizes == [len(s) for s in brute_force(seen, 0.4, False, "boost")]


def mixed_step(at):
    """Without a radius the mixed step is the gradient of the whole batch."""
    data = exact()
    for stratified in (True, False):
        how = {"fraction": 0.3, "switch_at": 1, "select": "highest", "rho": 0.0}
        method = public("methods.SharpBalance")(stratified=stratified, **how)
        before, run = fitted(method, data)
        expected = after(before, lambda m: slope(m, whole(data)))
        for found, by_hand in zip(weights(run), expected, strict=True):
            near(found, by_hand)


def moment_of_scoring(at):
    """Every member scores once, at the configured epoch, or one later if asked."""
    data = exact()

    def epochs(**how):
        done, seen = [], []

        def score(module, given):
            seen.append(len(done))
            return scores_of(module, given)

        method = public("methods.SharpBalance")(score=score, fraction=0.3, **how)
        fitted(method, data, epochs=5, callbacks=[lambda record: done.append(record)])
        return seen

    assert epochs(switch_at=2) == [2] * 3
    assert epochs(switch_at=0.2) == [1] * 3
    assert epochs(switch_at=2, off_by_one=True) == [3] * 3
    assert epochs(switch_at=1, refresh_every=2) == [1] * 3 + [3] * 3


def other_scores(at):
    """Scores are selectable by name; their ranks are compared."""
    data, rho = exact(), 0.15
    torch.manual_seed(3)
    module = smooth()
    sharp = {
        name: public(f"sharpness.sample_{name}")
        for name in ["fisher_trace", "sam_gap", "worst_case_gap", "hessian_trace"]
    }
    gap = sharp["sam_gap"](module, data, rho=rho)
    here = slope(module, whole(data))
    there = scores_of(moved(module, rho * here / here.norm()), data)
    near(gap, there - scores_of(module, data))
    traces = sharp["fisher_trace"](module, data)
    expected = stats.spearmanr(traces, gap)[0]
    found = public("metrics.rank_correlation")(traces, gap)
    assert float(found) == pytest.approx(expected)
    named = {
        "fisher": sharp["fisher_trace"],
        "sam_gap": partial(sharp["sam_gap"], rho=rho),
        "worst_case": partial(sharp["worst_case_gap"], rho=rho),
        "hessian_trace": None,
    }
    found = {}
    for name, function in named.items():
        how = {"rho": rho, "fraction": 0.3, "switch_at": 1, "select": "highest"}
        method = public("methods.SharpBalance")(score=name, **how)
        found[name] = fitted(method, data)[1].ensemble
        if function is not None:
            by_function = fitted(replace(method, score=function), data)[1].ensemble
            assert same_bits(found[name], by_function)
    for first, second in combinations(found, 2):
        assert not same_bits(found[first], found[second])


def gsam(at):
    """The part removed is orthogonal to the perturbed gradient; alpha = 0 is SAM."""
    data, rho, alpha = exact(), 0.2, 0.3
    GSAM, SAM = public("methods.GSAM"), public("methods.SAM")
    before, run = fitted(GSAM(rho=rho, alpha=alpha), data, epochs=1)
    for member, found in zip(before, weights(run), strict=True):
        g, p = slope(member, whole(data)), uphill(member, whole(data), rho)
        removed = (p - (flat(member) - found) / RATE) / alpha
        assert abs(float(removed @ p / removed.norm() / p.norm())) < 1e-6
        near(removed, g - (g @ p) / (p @ p) * p, 1e-6)
    plain = fitted(GSAM(rho=rho, alpha=0.0), data)[1]
    assert same_bits(plain.ensemble, fitted(SAM(rho=rho), data)[1].ensemble)
    how = {"rho": rho, "fraction": 0.3, "switch_at": 1}
    runs = [
        fitted(public("methods.SharpBalance")(base=base, **how), data)[1].ensemble
        for base in (SAM(), GSAM(alpha=0.0), GSAM(alpha=0.7))
    ]
    assert same_bits(runs[0], runs[1])
    assert not same_bits(runs[0], runs[2])


def sam_plus(at):
    """Each member has a radius of its own, which the configuration shows."""
    data, radii, told = exact(), (0.05, 0.1, 0.2), []

    class Told(public("Callback")):
        def on_start(self, config):
            told.append(json.dumps(config, default=list).replace(" ", ""))

    method = public("methods.SAM")(rho=radii)
    before, run = fitted(method, data, callbacks=[Told()])
    assert "[0.05,0.1,0.2]" in told[0]
    for member, rho, found in zip(before, radii, weights(run), strict=True):
        path = descended(
            member, lambda m, rho=rho: uphill(m, whole(data), rho), [0.3] * 3
        )
        near(found, path[-1])


def averaged_weights(at):
    """An average of weights is the mean of the trajectory's last part."""
    data = exact()
    before, run = fitted(public("methods.EoA")(average=0.5), data, epochs=6)
    for member, found in zip(before, weights(run), strict=True):
        path = descended(member, lambda m: slope(m, whole(data)), [RATE] * 6)
        near(found, torch.stack(path[3:]).mean(0), 1e-7)


def a2d(at):
    """The value is equation 2, finite at 0 and 1; earlier members are frozen."""
    data, free = exact(), exact(seed=1)
    A2D, weight = public("methods.A2D"), 0.6
    before, run = fitted(A2D(weight=weight), data, epochs=1, unlabeled=free)

    def joint(modules):
        losses = [whole(data)(module) for module in modules]
        p = log_probs(modules, free.inputs).exp()
        pairs = [agreement(p[i], p[j]).mean() for i, j in combinations(range(3), 2)]
        return torch.stack(losses).mean() + weight * torch.stack(pairs).sum() / 6

    assert run.history[0].joint_loss == pytest.approx(joint(before).item())
    grads = torch.autograd.grad(
        joint(before), [p for m in before for p in m.parameters()]
    )
    step = torch.cat([grad.flatten() for grad in grads]) * RATE * 3
    near(torch.cat(weights(run)), torch.cat([*map(flat, before)]) - step)

    factors = iter((1e3, 2e3, 3e3))
    sharp = public("data.Arrays")(F.one_hot(data.targets, 3).double(), data.targets)
    method = A2D(weight=weight)
    sure = fitted(
        *(method, sharp), epochs=1, model=lambda: Heads(next(factors)), unlabeled=sharp
    )
    worst = sure[1].history[0].joint_loss  # all are sure of the same
    assert 0.5 * weight * 15 < worst < 0.5 * weight * 17
    before, run = fitted(A2D(weight=weight, parallel=False), data, unlabeled=free)
    found = [moved(m, w - flat(m)) for m, w in zip(before, weights(run), strict=True)]
    for number, member in enumerate(before):
        earlier = (
            log_probs(found[:number], free.inputs).detach().exp() if number else ()
        )

        def loss(module, earlier=earlier):
            own = log_probs([module], free.inputs)[0].exp()
            apart = [agreement(other, own).mean() for other in earlier]
            more = weight * torch.stack(apart).mean() if apart else 0.0
            return whole(data)(module) + more

        near(flat(found[number]), flat(member) - RATE * slope(member, loss), 1e-7)


def divdis(at):
    """Information is 0 of independent and log C of equal one-hot heads."""
    sure = torch.eye(3).double()
    data = public("data.Arrays")(sure.repeat(4, 1), torch.arange(12) % 3)

    def joint(factors, data, free, **how):
        rest = iter(factors)
        method = public("methods.DivDis")(**how)
        how = {"epochs": 1, "members": 2, "unlabeled": free}
        _, run = fitted(method, data, model=lambda: Heads(next(rest)), **how)
        return run.history[0].joint_loss

    uniform = joint((1e-9, 2e-9), data, data, weight=0.7, regularizer=0.2)
    assert uniform == pytest.approx(math.log(3))
    alike = joint((60.0, 61.0), data, data, weight=0.7, regularizer=0.2)
    assert alike == pytest.approx(0.7 * math.log(3))

    labeled, free, factors = exact(24), exact(24, seed=2), (0.4, 1.7)
    labeled, free = (
        public("data.Arrays")(part.inputs[:, :3], part.targets)
        for part in (labeled, free)
    )
    found = joint(factors, labeled, free, weight=0.7, regularizer=0.2)
    p, q = ((factor * free.inputs).softmax(1) for factor in factors)
    both = torch.einsum("nd,ne->de", p, q) / len(p)
    apart = p.mean(0)[:, None] * q.mean(0)
    information = (both * (both / apart).log()).sum()
    logits = [factor * labeled.inputs for factor in factors]
    source = torch.stack([each.softmax(1).mean(0) for each in logits]).mean(0)
    leaning = [(h.mean(0) * (h.mean(0) / source).log()).sum() for h in (p, q)]
    main = sum(F.cross_entropy(each, labeled.targets) for each in logits) / 2
    expected = main + 0.7 * information + 0.2 * sum(leaning) / 2
    assert found == pytest.approx(float(expected))


def sed(at):
    """Weights average to 1 / CE, carry no gradient; draws are right in the mean."""
    data, weight = exact(), 0.8
    SED = public("methods.SED")
    before, run = fitted(SED(weight=weight), data, epochs=1)

    def pairs(modules):
        logs = log_probs(modules, data.inputs)
        mean = torch.stack([m(data.inputs) for m in modules]).mean(0)
        hard = F.cross_entropy(mean, data.targets, reduction="none").detach()
        alpha = hard / hard.mean() ** 2
        assert float(alpha.mean()) == pytest.approx(1 / float(hard.mean()))
        p = logs.exp()
        return [
            (alpha * agreement(p[i], p[j])).mean() for i, j in combinations(range(3), 2)
        ]

    def joint(modules):
        losses = torch.stack([whole(data)(module) for module in modules])
        return losses.mean() + weight * torch.stack(pairs(modules)).sum() / 6

    assert run.history[0].joint_loss == pytest.approx(joint(before).item())
    grads = torch.autograd.grad(
        joint(before), [p for m in before for p in m.parameters()]
    )
    step = torch.cat([grad.flatten() for grad in grads]) * RATE * 3
    near(torch.cat(weights(run)), torch.cat([*map(flat, before)]) - step)

    main = torch.stack([whole(data)(module) for module in before]).mean().item()
    values = [main + weight * pair.item() / 2 for pair in pairs(before)]
    assert joint(before).item() == pytest.approx(np.mean(values))
    method = SED(weight=weight, active=2, main="all", alpha="all")
    drawn = set()
    for seed in range(12):
        modules = copied(SimpleNamespace(members=before))
        ensemble = public("Ensemble")(modules, seed=seed)
        options = {"batch_size": len(data), "epochs": 1, "progress": "none"}
        run = public("fit")(ensemble, data, method=method, **options)
        (place,) = np.flatnonzero(np.isclose(values, run.history[0].joint_loss))
        drawn.add(int(place))
    assert drawn == {0, 1, 2}


def last_layers(at):
    """Training heads leaves the extractor as it was; cached features are the same."""
    torch.manual_seed(4)
    data = images()
    model = public("models.ConvNet")(3, in_channels=3, width=4)
    split = public("models.split_last_layers")(model, layers=2)
    near(
        split.tail()(split.extractor(data.normalize(data.inputs))),
        split.whole()(data.normalize(data.inputs)),
        1e-6,
    )
    ensemble = public("Ensemble").on_features(
        split.extractor, lambda: split.tail(fresh=True), members=3, seed=11
    )
    held = [p.clone() for p in split.extractor.state_dict().values()]
    features = public("cached_features")(ensemble.extractor, data, at.folder / "cache")
    how = {"method": public("methods.SAM")(rho=0.1), "epochs": 2, "progress": "none"}
    before = copied(ensemble.heads)
    public("fit")(ensemble.heads, features, **how)
    assert not torch.equal(flat(before[0]), flat(ensemble.heads.members[0]))
    for first, last in zip(held, split.extractor.state_dict().values(), strict=True):
        assert torch.equal(first, last)
    cached = ensemble.heads.logits(features.inputs)
    near(cached, ensemble.logits(data.normalize(data.inputs)), 1e-5)


def own_hyperparameters(at):
    """Members of a grid train by their own values, which the history shows."""
    data = exact()
    dealt = public("hyperparameter_grid")(
        4, seed=1, lr=(0.3, 0.1), weight_decay=(0.02, 0.2)
    )
    cells = list(zip(dealt["lr"], dealt["weight_decay"], strict=True))
    assert len(set(cells)) == 4
    optimizer = public("SGD")(**dealt, momentum=0.6)
    method = public("methods.DeepEnsemble")()
    before, run = fitted(method, data, members=4, optimizer=optimizer)
    assert run.history[0].learning_rate == pytest.approx(dealt["lr"])
    for member, (lr, decay), found in zip(before, cells, weights(run), strict=True):
        gradient = lambda m: slope(m, whole(data))  # noqa: E731
        path = descended(member, gradient, [lr] * 3, momentum=0.6, decay=decay)
        near(found, path[-1], 1e-7)


def aggregations(at):
    """Of equal members every way to join them is the single model."""
    data, held_out = table(60), table(40, seed=3)
    torch.manual_seed(5)
    model = nn.Linear(6, 3)
    single = float((model(data.inputs).argmax(1) == data.targets).float().mean())
    ensemble = public("Ensemble")(copied(SimpleNamespace(members=[model] * 4)))
    found = public("aggregations")(ensemble, data, held_out=held_out)
    assert len(found) >= 6
    assert [row.accuracy for row in found] == pytest.approx([single] * len(found))
    assert any(row.oracle for row in found)
    soup = public("greedy_soup")(ensemble, held_out).ensemble
    near(soup.logits(data.inputs)[0], model(data.inputs).detach(), 1e-6)
    others = public("Ensemble").build(partial(nn.Linear, 6, 3), members=4, seed=2)
    mean = torch.stack([flat(member) for member in others.members]).mean(0)
    near(flat(public("uniform_soup")(others).members[0]), mean, 1e-6)
    logits = others.logits(data.inputs)
    right = (logits.argmax(-1) == data.targets).float().mean(1)
    best = public("oracle_selection")(logits, data.targets)
    assert (best.member, best.accuracy) == (int(right.argmax()), float(right.max()))
    p = logits.softmax(-1)
    votes = F.one_hot(logits.argmax(-1), 3).sum(0)
    for rule, score in {
        "probability": p.mean(0),
        "logit": logits.mean(0),
        "vote": votes + p.mean(0) / 100,
    }.items():
        found = public("metrics.accuracy")(logits, data.targets, rule=rule)
        expected = (score.argmax(1) == data.targets).float().mean()
        assert float(found) == pytest.approx(float(expected)), rule


def six_controls(at):
    """Three treatments with and without SAM share start and order of data."""
    _, recipe, _ = public("papers.look_up")("rethinking/table1")
    trials = [job.trial for job in recipe.plan(public("papers.Order")("smoke"))]
    assert len(trials) == 6
    assert len({trial.seeds for trial in trials}) == 1
    kinds = {
        (
            type(trial.training.method).__name__,
            bool(trial.training.augment),
            trial.training.optimizer.weight_decay > 0,
        )
        for trial in trials
    }
    assert len(kinds) == 6
    pictures = images(30)
    data = public("data.Arrays")(
        pictures.inputs, torch.arange(30.0), pictures.normalize
    )
    streams, starts = set(), set()
    for trial in trials:
        order = []

        def loss(outputs, targets, order=order):
            if not order or order[-1] != targets.tolist():
                order.append(targets.tolist())
            return F.cross_entropy(outputs, targets.long() % 3, reduction="none")

        model = partial(public("models.ConvNet"), 3, in_channels=3, width=4)
        ensemble = public("Ensemble").build(model, members=1, seed=trial.seeds[0])
        starts.add(tuple(flat(ensemble.members[0]).tolist()))
        how = trial.training
        public("fit")(
            ensemble,
            data,
            method=how.method,
            augment=how.augment,
            optimizer=how.optimizer,
            epochs=2,
            batch_size=8,
            loss=loss,
            progress="none",
        )
        streams.add(json.dumps(order))
    assert len(streams) == len(starts) == 1
    order = json.loads(streams.pop())
    seen = [row for batch in order for row in batch]
    assert set(seen) == set(range(30))
    assert order[0] not in (order[1], sorted(order[0]))


def pruning(at):
    """Sparsity is met within .1 %; pruned weights stay zero after further steps."""
    data = images()
    for method in (
        public("methods.SAM")(rho=0.2),
        public("methods.SharpBalance")(rho=0.2, switch_at=1),
    ):
        zeros = []
        ensemble = public("Ensemble").build(
            partial(public("models.ConvNet"), 3, in_channels=3, width=12), 2, seed=4
        )

        def note(record, ensemble=ensemble, zeros=zeros):
            zeros.append([[p == 0 for p in m.parameters()] for m in ensemble.members])

        prune = public("Prune")(sparsity=(0.6, 0.85), prune_at=0.34)
        public("fit")(
            *(ensemble, data),
            method=method,
            epochs=3,
            prune=prune,
            callbacks=[note],
            progress="none",
        )
        found = [public("modules.sparsity_of")(m) for m in ensemble.members]
        assert found == pytest.approx([0.6, 0.85], abs=1e-3)
        for pruned, last in zip(zeros[1], zeros[2], strict=True):
            for first, second in zip(pruned, last, strict=True):
                if first.dim() > 1:
                    assert first.sum() > 0
                    assert torch.equal(first, second)
        assert sum(int(z.sum()) for z in zeros[0][0] if z.dim() > 1) == 0


# Models --------------------------------------------------------------------------


def count(module):
    return sum(p.numel() for p in module.parameters())


def resnet_count(width, classes=10):
    """Return the parameters of a ResNet-18 for small images, layer by layer."""
    total, before = 3 * 9 * width + 2 * width, width
    for stage in range(4):
        now = width * 2**stage
        total += before * now * 9 + 3 * now * now * 9 + 8 * now
        total += before * now + 2 * now if stage else 0
        before = now
    return total + before * classes + classes


def resnet18(at):
    """11 173 962 parameters at width 64 with ten classes, and so at other widths."""
    ResNet18 = public("models.ResNet18")
    assert count(ResNet18(10, width=64)) == resnet_count(64) == 11_173_962
    for width in (8, 16, 128):
        assert count(ResNet18(7, width=width)) == resnet_count(width, 7)


def resnet18_64(at):
    """Output [B, 200] on 64 pixels; the shortcut's scale is learned if asked."""
    ResNet18 = partial(public("models.ResNet18"), 200, width=8, stem="64px")
    assert ResNet18()(torch.randn(2, 3, 64, 64)).shape == (2, 200)
    plain, scaled = ResNet18(), ResNet18(scaled_shortcut=True)
    assert count(scaled) > count(plain)
    assert scaled(torch.randn(2, 3, 64, 64)).shape == (2, 200)


def wide_resnet(at):
    """About 2.24 million parameters with ten classes; [B, classes]."""
    WideResNet40x2 = public("models.WideResNet40x2")
    assert count(WideResNet40x2(10)) == 2_243_546
    assert WideResNet40x2(7, width=4)(torch.randn(2, 3, 32, 32)).shape == (2, 7)


def vit_tiny(at):
    """A vision transformer trains from random weights."""
    data = images(24)
    model = partial(public("models.ViTTiny"), 3, image_size=8, depth=1)
    ensemble = public("Ensemble").build(model, members=2, seed=3)
    before = copied(ensemble)
    how = {"method": public("methods.SAM")(rho=0.1), "epochs": 2, "progress": "none"}
    optimizer = public("AdamW")(lr=0.002)
    run = public("fit")(ensemble, data, optimizer=optimizer, **how)
    assert run.history[1].loss[0] < run.history[0].loss[0]
    assert not torch.equal(flat(before[0]), flat(ensemble.members[0]))
    assert ensemble.predict(data).probs.shape == (24, 3)


def albert(at):
    """SharpBalance trains a classifier of sentence pairs, whose inputs are dicts."""
    draw = torch.Generator().manual_seed(5)
    inputs = {
        "input_ids": torch.randint(1, 40, (24, 9), generator=draw),
        "attention_mask": torch.ones(24, 9, dtype=torch.long),
        "token_type_ids": torch.arange(9).ge(5).long().expand(24, 9).contiguous(),
    }
    data = public("data.Arrays")(inputs, torch.arange(24) % 3)
    model = partial(
        public("models.Albert"), 3, 40, embedding=8, width=16, depth=2, heads=2
    )
    ensemble = public("Ensemble").build(model, members=3, seed=3)
    method = public("methods.SharpBalance")(
        rho=0.1, fraction=0.25, switch_at=1, select="highest", leftover="none"
    )
    options = {"epochs": 2, "batch_size": 8, "progress": "none"}
    run = public("fit")(ensemble, data, method=method, **options)
    assert run.summary["samples"] == 24
    assert all(6 <= size <= 12 for size in run.summary["sizes"])
    logits = ensemble.logits(inputs)
    one = {name: values[:1] for name, values in inputs.items()}
    near(logits[:, :1], ensemble.logits(one), 1e-5)
    other = {**inputs, "token_type_ids": 0 * inputs["token_type_ids"]}
    assert not torch.allclose(logits, ensemble.logits(other))


def features_and_classifier(at):
    """Each model is a linear classifier of features, as relative flatness needs."""
    models = {
        "VGG19": {"width": 4, "num_classes": 7},
        "VGG19BN": {"width": 4, "num_classes": 200, "head": "imagenet"},
        "ResNet18": {"width": 4, "num_classes": 200, "stem": "imagenet"},
        "ViTTiny": {"num_classes": 7, "depth": 1},
    }
    for name, how in models.items():
        torch.manual_seed(1)
        model = public(f"models.{name}")(**how).eval()
        x, y = torch.randn(4, 3, 32, 32), torch.arange(4)
        with torch.no_grad():
            assert model(x).shape == (4, how["num_classes"])
            near(model.classifier(model.features(x)), model(x), 1e-5)
        assert isinstance(model.classifier, nn.Linear)
        data = public("data.Arrays")(x, y)
        assert public("sharpness.relative_flatness")(model, data).value > 0


def feature_split(at):
    """A transformer in two parts is the transformer, wherever it is cut."""
    torch.manual_seed(6)
    model = public("models.ViTTiny")(3, image_size=8, depth=2).eval()
    x = torch.randn(5, 3, 8, 8)
    counts = []
    for layers in (1, 2, 3):
        split = public("models.split_last_layers")(model, layers=layers)
        between = split.extractor(x)
        counts.append(count(split.tail()))
        near(split.tail()(between), model(x), 1e-6)
        fresh = split.tail(fresh=True)(between)
        assert not torch.allclose(fresh, model(x))
    assert counts[0] < counts[1] < counts[2] < count(model)


# Data ----------------------------------------------------------------------------


LAYOUTS = {
    "CIFAR10": (10, data_layouts.cifar10_binary, {True: 50_000, False: 10_000}),
    "CIFAR100": (100, data_layouts.cifar100_python, {True: 50_000, False: 10_000}),
}


def cifar(at):
    """The official files come out as they went in; 45 000 and 5 000 are disjoint."""
    for name, (classes, write, counts) in LAYOUTS.items():
        parts = [
            data_layouts.images_and_labels(size, classes, seed=size)
            for size in (150, 110)
        ]
        write(at.folder, *parts[0], *parts[1])
        dataset = public(f"data.{name}")
        assert dataset.num_samples == counts
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dataset, "num_samples", {True: 150, False: 110})
            for train, (pixels, labels) in zip((True, False), parts, strict=True):
                data = dataset(at.folder, train)
                assert (data.inputs.numpy() == pixels).all()
                assert (data.targets.numpy() == labels).all()
                assert len(data.classes) == classes
        with pytest.raises((ValueError, OSError)):  # too few
            dataset(at.folder)
    for name, (mean, std) in NORMALIZATION.items():
        found = public(f"data.{name}").normalization
        assert (found.mean, found.std) == (pytest.approx(mean), pytest.approx(std))
    places = public("data.Arrays")(torch.arange(50_000.0)[:, None], torch.zeros(50_000))
    kept, held_out = public("data.split")(places, 0.1, seed=17)
    assert (len(kept), len(held_out)) == (45_000, 5_000)
    joined = torch.cat([kept.inputs, held_out.inputs])[:, 0]
    assert torch.equal(joined.sort().values, torch.arange(50_000.0))
    again, other = (public("data.split")(places, 0.1, seed=s)[1] for s in (17, 18))
    assert torch.equal(again.inputs, held_out.inputs)
    assert not torch.equal(other.inputs, held_out.inputs)
    np.save(at.folder / "held_out.npy", held_out.inputs[:, 0].long().numpy())
    given = public("data.split_at")(places, at.folder / "held_out.npy")
    assert torch.equal(given[1].inputs.sort(0).values, held_out.inputs.sort(0).values)
    assert len(given[0]) == 45_000


def tiny_imagenet(at):
    """200 classes in the official layout; validation labels are those of the list."""
    root = at.folder / "tiny-imagenet-200"
    names = [f"n{number:08d}" for number in range(200)]
    (root / "val" / "images").mkdir(parents=True)
    (root / "wnids.txt").write_text("\n".join(names[::-1]))
    lines = []
    for place, number in enumerate(range(0, 1400, 7)):
        wnid, color = names[number % 200], (number % 200, 90, 40)
        train = root / "train" / wnid / "images" / f"{wnid}_0.JPEG"
        train.parent.mkdir(parents=True)
        file = root / "val" / "images" / f"val_{place}.JPEG"
        for path in (train, file):
            Image.new("RGB", (64, 64), color).save(path, quality=95)
        lines.append(f"{file.name}\t{wnid}\t0\t0\t62\t62\n")
    (root / "val" / "val_annotations.txt").write_text("".join(lines))
    dataset = public("data.TinyImageNet")
    assert dataset.num_samples == {True: 100_000, False: 10_000}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dataset, "num_samples", {True: 200, False: 200})
        for train in (True, False):
            data = dataset(at.folder, train=train)
            assert data.inputs.shape == (200, 3, 64, 64)
            assert data.classes == tuple(names)
            near(data.inputs[:, 0, 30, 30].float(), data.targets.float(), 3.0)
    assert data.targets.tolist() == [number % 200 for number in range(0, 1400, 7)]


CONTRAST = {
    "cifar": (0.75, 0.5, 0.4, 0.3, 0.15),
    "imagenet": (0.4, 0.3, 0.2, 0.1, 0.05),
}
NOISE = {
    "cifar": (0.04, 0.06, 0.08, 0.09, 0.10),
    "imagenet": (0.08, 0.12, 0.18, 0.26, 0.38),
}


def corrupted_cifar(at):
    """The loader slices severities; the generator has the published strengths."""
    draw = np.random.default_rng(2)
    folder = at.folder / "CIFAR-10-C"
    folder.mkdir()
    pixels = draw.integers(0, 256, (5 * 7, 32, 32, 3), dtype=np.uint8)
    np.save(folder / "fog.npy", pixels)
    labels = np.arange(7) % 5
    np.save(folder / "labels.npy", np.tile(labels, 5))
    copies = public("data.CIFAR10C")(at.folder, types=("fog",), severities=(2, 5))
    assert list(copies) == [("fog", 2), ("fog", 5)]
    for (_, severity), copy in copies.items():
        rows = pixels[7 * (severity - 1) : 7 * severity].transpose(0, 3, 1, 2)
        assert (copy.inputs.numpy() == rows).all()
        assert copy.targets.tolist() == labels.tolist()

    corrupt = public("data.corrupt")
    assert len(public("data.STANDARD")) == 15
    assert len(public("data.CORRUPTIONS")) == 19
    pictures = torch.from_numpy(draw.integers(0, 256, (3, 3, 32, 32), dtype=np.uint8))
    gray = torch.full((40, 3, 32, 32), 128, dtype=torch.uint8)
    for strength in ("cifar", "imagenet"):
        for severity in range(1, 6):
            factor = CONTRAST[strength][severity - 1]
            found = corrupt(pictures, "contrast", severity, strength=strength)
            x = pictures.double() / 255
            mean = x.mean((2, 3), keepdim=True)
            expected = ((x - mean) * factor + mean).clamp(0, 1) * 255
            assert (found.double() - expected).abs().max() <= 1.01
            if strength == "cifar" or severity < 4:  # beyond, clipping counts
                noisy = corrupt(gray, "gaussian_noise", severity, strength=strength)
                std = float((noisy.double() / 255).std())
                expected = NOISE[strength][severity - 1]
                assert std == pytest.approx(expected, rel=0.03)
    for name in public("data.CORRUPTIONS"):
        first, again, other = (corrupt(pictures, name, 4, seed=s) for s in (3, 3, 4))
        assert first.dtype == torch.uint8
        assert first.shape == pictures.shape
        assert torch.equal(first, again)
        assert not torch.equal(first, pictures)
        part = corrupt(pictures[1:], name, 4, seed=3, first=1)
        assert torch.equal(part, first[1:])
        drawn = name not in (
            *("defocus_blur", "zoom_blur", "brightness", "contrast", "pixelate"),
            *("jpeg_compression", "gaussian_blur", "saturate"),
        )
        assert drawn != torch.equal(first, other), name


def corrupted_folders(at):
    """Copies are written and read as corruption / severity / class."""
    pictures = images(12, size=16)
    data = replace(pictures, classes=("red", "green", "blue"))
    kinds = ("contrast", "fog")
    copies = public("data.corrupted")(data, types=kinds, strength="imagenet", seed=5)
    out = at.folder / "copies"
    public("data.write_corrupted")(copies, out, layout="folders")
    for kind in ("contrast", "fog"):
        for severity in "12345":
            for name in data.classes:
                assert len([*(out / kind / severity / name).iterdir()]) == 4
    read = public("data.corrupted_files")(out, data, types=("fog",), severities=(4,))
    assert list(read) == [("fog", 4)]
    order = read["fog", 4].targets.argsort(stable=True)
    assert read["fog", 4].targets[order].tolist() == sorted(data.targets.tolist())
    found = torch.stack([read["fog", 4][int(n)][0] for n in order])
    order = data.targets.argsort(stable=True)
    gaps = []
    for severity in (4, 2):  # files are JPEG, which loses a little
        copy = copies["fog", severity]
        made = torch.stack([copy[int(n)][0] for n in order])
        gaps.append(float((found.mean((1, 2, 3)) - made.mean((1, 2, 3))).abs().max()))
    assert gaps[0] < 0.05 < gaps[1]
    folder = at.folder / "Tiny-ImageNet-C"
    names = [f"n{number:08d}" for number in range(200)]
    for number, name in enumerate(names):
        for severity, red in (("1", 250), ("3", number)):
            place = folder / "snow" / severity / name
            place.mkdir(parents=True)
            picture = Image.new("RGB", (64, 64), (red, 10, 200))
            picture.save(place / "0.JPEG", quality=95)
    tiny = public("data.TinyImageNetC")(at.folder, types=("snow",), severities=(3,))
    data = tiny["snow", 3]
    assert data.targets.tolist() == list(range(200))
    red = torch.stack([data[place][0][0, 20, 20] for place in range(200)])
    red = (red * data.normalize.std[0] + data.normalize.mean[0]) * 255
    assert (red - torch.arange(200.0)).abs().max() < 4


def cached_evaluation(at):
    """Cached features and images take one path; a mask leaves classes out."""
    data, other = images(30), public("data.UniformNoise")(20, like=images(30), seed=4)
    torch.manual_seed(7)
    split = public("models.split_last_layers")(
        public("models.ConvNet")(3, in_channels=3, width=4)
    )
    ensemble = public("Ensemble").on_features(
        split.extractor, lambda: split.tail(fresh=True), members=3, seed=2
    )
    cached = [
        public("cached_features")(ensemble.extractor, part, at.folder / str(place))
        for place, part in enumerate((data, other))
    ]
    evaluate = partial(public("evaluate"), rule="logit")
    slow = evaluate(ensemble, data, ood={"noise": other})
    fast = evaluate(ensemble.heads, cached[0], ood={"noise": cached[1]})
    assert fast.clean.nll == pytest.approx(slow.clean.nll, rel=1e-4)
    assert fast.clean.der == pytest.approx(slow.clean.der, rel=1e-4)
    for score, found in slow.ood["noise"].items():
        assert fast.ood["noise"][score].auroc == pytest.approx(found.auroc, abs=0.01)
    mask = torch.tensor([True, False, True])
    rows = data.subset(torch.nonzero(data.targets != 1)[:, 0])
    found = evaluate(ensemble, rows, classes=mask)
    left = ensemble.logits(rows.normalize(rows.inputs))[..., mask].mean(0)
    expected = F.cross_entropy(left, rows.targets // 2)
    assert found.clean.nll == pytest.approx(float(expected), rel=1e-4)


def mrpc(at):
    """408 validation pairs, which training does not share, in the published layout."""
    write_mrpc(at.folder)
    train = public("data.MRPC")(at.folder, vocabulary=2000)
    held_out = public("data.MRPC")(at.folder, train=False, vocabulary=2000)
    assert (len(train), len(held_out)) == (3668, 408)
    assert int(train.inputs["input_ids"].max()) < 2000
    assert set(train.targets.tolist()) == {0, 1}
    assert train.tokenizer == held_out.tokenizer


# Measures ------------------------------------------------------------------------


class Quadratic(nn.Module):
    """Returns ``x`` times a quadratic form of the weights."""

    def __init__(self, seed=0, size=5, minimum=False):
        super().__init__()
        stream = torch.Generator().manual_seed(seed)
        root, self.slope, start = (
            torch.randn(*shape, generator=stream, dtype=torch.float64)
            for shape in ((size, size), (size,), (size,))
        )
        self.hessian = root @ root.T
        if minimum:
            self.slope = -self.hessian @ start
        self.weights = nn.Parameter(start)

    def forward(self, x):
        w = self.weights
        return x * (w @ self.hessian @ w / 2 + self.slope @ w)


def own_value(outputs, targets):
    """The output is the loss."""
    return outputs[:, 0]


def ones(*values):
    x = torch.tensor(values, dtype=torch.float64)[:, None]
    return public("data.Arrays")(x, torch.zeros(len(values), dtype=torch.float64))


def secular(A, b, rho):
    """Return the largest value of ``u'Au/2 + b'u`` in a ball, by its multiplier."""
    values, vectors = np.linalg.eigh(A)
    c = vectors.T @ b

    def excess(shift):
        return np.linalg.norm(c / (shift - values)) - rho

    top = values[-1]
    shift = optimize.brentq(excess, top + 1e-12, top + np.linalg.norm(c) / rho + 1)
    u = c / (shift - values)
    return float(values @ u**2 / 2 + c @ u)


def rescaled(model, factor):
    """Return a ReLU network with the same outputs and other weights."""
    other = copied(SimpleNamespace(members=[model]))[0]
    with torch.no_grad():
        other[0].weight *= factor
        other[2].weight /= factor
    return other


def relu_network(seed=0):
    torch.manual_seed(seed)
    layers = nn.Linear(6, 7, bias=False), nn.ReLU(), nn.Linear(7, 3, bias=False)
    return nn.Sequential(*layers).double()


def worst_case_l2(at):
    """A quadratic's maximum within 1 %; blind to a rescaling of ReLU layers."""
    worst_case, model = public("sharpness.worst_case"), Quadratic()
    w = model.weights.detach().numpy()
    H, g = model.hessian.numpy(), (model.hessian @ model.weights + model.slope)
    g, scale, rho = g.detach().numpy(), np.abs(w), 0.3
    how = {"loss": own_value, "rho": rho}
    found = worst_case(model, ones(1.0, 1.0), **how).value
    exact_value = secular(scale[:, None] * H * scale, scale * g, rho)
    assert found == pytest.approx(exact_value, rel=0.01)
    found = worst_case(model, ones(1.0), adaptive=False, **how).value
    assert found == pytest.approx(secular(H, g, rho), rel=0.01)
    net, data = relu_network(), exact()
    for norm in ("l2", "linf"):
        values = [
            worst_case(each, data, rho=0.07, norm=norm, batch_size=16).value
            for each in (net, rescaled(net, 5.0))
        ]
        assert values[1] == pytest.approx(values[0], rel=0.01)


def worst_case_linf(at):
    """In the box the maximum of a linear loss is its corner."""
    model, data, rho = nn.Linear(6, 1, bias=False).double(), exact(20), 0.12
    weight, x = model.weight.detach().abs(), data.inputs.mean(0).abs()
    for adaptive, scale in ((True, weight), (False, torch.ones(6).double())):
        found = public("sharpness.worst_case")(
            *(model, data),
            loss=own_value,
            rho=rho,
            norm="linf",
            adaptive=adaptive,
            batch_size=20,
        )
        assert found.value == pytest.approx(float(rho * (scale * x).sum()))


def average_case(at):
    """Half of rho^2 times the weighted diagonal of a quadratic's Hessian."""
    model, rho = Quadratic(minimum=True), 0.3
    squares, diagonal = model.weights.detach() ** 2, model.hessian.diagonal()
    for adaptive, weight in ((True, squares), (False, torch.ones(5))):
        found = public("sharpness.average_case")(
            *(model, ones(1.0, 1.0)),
            loss=own_value,
            rho=rho,
            adaptive=adaptive,
            num_draws=900,
            generator=torch.Generator().manual_seed(3),
        )
        expected = rho**2 / 2 * float((weight * diagonal).sum())
        assert abs(found.value - expected) < 4 * found.standard_error < 0.4 * expected


def sam_sharpness(at):
    """Half of rho^2 times the trace of a quadratic's Hessian, element by element."""
    model, rho = Quadratic(minimum=True), 0.2
    expected = rho**2 / 2 * float(model.hessian.trace())
    for mode, share in (("elementwise", 1.0), ("l2", 1 / 5)):
        found = public("sharpness.sam_sharpness")(
            *(model, ones(1.0, 1.0)),
            loss=own_value,
            rho=rho,
            mode=mode,
            num_draws=900,
            generator=torch.Generator().manual_seed(4),
        )
        error = 4 * found.standard_error
        assert abs(found.value - share * expected) < error < 0.4 * share * expected


def fisher_rao(at):
    """Analytic and direct agree, by the depth, on a ReLU network without biases."""
    net, data = relu_network(), exact(14)
    function = public("sharpness.fisher_rao")
    direct = function(net, data, method="direct").value
    squares = [
        float(flat(net) @ slope(net, whole(data.subset([n])))) ** 2 for n in range(14)
    ]
    assert direct == pytest.approx(np.sqrt(np.mean(squares)))
    assert function(net, data, depth=2).value == pytest.approx(direct, rel=1e-9)
    assert function(net, data).value == pytest.approx(direct / 2, rel=1e-9)


def relative_flatness(at):
    """The closed form is that of the Hessian; blind to features against weights."""
    net, data = smooth(), exact(17)
    head, features = net[2], net[:2](data.inputs).detach()

    def loss(weight):
        logits = features @ weight.view(3, 8).T + head.bias.detach()
        return F.cross_entropy(logits, data.targets)

    W = head.weight.detach()
    H = torch.autograd.functional.hessian(loss, W.flatten()).view(3, 8, 3, 8)
    expected = sum(
        float(W[s] @ W[t] * H[s, :, t].trace()) for s in range(3) for t in range(3)
    )
    function = public("sharpness.relative_flatness")
    found = function(net, data, batch_size=5).value
    assert found == pytest.approx(expected, rel=1e-5)
    assert function(net, data, method="hessian").value == pytest.approx(found)
    one, two = relu_network(), rescaled(relu_network(), 4.0)
    value = function(one, data).value
    assert function(two, data).value == pytest.approx(value, rel=1e-9)


def dense_measures(at):
    """Hessian, Fisher, tangent kernel and CKA are those of the dense matrices."""
    net, data = smooth(), exact(10)
    names, shapes = zip(*[(n, p.shape) for n, p in net.named_parameters()], strict=True)

    def loss(vector):
        parts = vector.split([shape.numel() for shape in shapes])
        parts = {n: p.view(s) for n, p, s in zip(names, parts, shapes, strict=True)}
        return F.cross_entropy(
            torch.func.functional_call(net, parts, (data.inputs,)), data.targets
        )

    H = torch.autograd.functional.hessian(loss, flat(net))
    values = torch.linalg.eigvalsh(H)
    found = public("sharpness.hessian_eigenvalues")(net, data, num_eigenvalues=3)
    assert [each.value for each in found] == pytest.approx(
        values.flip(0)[:3].tolist(), rel=1e-3
    )
    found = public("sharpness.hessian_eigenvalues")(net, data, which="SA")
    assert found[0].value == pytest.approx(float(values[0]), rel=1e-3)
    trace = public("sharpness.hessian_trace")(net, data, num_probes=400)
    rest = H - torch.diag(H.diagonal())
    error = float((2 * rest.square().sum() / 400).sqrt())  # of random signs
    assert abs(trace.value - float(H.trace())) < 4 * error
    fisher = public("sharpness.fisher_trace")(net, data, batch_size=3)
    naive = [
        float(slope(net, whole(data.subset([n]))).square().sum()) for n in range(10)
    ]
    assert fisher.value == pytest.approx(np.mean(naive))
    rows = torch.stack(
        [slope(net, lambda m, n=n: m(data.inputs[n][None]).sum()) for n in range(10)]
    )
    found = public("sharpness.ntk_logdet")(net, data, batch_size=10)
    assert found.value == pytest.approx(float(torch.logdet(rows @ rows.T)), rel=1e-6)
    nets = [net, smooth(), smooth()]
    values = []
    for first, second in combinations(nets, 2):
        x, y = (m[:2](data.inputs).detach() for m in (first, second))
        x, y = x - x.mean(0), y - y.mean(0)
        cross = (x.T @ y).square().sum()
        values.append(float(cross / (x.T @ x).norm() / (y.T @ y).norm()))
    found = public("sharpness.cka")(nets, data, batch_size=4)
    assert found.value == pytest.approx(np.mean(values), rel=1e-6)


def input_curvature(at):
    """Logistic regression: the step times the length of the Hessian times signs."""
    torch.manual_seed(2)
    model, data, step = nn.Linear(2, 3).double(), exact(12), 1e-5
    data = public("data.Arrays")(data.inputs[:, :2].contiguous(), data.targets)
    W, P = model.weight.detach(), model(data.inputs).softmax(1).detach()
    H = W.T @ (torch.diag_embed(P) - P[:, :, None] * P[:, None]) @ W
    signs = torch.tensor([[1.0, 1.0], [1.0, -1.0]]).double()
    lengths = step * (H @ signs.T).norm(dim=1)  # of either kind of sign vector
    found = public("sharpness.sample_input_curvature")(
        model, data, step=step, num_probes=1
    )
    assert torch.isclose(found[:, None], lengths, rtol=1e-3).any(1).all()
    many = public("sharpness.input_curvature")(model, data, step=step, num_probes=600)
    assert many.value == pytest.approx(float(lengths.mean()), rel=0.03)


def three_models():
    """Return logits of three members on four samples, and labels."""
    predicted = torch.tensor([[0, 1, 2, 0], [0, 1, 1, 1], [0, 2, 2, 2]])
    stream = torch.Generator().manual_seed(1)
    logits = 2.0 * F.one_hot(predicted, 3) + 0.3 * torch.rand(3, 4, 3, generator=stream)
    return logits.double(), torch.tensor([0, 1, 2, 1])


def diversity(at):
    """A hand-computed example of three models; equal members give zeros."""
    logits, labels = three_models()
    public_of = {
        name: public(f"metrics.{name}")
        for name in ("disagreement", "der", "eir", "mean_kl", "logit_variance")
    }
    # Pairs differ on samples {2, 3}, {1, 3}, {1, 2, 3}; errors are 1, 1 and 2 of 4.
    assert float(public_of["disagreement"](logits)) == pytest.approx(7 / 12)
    assert float(public_of["der"](logits, labels)) == pytest.approx(7 / 12 / (1 / 3))
    for rule in ("probability", "logit"):
        scores = logits.softmax(-1) if rule == "probability" else logits
        wrong = float((scores.mean(0).argmax(-1) != labels).double().mean())
        expected = (1 / 3 - wrong) / (1 / 3)
        found = float(public_of["eir"](logits, labels, rule=rule))
        assert found == pytest.approx(expected)
    log = logits.log_softmax(-1)
    pairs = [
        (log[i].exp() * (log[i] - log[j])).sum(-1).mean()
        for i in range(3)
        for j in range(3)
        if i != j
    ]
    assert float(public_of["mean_kl"](logits)) == pytest.approx(float(sum(pairs) / 6))
    found = float(public_of["mean_kl"](logits, symmetric=True))
    assert found == pytest.approx(float(sum(pairs) / 3))
    expected = logits.var(0, correction=1).sum(-1).mean()
    assert float(public_of["logit_variance"](logits)) == pytest.approx(float(expected))
    alike = logits[:1].expand(3, -1, -1)
    for name, function in public_of.items():
        given = (alike, labels) if name in ("der", "eir") else (alike,)
        assert float(function(*given)) == pytest.approx(0, abs=1e-12)


def calibration(at):
    """ECE is torchmetrics' in compatibility mode, and closes the last bin without."""
    stream = torch.Generator().manual_seed(8)
    logits = torch.randn(2, 70, 3, generator=stream, dtype=torch.float64)
    labels = torch.randint(3, (70,), generator=stream)
    logits[:, :6] = 900 * F.one_hot(torch.arange(6) % 3, 3)  # confidences of exactly 1
    labels[:6] = torch.tensor([1, 1, 0, 0, 1, 2])
    logits[:, 6:20] = 3.5 * F.one_hot(labels[6:20], 3)  # right, in the last bin
    function, bins = public("metrics.ece"), 11
    for rule in ("probability", "logit"):
        probs = logits.softmax(-1).mean(0)
        if rule == "logit":
            probs = logits.mean(0).softmax(-1)
        theirs = MulticlassCalibrationError(3, n_bins=bins, norm="l1")(probs, labels)
        how = {"num_bins": bins, "rule": rule}
        ours = float(function(logits, labels, torchmetrics_bins=True, **how))
        assert ours == pytest.approx(float(theirs), abs=1e-6)
        confidence, right = probs.max(-1).values, probs.argmax(-1) == labels
        place = (confidence * bins).ceil().long().clamp(1, bins)
        gaps = [
            abs(float((right.double() - confidence)[place == b].sum()))
            for b in range(12)
        ]
        assert float(function(logits, labels, **how)) == pytest.approx(sum(gaps) / 70)
        assert abs(ours - sum(gaps) / 70) > 0.01
        usual = slice(6, None)
        expected = F.nll_loss(probs[usual].log(), labels[usual])
        found = public("metrics.nll")(logits[:, usual], labels[usual], rule=rule)
        assert float(found) == pytest.approx(float(expected))
    accuracies = {
        ("fog", 1): 0.8,
        ("fog", 4): 0.5,
        ("snow", 1): 0.7,
        ("snow", 4): 0.2,
        ("fog", 5): 0.2,
        ("snow", 5): 0.3,
    }
    found = public("metrics.corruption_accuracy")(accuracies)
    assert float(found) == pytest.approx((0.5 + 0.4) / 2)
    found = evaluated()
    assert set(found.shifted) == {
        ("fog", 2),
        ("fog", 5),
        ("contrast", 2),
        ("contrast", 5),
    }
    mean = np.mean([scores.accuracy for scores in found.shifted.values()])
    assert found.corrupted_mean.accuracy == pytest.approx(mean)
    assert set(found.by_severity()) == {2, 5}


def evaluated():
    """Return an evaluation of two members on images and their corrupted copies."""
    data = images(30)
    model = partial(public("models.ConvNet"), 3, in_channels=3, width=4)
    ensemble = public("Ensemble").build(model, members=2, seed=4)
    kinds = {"types": ("fog", "contrast"), "severities": (2, 5), "seed": 3}
    return public("evaluate")(
        ensemble, data, shifted=public("data.corrupted")(data, **kinds)
    )


def unfamiliar(at):
    """C * PDS is the number of classes; AUROC is 1/2 of equal, 1 of higher scores."""
    logits, _ = three_models()
    sure = 1e4 * logits
    number = public("metrics.unique_predictions")(sure)
    assert float(number) == pytest.approx((1 + 2 + 2 + 3) / 4)
    pds = public("metrics.pds")(sure)
    assert (3 * pds).tolist() == pytest.approx([1, 2, 2, 3])
    expected = logits.softmax(-1).mean(0).amax(-1)
    near(public("metrics.max_mean_probability")(logits), expected)
    auroc = public("metrics.auroc")
    stream = torch.Generator().manual_seed(9)
    x, y = torch.randn(2, 40, generator=stream)
    y = (y + 0.7).round(decimals=1)
    x = x.round(decimals=1)
    assert float(auroc(x, x)) == 0.5
    wins = (y[:, None] > x).double() + (y[:, None] == x).double() / 2
    assert float(auroc(x, y)) == pytest.approx(float(wins.mean()))
    assert float(auroc(x, x + 9)) == 1


def standard_errors(at):
    """The standard error is std(ddof=1) / sqrt(n); that of pairs may be over pairs."""
    values = [3.0, 4.5, 4.0, 7.5]
    found = public("studies.estimate")(values)
    assert found.mean == pytest.approx(np.mean(values))
    assert found.error == pytest.approx(np.std(values, ddof=1) / 2)
    matrix = np.array([[0, 0.1, 0.2, 0.7], [0, 0, 0.6, 0.3], [0, 0, 0, 0.5], [0] * 4])
    matrix = matrix + matrix.T
    pairs = [matrix[i, j] for i, j in combinations(range(4), 2)]
    found = public("studies.estimate_pairs")(matrix.tolist(), over="pairs")
    assert (found.mean, found.count) == (pytest.approx(np.mean(pairs)), 6)
    assert found.error == pytest.approx(np.std(pairs, ddof=1) / np.sqrt(6))
    found = public("studies.estimate_pairs")(matrix.tolist())
    assert (found.mean, found.count) == (pytest.approx(np.mean(pairs)), 4)


def trade_off(at):
    """A planted slope is found, with the interval of Student's t."""
    draw = np.random.default_rng(4)
    x = np.geomspace(0.3, 6, 9)
    y = 1.7 * x**0.65 * np.exp(0.05 * draw.standard_normal(9))
    found = public("studies.tradeoff_slope")(x, y, confidence=0.9)
    fit = stats.linregress(np.log(x), np.log(y))
    half = fit.stderr * stats.t.ppf(0.95, 7)
    assert found.slope == pytest.approx(fit.slope)
    assert (found.low, found.high) == pytest.approx(
        (fit.slope - half, fit.slope + half)
    )
    assert found.low < 0.65 < found.high
    line = public("studies.tradeoff_slope")(x, 3 + 0.4 * x, log=False)
    assert (line.slope, line.intercept) == pytest.approx((0.4, 3))


def rank_correlation(at):
    """Spearman's correlation of Fisher trace and input curvature, ties included."""
    net, data = smooth(), exact(40)
    fisher = public("sharpness.sample_fisher_trace")(net, data)
    curved = public("sharpness.sample_input_curvature")(net, data, step=1e-4)
    found = public("metrics.rank_correlation")(fisher, curved)
    assert float(found) == pytest.approx(stats.spearmanr(fisher, curved)[0])
    first, second = fisher.round(decimals=1), curved
    found = public("metrics.rank_correlation")(first, second)
    assert float(found) == pytest.approx(stats.spearmanr(first, second)[0])


# Theory --------------------------------------------------------------------------


def moments(at):
    """Quadrature, the printed sum and rational arithmetic agree to 1e-12."""
    for eta, rho, ratio in ((0.01, 0.1, 20.0), (0.05, 0.3, 2.0)):
        how = {"eta": eta, "rho": rho, "ratio": ratio}
        for i in (0, 3, 7, 12):
            for j in (0, 1, 4):
                exact_value = float(public("theory.phi_exact")(i, j, **how))
                for name in ("phi", "phi_multinomial"):
                    found = float(public(f"theory.{name}")(i, j, **how))
                    tolerance = 1e-12 if name == "phi" or i < 7 else 1e-8
                    assert found == pytest.approx(exact_value, rel=tolerance)
    # One step, by hand: E (1 - eta x - eta rho x^2) = 1 - eta R - eta rho (R + R^2).
    by_hand = 1 - 0.05 * 2 - 0.05 * 0.3 * 6
    found = float(public("theory.phi")(1, 0, eta=0.05, rho=0.3, ratio=2.0))
    assert found == pytest.approx(by_hand)


def theorems(at):
    """Monte Carlo agrees where SAM is stable; without training C is 3780."""
    setting = public("theory.Setting")(
        rho0=0.02, n=480, d=160, sigma2=0.2, theta_norm=32**0.5
    )
    how = {"eta": 0.08, "rho": 0.15}
    assert public("theory.stable")(0.08, 0.15, ratio=3.0)
    whole_data = public("theory.theorem1")(setting, 4, finite_size=True, **how)
    parts = public("theory.theorem2")(setting, 4, subsets=3, finite_size=True, **how)
    for found, subsets in ((whole_data, 1), (parts, 3)):
        seen = public("theory.simulate_sam")(
            setting, 4, subsets=subsets, matrices=12, seed=5, **how
        )
        error = 3 * float(seen.diversity_error) + 0.01 * float(seen.diversity)
        assert abs(float(found.diversity) - float(seen.diversity)) < error
        assert float(seen.sharpness) < float(found.sharpness_upper)
    seen = public("theory.simulate_sam")(setting, 4, matrices=12, seed=5, **how)
    assert float(whole_data.sharpness_lower) < float(seen.sharpness)
    gaps = {
        gap: float(
            public("theory.theorem1")(setting, 4, gap=gap, **how).sharpness_lower
        )
        for gap in ("haar", "cauchy_schwarz", "notebook", "paper")
    }
    assert len(set(gaps.values())) == 4
    assert gaps["cauchy_schwarz"] < gaps["haar"]
    how = {"eta": 0.01, "rho": 0.1, "ratio": 20.0, "subsets": 3}
    constant = public("theory.subset_constant")
    assert float(constant(0, **how)) == pytest.approx(3780)
    assert float(constant(0, constant="printed", **how)) == pytest.approx(3800)


def simulators(at):
    """The closed form is SAM step by step; the exact maximum is the secular one."""
    draw = np.random.default_rng(6)
    A = draw.standard_normal((24, 9)) / 3
    gram, teacher = A.T @ A, draw.standard_normal(9)
    start = draw.standard_normal((3, 9))
    how = {"num_steps": 7, "eta": 0.06, "rho": 0.25}
    w = start
    for _ in range(7):
        ascended = w + 0.25 * (w - teacher) @ gram
        w = w - 0.06 * (ascended - teacher) @ gram
    iterated = public("theory.iterate_sam")(gram, start, teacher, **how)
    unrolled = public("theory.unroll_sam")(gram, start, teacher, **how)
    np.testing.assert_allclose(iterated, w, rtol=1e-10)
    np.testing.assert_allclose(unrolled, w, rtol=1e-10)
    values, gradient = np.linalg.eigvalsh(gram), start[0]
    exact_value = float(public("theory.largest_rise")(values, gradient, 0.4))
    assert exact_value == pytest.approx(secular(np.diag(values), gradient, 0.4))
    climbed = public("theory.ascended_rise")(
        *(values, gradient, 0.4, np.full(9, 0.01)), step=0.05, num_steps=200
    )
    assert 0.99 * exact_value < float(climbed) <= exact_value * (1 + 1e-12)


def theory_figures(at):
    """Stability is told; sharpness is matched where it is stable; figures are made."""
    stable = public("theory.stable")
    for rho, expected in ((0.18, True), (0.2, False)):  # the limit is .190
        assert bool(stable(0.01, rho, ratio=20.0)) == expected
    setting = public("theory.Setting")(
        rho0=0.01, n=3000, d=150, sigma2=0.1, theta_norm=15**0.5
    )
    found = []
    for subsets in (1, 10):
        eta = public("theory.eta_at_sharpness")(
            setting, 0.5, 3, rho=0.05, subsets=subsets
        )
        how = {"eta": float(eta), "rho": 0.05, "subsets": subsets}
        found.append(public("theory.theorem2")(setting, 3, **how))
    for trained in found:
        assert float(trained.sharpness_upper) == pytest.approx(0.5, rel=1e-6)
    assert float(found[1].diversity) != pytest.approx(
        float(found[0].diversity), rel=0.01
    )
    results = reproduced(at, "sharpbalance/figure2")
    assert any("stable" in json.dumps(dict(r.at)) + r.note for r in results.records)


def reproduced(at, name):
    """Make a figure or table at smoke size by the command and read its numbers."""
    out = at.folder / "results"
    store = at.folder / "store"
    at.run("reproduce", name, "--size", "smoke", "--out", out, "--store", store)
    (file,) = out.rglob("results.json")
    return public("studies.read_results")(file.parent)


# Commands, axes, costs -----------------------------------------------------------


def numbers_in(folder):
    """Return all numbers in the JSON files of a folder, however they are arranged."""

    def of(value):
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, list):
            return [number for each in value for number in of(each)]
        return [value] if isinstance(value, float) else []

    return [
        n for file in folder.rglob("*.json") for n in of(json.loads(file.read_text()))
    ]


def csv_of(at):
    """Write rows of three classes as a CSV file."""
    data = table(240, seed=3)
    lines = ["a,b,c,d,e,f,kind"]
    for row, label in zip(data.inputs.tolist(), data.targets.tolist(), strict=True):
        lines.append(",".join([*(f"{x:.4f}" for x in row), "xyz"[label]]))
    file = at.folder / "rows.csv"
    file.write_text("\n".join(lines))
    return file


def train_and_measure(at):
    """The three commands of the official code train, and the measuring ones measure."""
    file, runs = csv_of(at), at.folder / "runs"
    data = ("--data", f"Table(path={file}, target=kind)")
    how = (
        *("--model", "MLP(hidden=[8])", "--epochs", "3", "--set", "batch_size=32"),
        *("--optimizer", "SGD(lr=0.07, momentum=0.6, weight_decay=0.003)"),
        *("--set", "schedule=MultiStep(milestones=[0.5], gamma=0.2)"),
    )
    SharpBalance = public("methods.SharpBalance")
    methods = {
        "DeepEnsemble": public("methods.DeepEnsemble")(),
        "SAM(rho=0.15)": public("methods.SAM")(rho=0.15),
        "SharpBalance(rho=0.15, fraction=0.3, switch_at=1, select='highest')": (
            SharpBalance(rho=0.15, fraction=0.3, switch_at=1, select="highest")
        ),
    }
    train = public("data.Table")(file, "kind")
    trained = []
    for place, (words, method) in enumerate(methods.items()):
        seeds = ("13", "17", "28")
        out = runs / str(place)
        at.run("train", *data, *how, "--method", words, "--seeds", *seeds, "--out", out)
        ensemble = public("Ensemble").build(
            partial(public("models.MLP"), 6, (8,), 3), 3, seed=(13, 17, 28)
        )
        public("fit")(
            *(ensemble, train),
            method=method,
            epochs=3,
            batch_size=32,
            optimizer=public("SGD")(lr=0.07, momentum=0.6, weight_decay=0.003),
            schedule=public("MultiStep")(milestones=(0.5,), gamma=0.2),
            progress="none",
        )
        assert same_bits(public("load")(out), ensemble)
        trained.append(ensemble)
    assert not same_bits(trained[0], trained[1])
    assert not same_bits(trained[1], trained[2])

    out = at.folder / "measured"
    at.run("measure", runs / "2", "--samples", "50", "--rho", "0.2", "--out", out)
    found = np.array(numbers_in(out))
    test = public("data.Table")(file, "kind", train=False)
    scores = public("evaluate")(trained[2], test).clean
    for name in (
        *("accuracy", "nll", "disagreement", "der", "eir", "logit_variance"),
        *("mean_kl", "individual_accuracy"),
    ):
        expected = getattr(scores, name)
        assert np.isclose(found, expected, rtol=1e-5).any(), name
    measures = [
        partial(public("sharpness.worst_case"), rho=0.2, num_samples=50, batch_size=5),
        partial(public("sharpness.fisher_rao"), num_samples=50),
    ]
    for measured in public("measure")(trained[2], train, measures).values():
        assert np.isclose(found, measured.mean, rtol=1e-4).any()


def theory_command(at):
    """Theory and simulation are compared by a command."""
    said = at.run(
        *("theory", "check", "--n", "240", "--d", "120", "--matrices", "4"),
        *("--subsets", "3", "--rho0", "0.02", "--seed", "5"),
    )
    assert "diversity" in said
    assert "sharpness" in said


AXES = {
    "rho": ("SAM", (0.01, 0.03, 0.07)),
    "fraction": ("SharpBalance", (0.2, 0.3)),
    "switch_at": ("SharpBalance", (1, 0.3)),
    "select": ("SharpBalance", ("highest", "random", "same")),
    "leftover": ("SharpBalance", ("none", "split")),
    "update_statistics": ("SAM", (True, False)),
    "alpha": ("GSAM", (0.1, 0.2)),
    "weight": ("SED", (1e-3, 1e-2, 1e1)),
    "active": ("SED", (2, 3)),
    "kernel": ("SED", ("a2d", "divdis")),
    "main": ("SED", ("active", "all")),
    "lr": ("DeepEnsemble", (0.05, 0.2)),
    "weight_decay": ("DeepEnsemble", (0.0, 0.01)),
    "label_smoothing": ("SED", (0.0, 0.5)),
    "width": ("SAM", (4, 12)),
    "sparsity": ("SharpBalance", (0.8, 0.95)),
    "members": ("SED", (2, 5)),
}


def trial(method, **changes):
    """Return what to train: five members on a part of the digits."""
    training = public("training.TrainingSpec")(
        method=public(f"methods.{method}")(), epochs=2, batch_size=40, **changes
    )
    data = public("studies.Samples")(public("data.Digits"), count=120)
    model = partial(public("models.ConvNet"), width=5, stride=2)
    seeds = public("studies.seeds")(0, 3)
    return public("studies.Trial")(data, model, training, seeds)


def axes(at):
    """Each axis is one key; a sweep emits one row per cell."""
    search = public("studies.search")
    for name, (method, values) in AXES.items():
        found = search([trial(method)], {name: values})
        assert [dict(cell.values) for cell in found.combinations] == [
            {name: value} for value in values
        ]
        for cell, value in zip(found.combinations, values, strict=True):
            (planned,) = cell.trials
            how = planned.training
            if name == "members":
                assert len(planned.seeds) == value
            elif name == "width":
                assert planned.model.keywords["width"] == value
            else:
                holders = (how.method, how.optimizer, how.loss, how.prune)
                (seen,) = [getattr(h, name) for h in holders if hasattr(h, name)][:1]
                assert seen == value
    found = search(
        [trial("SharpBalance")], {"rho": (0.03, 0.3), "fraction": (0.2, 0.6)}
    )
    store = public("studies.Store")(at.folder / "store", device="cpu")
    outcome = public("studies.sweep")(found, store)
    assert [tuple(row.values.values()) for row in outcome.rows] == [
        *((0.03, 0.2), (0.03, 0.6), (0.3, 0.2), (0.3, 0.6))
    ]
    assert outcome.chosen in outcome.rows
    several = public("sharpness.worst_case")(
        smooth(), exact(20), rho=[0.02, 0.2], norm="linf"
    )
    assert [each.settings["rho"] for each in several] == [0.02, 0.2]
    assert several[0].value < several[1].value


class Counted(nn.Module):
    """A linear model that counts the samples it is trained on."""

    seen = 0

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(6, 3)

    def forward(self, x):
        if self.training:
            Counted.seen += len(x)
        return self.inner(x)


def costs(at):
    """Gradients per sample of each method; SED's do not grow with its members."""
    data = table(60)

    def passes(method, members=3, **how):
        Counted.seen = 0
        ensemble = public("Ensemble").build(Counted, members, seed=3)
        run = public("fit")(
            *(ensemble, data),
            method=method,
            epochs=4,
            batch_size=60,
            progress="none",
            runner="eager",
            **how,
        )
        return Counted.seen / 60 / 4, run

    plain = passes(public("methods.DeepEnsemble")())[0]
    assert passes(public("methods.SAM")(rho=0.1))[0] == pytest.approx(2 * plain)
    method = public("methods.SharpBalance")(
        rho=0.1, fraction=0.3, switch_at=2, select="highest", leftover="none"
    )
    found, run = passes(method)
    share = np.mean(run.summary["sizes"]) / 60  # of the second half, a second gradient
    scored = found - plain * (1 + share / 2)
    assert -0.01 < scored <= plain / 4 + 0.01
    scoring = [record.exchange_seconds for record in run.history]
    assert scoring[2] > 0
    assert not scoring[0]
    SED = public("methods.SED")(weight=0.1, active=2)
    by_members = [passes(SED, members)[0] for members in (3, 6, 9)]
    assert by_members[0] == by_members[1] == by_members[2]
    every = public("methods.SED")(weight=0.1)
    assert passes(every, 9)[0] == pytest.approx(3 * passes(every, 3)[0])
    cost = public("evaluation.prediction_cost")(run.ensemble, data)
    assert cost.parameters == 3 * (6 * 3 + 3)
    assert cost.operations == 3 * 2 * 6 * 3


# Figures and tables --------------------------------------------------------------

SHOWN = [
    *("sharpbalance/figure1b", "sharpbalance/figure1c", "sharpbalance/figure2"),
    *("sharpbalance/figure3", "sharpbalance/figure5a", "sharpbalance/figure5b"),
    *(f"sharpbalance/figure{number}" for number in (4, *range(7, 16))),
    *(f"sharpbalance/table{number}" for number in range(1, 9)),
    *(f"sed/{item}" for item in ("table1", "table2", "table3")),
    *(f"sed/figure{number}" for number in (2, 3, 4)),
    *(f"rethinking/table{number}" for number in range(1, 9)),
    "rethinking/figure1",
]
DIAGRAMS = ["sharpbalance/figure6", "sed/figure1"]
WITHOUT_TRAINING = [
    *(f"sharpbalance/figure{number}" for number in ("1b", 2, 9, 10, 11)),
    "rethinking/figure1",
]


def shown(name, at):
    """A figure or table is known by its name, as published and small."""
    item, recipe, panels = public("papers.look_up")(name)
    assert name.startswith(item)
    letter = name.removeprefix(item)
    assert not letter or panels == (letter,)
    for size in ("paper", "smoke"):
        jobs = recipe.plan(public("papers.Order")(size, panels))
        assert bool(jobs) != (name in WITHOUT_TRAINING)


def diagram(name, at):
    """A figure that only explains is known as one."""
    item, recipe, panels = public("papers.look_up")(name)
    assert (item, panels) == (name, ())
    assert not hasattr(recipe, "plan")


METHODS = {
    1: deep_ensemble,
    2: sam_optimizer,
    3: sam_ensemble,
    4: sharpbalance,
    5: sequential,
    6: fisher,
    7: set_switches,
    8: mixed_step,
    9: moment_of_scoring,
    10: other_scores,
    11: gsam,
    12: sam_plus,
    13: averaged_weights,
    14: a2d,
    15: divdis,
    16: sed,
    17: last_layers,
    18: own_hyperparameters,
    19: aggregations,
    20: six_controls,
    21: pruning,
}
MODELS_AND_DATA = {
    22: resnet18,
    23: resnet18_64,
    24: wide_resnet,
    25: vit_tiny,
    26: albert,
    27: features_and_classifier,
    28: feature_split,
    29: cifar,
    30: tiny_imagenet,
    31: corrupted_cifar,
    32: corrupted_folders,
    33: cached_evaluation,
    34: mrpc,
}
MEASURES_AND_THEORY = {
    35: worst_case_l2,
    36: worst_case_linf,
    37: average_case,
    38: sam_sharpness,
    39: fisher_rao,
    40: relative_flatness,
    41: dense_measures,
    42: input_curvature,
    43: diversity,
    44: calibration,
    45: unfamiliar,
    46: standard_errors,
    47: trade_off,
    48: rank_correlation,
    49: moments,
    50: theorems,
    51: simulators,
    52: theory_figures,
}
SECTIONS = {
    "train and measure": train_and_measure,
    "theory check": theory_command,
    "axes": axes,
    "costs": costs,
}
FIGURES = {name: partial(shown, name) for name in SHOWN}
FIGURES |= {name: partial(diagram, name) for name in DIAGRAMS}
MISSION = METHODS | MODELS_AND_DATA | MEASURES_AND_THEORY | FIGURES | SECTIONS


@pytest.mark.parametrize("item", MISSION)
def test_mission(item, tmp_path, capsys):
    MISSION[item](Place(tmp_path, capsys))


def test_the_table_names_every_item(capsys):
    numbers = [item for item in MISSION if isinstance(item, int)]
    assert numbers == [*range(1, 53)]
    assert len(FIGURES) == 41
    listed = Place(Path(), capsys).run("reproduce", "--list")
    names = {name.rstrip("abcdefghi") for name in FIGURES}
    assert [name for name in names if name not in listed] == []
    with pytest.raises(ValueError, match="figure1a"):
        public("papers.look_up")("sharpbalance/figure1a")
