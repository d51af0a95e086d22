"""Members that share a frozen extractor: trained, run, saved and loaded as one."""

import json

import numpy as np
import pytest
import torch
from torch import nn

import tepui
from models.cases import built, data
from tepui import Ensemble, cached_features
from tepui.core.storage import read_tensors, same_bits, write_tensors
from tepui.methods import SAM, SED, DeepEnsemble, SharpBalance
from tepui.models import split_last_layers
from training.cases import (
    CLASSES,
    assert_same_bits,
    copied,
    images,
    one_thread,
)

single = pytest.fixture(autouse=True)(one_thread)

HOW = {"epochs": 3, "batch_size": 8, "device": "cpu", "progress": "none"}


def body():
    """Everything that a pass could change: BatchNorm, dropout, weights."""
    torch.manual_seed(0)
    layers = nn.Sequential(
        nn.Flatten(), nn.Linear(16, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.5)
    )
    layers(torch.randn(32, 16))
    return layers.eval()


def head():
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, CLASSES))


def on_features(members=3, seed=3, **changed):
    given = {"extractor": body(), "head_factory": head, **changed}
    return Ensemble.on_features(**given, members=members, seed=seed)


def counted(module):
    calls = []
    module.register_forward_hook(lambda *_: calls.append(1))
    return calls


def test_the_extractor_runs_once_per_batch_for_all_heads():
    ensemble = on_features(members=5)
    calls = counted(ensemble.extractor)
    ensemble.logits(images(24).inputs, batch_size=12)
    ensemble.predict(images(10).inputs)
    assert len(calls) == 3
    tepui.evaluate(ensemble, images(24), batch_size=8)
    assert len(calls) == 3 + 1 + 3  # one sample first, to see what outputs there are


@pytest.mark.parametrize(
    "method",
    [DeepEnsemble(), SAM(), SharpBalance(switch_at=1)],
    ids=lambda method: type(method).__name__,
)
@pytest.mark.parametrize("cached", [True, False])
def test_training_moves_heads_and_never_the_extractor(tmp_path, method, cached):
    ensemble = on_features()
    before, heads = copied(ensemble.extractor), copied(ensemble.heads)
    if cached:
        seen = cached_features(ensemble.extractor, images(), tmp_path)
        tepui.fit(ensemble.heads, seen, method=method, **HOW)
    else:
        tepui.fit(ensemble, images(), method=method, **HOW)
    assert_same_bits(before, ensemble.extractor)
    assert not ensemble.extractor.training
    after = ensemble.heads.state_dict()
    assert all(not torch.equal(after[name], old) for name, old in heads.items())


def test_train_mode_does_not_reach_the_extractor():
    ensemble = on_features().train()
    before = copied(ensemble.extractor)
    first, second = ensemble(images().inputs), ensemble(images().inputs)
    assert torch.equal(first, second)
    assert all(head.training for head in ensemble.heads.members)
    assert_same_bits(before, ensemble.extractor)
    first.sum().backward()
    assert all(p.grad is None for p in ensemble.extractor.parameters())
    assert all(p.grad is not None for p in ensemble.heads.parameters())


@pytest.mark.parametrize("kind", [nn.BatchNorm1d, nn.SyncBatchNorm])
def test_batchnorm_in_train_mode_is_refused(kind):
    extractor = nn.Sequential(nn.Flatten(), nn.Linear(16, 6), kind(6))
    message = rf"extractor must be in eval mode .*train mode in {kind.__name__} 2"
    with pytest.raises(ValueError, match=message):
        on_features(extractor=extractor)
    assert extractor.training  # and nothing was frozen on the way
    assert all(p.requires_grad for p in extractor.parameters())
    on_features(extractor=extractor.eval())


