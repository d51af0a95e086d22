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
from tepui.ensembles.loading import load_into
from tepui.methods import SAM, DeepEnsemble, SharpBalance
from tepui.models import Frozen, OnFeatures, split_last_layers
from tepui.modules.features import features_of
from training.cases import (
    CLASSES,
    Named,
    assert_same_bits,
    copied,
    images,
    numbers,
    one_thread,
    pairs,
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


def test_outputs_are_those_of_each_head_on_the_features():
    extractor = body()
    ensemble = on_features(extractor=extractor)
    x = images().inputs
    expected = torch.stack([h(extractor(x)) for h in ensemble.heads.members])
    assert torch.equal(ensemble.logits(x), expected)
    assert torch.equal(ensemble.heads.logits(extractor(x)), expected)
    for member, row in zip(ensemble.members, expected, strict=True):
        assert isinstance(member, OnFeatures)
        assert torch.equal(member(x), row)


def test_heads_start_as_those_of_a_plain_ensemble():
    ensemble, plain = on_features(seed=[5, 6, 7]), Ensemble.build(head, seed=[5, 6, 7])
    assert_same_bits(ensemble.heads, plain)
    assert ensemble.seeds == ensemble.heads.seeds == (5, 6, 7)
    assert len(ensemble) == len(ensemble.heads) == 3


def test_an_ensemble_without_extractor_is_its_own_heads():
    plain = Ensemble.build(head, members=2)
    assert plain.extractor is None
    assert plain.heads is plain


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


def test_training_on_a_cache_is_training_on_the_inputs(tmp_path):
    cached, whole = on_features(), on_features()
    seen = cached_features(cached.extractor, images(), tmp_path)
    tepui.fit(cached.heads, seen, method=DeepEnsemble(), **HOW)
    tepui.fit(whole, images(), method=DeepEnsemble(), **HOW)
    x = images(seed=1).inputs
    torch.testing.assert_close(cached.logits(x), whole.logits(x), rtol=0, atol=1e-6)
    features = features_of(cached.extractor, images(seed=1), batch_size=24).inputs
    assert torch.equal(cached.heads.logits(features), cached.logits(x))


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


def test_dict_inputs_and_a_split_extractor_will_do():
    named = Ensemble.on_features(Named(), lambda: nn.Linear(CLASSES, 2), members=2)
    assert named.logits(pairs().inputs).shape == (2, 24, 2)
    split = split_last_layers(tepui.models.MLP(4, (5,), CLASSES))
    ensemble = Ensemble.on_features(
        split.extractor, lambda: split.tail(fresh=True), members=2
    )
    assert ensemble.extractor is split.extractor
    assert ensemble.logits(numbers().inputs).shape == (2, 24, CLASSES)


@pytest.mark.parametrize("kind", [nn.BatchNorm1d, nn.SyncBatchNorm])
def test_batchnorm_in_train_mode_is_refused(kind):
    extractor = nn.Sequential(nn.Flatten(), nn.Linear(16, 6), kind(6))
    message = rf"extractor must be in eval mode .*train mode in {kind.__name__} 2"
    with pytest.raises(ValueError, match=message):
        on_features(extractor=extractor)
    assert extractor.training  # and nothing was frozen on the way
    assert all(p.requires_grad for p in extractor.parameters())
    on_features(extractor=extractor.eval())


def test_batchnorm_without_statistics_is_refused():
    extractor = nn.Sequential(nn.BatchNorm1d(4, track_running_stats=False)).eval()
    with pytest.raises(ValueError, match=r"keep running statistics .*none in"):
        on_features(extractor=extractor)


def test_an_extractor_without_batchnorm_may_be_in_train_mode():
    extractor = nn.Sequential(nn.Flatten(), nn.Linear(16, 6), nn.Dropout(0.5))
    ensemble = on_features(extractor=extractor)
    x = images().inputs
    assert torch.equal(ensemble.logits(x), ensemble.logits(x))
    assert isinstance(ensemble.extractor, Frozen)


def test_one_head_for_two_members_is_refused():
    one = head()
    with pytest.raises(ValueError, match="be different objects"):
        on_features(head_factory=lambda: one)


def test_equal_heads_are_reported():
    pattern = nn.Linear(6, CLASSES)

    def copy():
        new = nn.Linear(6, CLASSES)
        new.load_state_dict(pattern.state_dict())
        return new

    with pytest.warns(UserWarning, match=r"identical weights \(100% of them\)"):
        on_features(head_factory=copy)


def test_parts_in_two_places_are_named():
    ensemble = on_features()
    ensemble.extractor.to("meta")
    with pytest.raises(ValueError, match=r"ensemble must hold .* in one place .*meta"):
        ensemble.logits(images().inputs)


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


def test_heads_known_to_tepui_need_no_factory(tmp_path):
    make = lambda: tepui.models.MLP(6, (5,), CLASSES)  # noqa: E731
    ensemble = on_features(head_factory=make)
    ensemble.save(tmp_path)
    back = tepui.load(tmp_path, extractor=fresh_body)
    assert same_bits(back.state_dict(), ensemble.state_dict())


def test_loading_asks_for_the_extractor_where_there_is_one(tmp_path):
    on_features().save(tmp_path / "shared")
    with pytest.raises(ValueError, match=r"^extractor must be given: .*split.Frozen"):
        tepui.load(tmp_path / "shared", factory=head)
    Ensemble.build(head, members=2).save(tmp_path / "plain")
    with pytest.raises(ValueError, match=r"^extractor must be None for .* share none"):
        tepui.load(tmp_path / "plain", factory=head, extractor=body)


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


def test_a_part_of_a_foreign_model_needs_its_factory(tmp_path):
    split = split_last_layers(nn.Sequential(nn.Linear(4, 5), nn.Linear(5, CLASSES)))
    make = lambda: split.tail(fresh=True)  # noqa: E731
    Ensemble.on_features(split.extractor, make, members=2).save(tmp_path)
    with pytest.raises(ValueError, match=r"^factory must be given"):
        tepui.load(tmp_path)


def test_weights_go_only_where_an_extractor_is_or_is_not(tmp_path):
    ensemble = on_features(members=2)
    ensemble.save(tmp_path)
    other = on_features(members=2, seed=4)
    load_into(other, tmp_path)
    assert same_bits(other.state_dict(), ensemble.state_dict())
    with pytest.raises(ValueError, match=r"must share an extractor .* got True"):
        load_into(ensemble.heads, tmp_path)


def test_another_extractor_is_told_what_does_not_fit(tmp_path):
    on_features().save(tmp_path)
    wrong = lambda: nn.Sequential(nn.Flatten(), nn.Linear(16, 7))  # noqa: E731
    with pytest.raises(ValueError, match=r"extractor of .*ensemble.safetensors"):
        tepui.load(tmp_path, factory=head, extractor=wrong)


def test_a_run_on_raw_inputs_resumes_and_loads(tmp_path):
    how = {**HOW, "method": SAM(), "out": tmp_path / "run"}
    ensemble = on_features(members=2)
    tepui.fit(ensemble, images(), **how)
    again = on_features(members=2)
    tepui.fit(again, images(), resume=True, **how)
    assert_same_bits(ensemble, again)
    back = tepui.load(tmp_path / "run", factory=head, extractor=fresh_body)
    assert same_bits(back.state_dict(), ensemble.state_dict())


def test_varied_hyperparameters_are_recorded_and_used(tmp_path):
    dealt = tepui.hyperparameter_grid(
        2, lr=(1e-3, 1e-1), weight_decay=(0.0, 0.5), label_smoothing=(0.0, 0.3)
    )
    ensemble, alone = on_features(members=2), on_features(members=2)
    seen = cached_features(ensemble.extractor, images(), tmp_path / "cache")
    optimizer = tepui.AdamW(lr=dealt["lr"], weight_decay=dealt["weight_decay"])
    loss = tepui.losses.CrossEntropy(dealt["label_smoothing"])
    how = {**HOW, "method": DeepEnsemble()}
    tepui.fit(
        ensemble.heads, seen, optimizer=optimizer, loss=loss, out=tmp_path / "r", **how
    )
    config = json.loads((tmp_path / "r" / "run.json").read_text())["config"]
    assert config["optimizer"]["lr"] == list(dealt["lr"])
    assert config["optimizer"]["weight_decay"] == list(dealt["weight_decay"])
    assert config["loss"]["label_smoothing"] == list(dealt["label_smoothing"])
    for index, one in enumerate(alone.heads.members):
        tepui.fit(
            Ensemble([one], [alone.seeds[index]]),
            seen,
            optimizer=tepui.AdamW(
                lr=dealt["lr"][index], weight_decay=dealt["weight_decay"][index]
            ),
            loss=tepui.losses.CrossEntropy(dealt["label_smoothing"][index]),
            **how,
        )
    assert_same_bits(alone.heads, ensemble.heads)


def test_sharpness_is_that_of_the_heads_on_their_features():
    ensemble = on_features(members=2)
    seen = features_of(ensemble.extractor, images())
    whole, heads = (
        tepui.measure(ensemble, images()),
        tepui.measure(ensemble.heads, seen),
    )
    assert whole.keys() == heads.keys()
    for name, actual in whole.items():
        assert actual.mean == pytest.approx(heads[name].mean, rel=1e-5)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("cached", [True, False])
def test_graphs_on_one_extractor_equal_eager(tmp_path, cached):
    losses = []
    for runner in ("graph", "eager"):
        ensemble = on_features().to("cuda")
        before = copied(ensemble.extractor)
        how = {**HOW, "device": "cuda", "precision": "float32", "runner": runner}
        target, seen = ensemble, images()
        if cached:
            target = ensemble.heads
            seen = cached_features(ensemble.extractor, images(), tmp_path)
        run = tepui.fit(target, seen, method=SAM(), **how)
        assert_same_bits(before, ensemble.extractor)
        assert ensemble.logits(images().inputs).isfinite().all()
        losses.append([record.loss for record in run.history])
    np.testing.assert_allclose(*losses, rtol=1e-2)
