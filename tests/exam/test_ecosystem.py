"""With others: SAM in five loops, scikit-learn's contract, a graph without tepui."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.utils.estimator_checks import check_estimator
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_

from exam.cases import rows, run
from exam.names import public

STEPS, SAMPLES, RHO, CLIP = 8, 18, 0.35, 0.08
SETTINGS = {"lr": 0.3, "momentum": 0.8, "weight_decay": 0.02}


def network(dtype=torch.float64):
    torch.manual_seed(5)
    layers = nn.Linear(6, 7), nn.BatchNorm1d(7), nn.Tanh(), nn.Linear(7, 3)
    return nn.Sequential(*layers).to(dtype)


def batches():
    inputs, labels = rows(STEPS * SAMPLES, seed=2)
    return [*zip(inputs.double().split(SAMPLES), labels.split(SAMPLES), strict=True)]


def loss_of(net, inputs, labels):
    return F.cross_entropy(net(inputs.to(net[0].weight.dtype)), labels)


def gradients_of(net, inputs, labels, parts, cast):
    """Return the gradient of a batch's mean loss, in so many parts."""
    parameters = [*net.parameters()]
    total = [torch.zeros_like(p) for p in parameters]
    for some, own in zip(inputs.chunk(parts), labels.chunk(parts), strict=True):
        with torch.autocast("cpu", torch.bfloat16, enabled=cast):
            loss = loss_of(net, some, own) / parts
        found = torch.autograd.grad(loss, parameters)
        total = [a + b for a, b in zip(total, found, strict=True)]
    return total


def written_out(net, *, adaptive=False, parts=1, clip=None, rate=None, cast=False):
    """Train by SAM's update, without an optimizer: momentum is written out too."""
    parameters, speeds = [*net.parameters()], None
    for step, (inputs, labels) in enumerate(batches()):
        lr = SETTINGS["lr"] if rate is None else rate(step)
        ascent = gradients_of(net, inputs, labels, parts, cast)
        weights = [p.detach().clone() for p in parameters]
        statistics = [b.clone() for b in net.buffers()]
        scales = [w.abs() if adaptive else torch.ones_like(w) for w in weights]
        scaled = [s * g for s, g in zip(scales, ascent, strict=True)]
        length = torch.cat([g.flatten() for g in scaled]).norm()
        for p, s, g in zip(parameters, scales, scaled, strict=True):
            p.data += RHO * s * g / length
        descent = gradients_of(net, inputs, labels, parts, cast)
        for buffer, kept in zip(net.buffers(), statistics, strict=True):
            buffer.copy_(kept)
        norm = torch.cat([g.flatten() for g in descent]).norm().item()
        factor = 1 if clip is None else min(1, clip / (norm + 1e-6))
        pulls = [
            factor * g + SETTINGS["weight_decay"] * w
            for g, w in zip(descent, weights, strict=True)
        ]
        if speeds is None:
            speeds = pulls
        else:
            speeds = [
                SETTINGS["momentum"] * v + g for v, g in zip(speeds, pulls, strict=True)
            ]
        for p, w, v in zip(parameters, weights, speeds, strict=True):
            p.data = w - lr * v
    return net


def sam(net, adaptive=False, **options):
    kind = public("optim.SAM")
    settings = {**SETTINGS, "module": net, **options}
    return kind(net.parameters(), torch.optim.SGD, RHO, adaptive, **settings)


def closure_of(optimizer, loss, backward=torch.Tensor.backward):
    def closure():
        optimizer.zero_grad()
        value = loss()
        backward(value)
        return value

    return closure


def by_closure(net, **options):
    optimizer = sam(net, **options)
    for inputs, labels in batches():
        optimizer.step(closure_of(optimizer, lambda: loss_of(net, inputs, labels)))  # noqa: B023


def by_two_steps(net):
    optimizer = sam(net)
    for inputs, labels in batches():
        optimizer.zero_grad()
        loss_of(net, inputs, labels).backward()
        optimizer.first_step()
        optimizer.zero_grad()
        loss_of(net, inputs, labels).backward()
        optimizer.second_step()


def by_accumulation(net, parts=3):
    optimizer = sam(net)
    for inputs, labels in batches():

        def closure(inputs=inputs, labels=labels):
            optimizer.zero_grad()
            for some, own in zip(inputs.chunk(parts), labels.chunk(parts), strict=True):
                (loss_of(net, some, own) / parts).backward()

        optimizer.step(closure)