def test_the_extractor_is_saved_once_and_everything_comes_back(tmp_path):
    ensemble = on_features(members=4)
    tepui.fit(ensemble, images(), method=DeepEnsemble(), **HOW)
    file = ensemble.save(tmp_path)
    tensors, document = read_tensors(file, "ensemble")
    stored = sum(tensor.numel() for tensor in tensors.values())
    held = [*ensemble.parameters(), *ensemble.extractor.buffers()]
    assert stored == sum(tensor.numel() for tensor in held)
    json.dumps(document)
    back = tepui.load(tmp_path, factory=head, extractor=fresh_body)
    assert same_bits(back.state_dict(), ensemble.state_dict())
    assert all(member.extractor is back.extractor for member in back.members)
    assert back.seeds == ensemble.seeds
    x = images(seed=1).inputs
    assert torch.equal(back.logits(x), ensemble.logits(x))


def fresh_body():
    """As the extractor is built before its weights are known: in train mode."""
    return nn.Sequential(*[type_of(layer) for layer in body()])


def type_of(layer):
    sizes = {nn.Linear: (16, 6), nn.BatchNorm1d: (6,)}
    return type(layer)(*sizes.get(type(layer), ()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["ConvNet", "ViTTiny", "WideResNet40x2"])
def test_parts_of_models_of_tepui_come_back_without_factories(tmp_path, name, dtype):
    split = split_last_layers(built(name).to(dtype), layers=2)
    ensemble = Ensemble.on_features(
        split.extractor, lambda: split.tail(fresh=True), members=3
    )
    ensemble.save(tmp_path)
    back = tepui.load(tmp_path)
    assert same_bits(back.state_dict(), ensemble.state_dict())
    x = data(name).inputs.to(dtype)
    assert torch.equal(back.logits(x), ensemble.logits(x))
    ensemble.heads.save(tmp_path / "heads")
    assert_same_bits(tepui.load(tmp_path / "heads"), ensemble.heads)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"part": "pattern"}, r"part in .* must be one of extractor, tail"),
        ({"layers": "2"}, r"layers in .* must be an integer, got '2'"),
        ({"layers": 99}, r"layers must lie in"),
        ({"model": "Frozen"}, r"model in .* must be one of"),
    ],
)
def test_a_file_cannot_ask_for_other_parts(tmp_path, changed, message):
    split = split_last_layers(built("MLP"))
    ensemble = Ensemble.on_features(
        split.extractor, lambda: split.tail(fresh=True), members=2
    )
    file = ensemble.save(tmp_path)
    tensors, document = read_tensors(file, "ensemble")
    document["extractor"] |= changed
    write_tensors(file, "ensemble", tensors, document)
    with pytest.raises(ValueError, match=message):
        tepui.load(tmp_path)


def test_a_run_on_raw_inputs_resumes_and_loads(tmp_path):
    how = {**HOW, "method": SAM(), "out": tmp_path / "run"}
    ensemble = on_features(members=2)
    tepui.fit(ensemble, images(), **how)
    again = on_features(members=2)
    tepui.fit(again, images(), resume=True, **how)
    assert_same_bits(ensemble, again)
    back = tepui.load(tmp_path / "run", factory=head, extractor=fresh_body)
    assert same_bits(back.state_dict(), ensemble.state_dict())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize(
    "method", [SAM(), SED(base=SAM()), SharpBalance(switch_at=1)], ids=repr
)
def test_graphs_on_one_extractor_equal_eager(tmp_path, method, cached):
    losses, passes = [], []
    for runner in ("graph", "eager"):
        ensemble = on_features().to("cuda")
        before, calls = copied(ensemble.extractor), counted(ensemble.extractor)
        how = {**HOW, "device": "cuda", "precision": "float32", "runner": runner}
        target, seen = ensemble, images()
        if cached:
            target = ensemble.heads
            seen = cached_features(ensemble.extractor, images(), tmp_path)
            calls.clear()
        run = tepui.fit(target, seen, method=method, **how)
        passes.append(len(calls))
        assert_same_bits(before, ensemble.extractor)
        assert ensemble.logits(images().inputs).isfinite().all()
        losses.append([record.loss for record in run.history])
    np.testing.assert_allclose(*losses, rtol=1e-2)
    # For each capture one more, of the batch that it reads.
    assert passes[0] - passes[1] <= (0 if cached else 4)