def by_scaler(net):
    """As loops with a gradient scaler are written, the scaler last."""
    optimizer, scaler = sam(net), torch.amp.GradScaler("cpu", init_scale=2.0**9)
    for inputs, labels in batches():
        with_loss = closure_of(
            optimizer,
            lambda: loss_of(net, inputs, labels),  # noqa: B023
            lambda loss: scaler.scale(loss).backward(),
        )
        optimizer.step(with_loss, scaler=scaler)
        scaler.update()


def by_autocast(net):
    optimizer = sam(net)

    for inputs, labels in batches():

        def loss(inputs=inputs, labels=labels):
            with torch.autocast("cpu", torch.bfloat16):
                return loss_of(net, inputs, labels)

        optimizer.step(closure_of(optimizer, loss))


def by_schedule(net):
    """Clipping, and a schedule that changes the rate after every step."""
    optimizer = sam(net, max_grad_norm=CLIP)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3, gamma=0.5)
    for inputs, labels in batches():
        optimizer.step(closure_of(optimizer, lambda: loss_of(net, inputs, labels)))  # noqa: B023
        schedule.step()


LOOPS = {
    "closure": (by_closure, {}),
    "adaptive": (lambda net: by_closure(net, adaptive=True), {"adaptive": True}),
    "two steps": (by_two_steps, {}),
    "accumulation": (by_accumulation, {"parts": 3}),
    "scaler": (by_scaler, {}),
    "clipping and schedule": (
        by_schedule,
        {"clip": CLIP, "rate": lambda step: SETTINGS["lr"] * 0.5 ** (step // 3)},
    ),
}


def farthest(first, second):
    """Return the largest difference of two networks' weights and statistics."""
    pairs = zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    return max((a.double() - b.double()).abs().max().item() for a, b in pairs)


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_trains_as_written_out(name):
    loop, how = LOOPS[name]
    net, naive = network(), written_out(network(), **how)
    loop(net)
    assert farthest(net, naive) < 1e-11
    assert farthest(net, network()) > 0.05
    if how:
        assert farthest(naive, written_out(network())) > 1e-4


def test_a_loop_in_mixed_precision_trains_as_written_out():
    net, naive = network(torch.float32), written_out(network(torch.float32), cast=True)
    by_autocast(net)
    assert farthest(net, naive) < 1e-6
    assert farthest(net, written_out(network(torch.float32))) > 1e-4


def test_a_loop_goes_on_from_its_state():
    """Half of the steps, a state dict, and the other half are all of them."""
    whole, first = network(), network()
    by_closure(whole)
    optimizer = sam(first)
    for number, (inputs, labels) in enumerate(batches()):
        if number == STEPS // 2:
            state, weights = optimizer.state_dict(), first.state_dict()
            first = network()
            first.load_state_dict(weights)
            optimizer = sam(first)
            optimizer.load_state_dict(state)
        optimizer.step(closure_of(optimizer, lambda: loss_of(first, inputs, labels)))  # noqa: B023
    assert farthest(whole, first) == 0


def test_members_train_with_sam_as_one_s_own_loop_does():
    """What ``fit`` does with SAM is what the wrapper does, step for step."""
    inputs, labels = rows(SAMPLES, seed=7)
    plain = nn.Linear(6, 3)
    ensemble = public("Ensemble").build(lambda: nn.Linear(6, 3), members=1, seed=3)
    plain.load_state_dict(ensemble.members[0].state_dict())
    public("fit")(
        ensemble,
        public("data.Arrays")(inputs, labels),
        method=public("methods.SAM")(rho=RHO),
        epochs=5,
        batch_size=SAMPLES,
        optimizer=public("SGD")(**SETTINGS),
        schedule=public("Constant")(),
        progress="none",
    )
    optimizer = public("optim.SAM")(
        plain.parameters(), torch.optim.SGD, RHO, **SETTINGS
    )
    for _ in range(5):
        optimizer.step(
            closure_of(optimizer, lambda: F.cross_entropy(plain(inputs), labels))
        )
    assert farthest(ensemble.members[0], plain) < 1e-6


def test_clipping_in_a_closure_bounds_the_last_gradient():
    net = network()
    optimizer = sam(net)
    norms = []
    for inputs, labels in batches():

        def closure(inputs=inputs, labels=labels):
            optimizer.zero_grad()
            loss_of(net, inputs, labels).backward()
            clip_grad_norm_(net.parameters(), CLIP)

        optimizer.step(closure)
        norms.append(torch.cat([p.grad.flatten() for p in net.parameters()]).norm())
    assert max(norms) <= CLIP * (1 + 1e-6)


# scikit-learn's own checks.


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("name", ["EnsembleClassifier", "EnsembleRegressor"])
def test_an_estimator_keeps_scikit_learn_s_contract(name):
    estimator = public(f"sklearn.{name}")(members=2, epochs=25)
    results = check_estimator(estimator, on_fail=None)
    ends = {each["check_name"]: each["status"] for each in results}
    assert len(ends) > 30
    failed = {check for check, end in ends.items() if end not in ("passed", "skipped")}
    skipped = {check for check, end in ends.items() if end == "skipped"}
    assert failed == set()
    assert skipped <= {"check_array_api_input"}  # which asks for an environment


def test_estimators_answer_as_their_ensembles():
    """Probabilities are of the members, averaged; the options arrive."""
    inputs, labels = (tensor.numpy() for tensor in rows(90, seed=1))
    names = np.array(["ash", "beech", "oak"])[labels]
    kind = public("sklearn.EnsembleClassifier")
    method = public("methods.SAM")(rho=0.2)
    options = {"members": 3, "hidden": (5,), "epochs": 30, "random_state": 4}
    sharp = kind(method=method, **options).fit(inputs, names)
    plain = kind(**options).fit(inputs, names)
    assert [*sharp.classes_] == ["ash", "beech", "oak"]
    probs = sharp.predict_proba(inputs)
    assert probs.sum(1) == pytest.approx(np.ones(90))
    assert np.array_equal(sharp.predict(inputs), sharp.classes_[probs.argmax(1)])
    assert np.abs(probs - plain.predict_proba(inputs)).max() > 1e-3
    assert len(sharp.ensemble_.members) == 3
    assert sharp.score(inputs, names) > 0.5


# A graph, where tepui is not.

ELSEWHERE = """
import sys
for name in ("tepui", "torch"):
    sys.modules[name] = None  # importing it fails
import json
import numpy, onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1])
outputs = [each.name for each in session.get_outputs()]
inputs = numpy.load(sys.argv[2])
found = dict(zip(outputs, session.run(outputs, {session.get_inputs()[0].name: inputs})))
about = session.get_modelmeta().custom_metadata_map
numpy.savez(sys.argv[3], **found)
open(sys.argv[3] + ".json", "w").write(json.dumps(about))
"""
GRAPHS = {
    "flats": (
        "train --data 'Table(path=flats.csv, target=kind)' --members 2"
        " --model 'MLP(hidden=[6])' --epochs 8 --validation 0.3 --out flats"
        " --optimizer 'AdamW(lr=0.05)' --set progress=none",
        "calibrate flats --method vector --coverage 0.7 --score threshold",
        "export flats --out flats.onnx",
    ),
    "digits": (
        "train --method SAM --members 3 --model 'ConvNet(width=4)' --epochs 2"
        " --out digits --set progress=none",
        "export digits --to onnx --out digits.onnx --rule logit",
    ),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ecosystem")
    numbers, labels = rows(120, seed=9)
    lines = ["size,city,light,kind"] + [
        f"{30 + 9 * row[0]:.3f},{'Bern' if row[3] > 0 else 'Oslo'},{row[1]:.4f},"
        + ("flat", "house", "barn")[label]
        for row, label in zip(numbers, labels, strict=True)
    ]
    (folder / "flats.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.filterwarnings("ignore:temperature is")
@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_answers_where_tepui_is_not(name, place, capsys, monkeypatch):
    monkeypatch.chdir(place)
    for words in GRAPHS[name]:
        done = run(capsys, *shlex.split(words))
        assert done.status == 0, done.err
    ensemble = public("load")(name)
    if name == "flats":
        test = public("data.Table")("flats.csv", "kind", train=False)
        raw = ensemble.preparation.in_units(test.inputs).numpy()[:13]
        out = ensemble.predict(test)
    else:
        test = public("data.Digits")(train=False)
        raw = test.inputs[:13].numpy()
        out = ensemble.predict(test, rule="logit")
    np.save("raw.npy", raw)
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    words = [sys.executable, "-c", ELSEWHERE, f"{name}.onnx", "raw.npy", "found.npz"]
    done = subprocess.run(words, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = np.load("found.npz")
    for field in ("probs", "confidence", "epistemic"):
        expected = getattr(out, field)[:13].numpy()
        assert np.abs(found[field] - expected).max() < 1e-4
    assert found["labels"].tolist() == out.labels[:13].tolist()
    assert len({*found["labels"]}) > 1
    about = json.loads(Path("found.npz.json").read_text())
    if name == "flats":
        assert found["sets"].tolist() == out.sets[:13].tolist()
        assert "Oslo" in about["columns"]
    else:
        other = ensemble.predict(test).probs[:13].numpy()
        assert np.abs(found["probs"] - other).max() > 1e-4
