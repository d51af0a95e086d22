"""A frozen extractor and a trained tail."""

import pytest
import torch
from torch import nn

import tepui
from models.cases import NAMES, built, data
from tepui.methods import SAM, SharpBalance
from tepui.models import MLP, Frozen, Model, ViTTiny, split_last_layers
from tepui.modules.running import forward
from training.cases import assert_same_bits, copied, one_thread

single = pytest.fixture(autouse=True)(one_thread)

METHODS = [SAM(rho=0.1), SharpBalance(rho=0.1)]


def trained(ensemble, samples, method=METHODS[0], epochs=2):
    return tepui.fit(
        ensemble,
        samples,
        method=method,
        epochs=epochs,
        batch_size=4,
        optimizer=tepui.SGD(lr=0.05),
        device="cpu",
        progress="none",
    )


def heavy(model):
    parts = [*model.layers, model.classifier]
    return [part for part in parts if next(part.parameters(), None) is not None]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_both_parts_together_are_the_model_at_every_cut(name):
    torch.manual_seed(0)
    model, inputs = built(name).eval(), data(name).inputs
    expected = forward(model, inputs)
    for layers in range(1, len(heavy(model))):
        split = split_last_layers(model, layers)
        tail, whole = split.tail().eval(), split.whole().eval()
        assert len(heavy(tail)) == layers
        assert torch.equal(tail(forward(split.extractor, inputs)), expected)
        assert torch.equal(forward(whole, inputs), expected)
        assert all(p.requires_grad for p in tail.parameters())
        own = sum(p.numel() for p in tail.parameters())
        assert sum(p.numel() for p in whole.parameters() if p.requires_grad) == own


def test_a_cut_inside_the_last_block_of_a_transformer_leaves_one_vector():
    model = ViTTiny(image_size=8, depth=2)
    split = split_last_layers(model, layers=3)
    assert split.extractor(torch.randn(5, 3, 8, 8)).shape == (5, 192)
    half, norm = (part for part in split.tail().layers)
    assert isinstance(half.branch, nn.Sequential)
    assert isinstance(norm, nn.LayerNorm)
    expected = 2 * 192 + 192 * 768 + 768 + 768 * 192 + 192 + 2 * 192 + 1930
    assert sum(p.numel() for p in split.tail().parameters()) == expected
    attention = model.layers[3].branch.projection.weight
    assert any(torch.equal(p, attention) for p in split.extractor.parameters())


def test_a_model_is_left_as_it_was():
    model = MLP(4, (5,), 3).train()
    before = copied(model)
    split = split_last_layers(model)
    assert all(p.requires_grad for p in model.parameters())
    assert model.training
    nn.init.zeros_(split.tail().classifier.weight)
    nn.init.zeros_(split.extractor.layers[1].weight)
    assert_same_bits(before, model)


@pytest.mark.filterwarnings("ignore:members .* start from identical weights")
@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
@pytest.mark.parametrize("name", ["ConvNet", "ViTTiny", "Albert"])
def test_training_changes_the_tails_and_never_the_extractor(name, method):
    split = split_last_layers(built(name))
    before = copied(split.extractor)
    pattern = copied(split.pattern)
    ensemble = tepui.Ensemble.build(lambda: split.whole(fresh=True), members=2, seed=3)
    trained(ensemble, data(name), method)
    assert_same_bits(before, split.extractor)
    assert_same_bits(pattern, split.pattern)
    for member in ensemble.members:
        assert member.layers[0] is split.extractor
        moved = not torch.equal(
            member.classifier.weight, split.pattern.classifier.weight
        )
        assert moved


def test_running_statistics_stay_while_members_train():
    split = split_last_layers(built("ConvNet"))
    whole = split.whole().train()
    norms = [m for m in whole.modules() if isinstance(m, nn.BatchNorm2d)]
    before = copied(split.extractor)
    whole(data("ConvNet").inputs)
    assert not any(norm.training for norm in norms)
    assert_same_bits(before, split.extractor)
    assert split.tail().train().training


def test_no_gradient_reaches_the_inputs_through_a_frozen_part():
    x = torch.randn(2, 4, requires_grad=True)
    assert not Frozen([nn.Linear(4, 3)])(x).requires_grad


def test_tails_are_copies_or_fresh():
    split = split_last_layers(MLP(4, (5, 6), 3), layers=2)
    first, second = split.tail(), split.tail()
    assert_same_bits(first, second)
    assert first.classifier is not second.classifier
    fresh = split.tail(fresh=True)
    for own, kept in zip(fresh.parameters(), first.parameters(), strict=True):
        assert not torch.equal(own, kept)
    ensemble = tepui.Ensemble.build(lambda: split.tail(fresh=True), members=2, seed=1)
    again = tepui.Ensemble.build(lambda: split.tail(fresh=True), members=2, seed=1)
    assert_same_bits(ensemble, again)


def test_identical_tails_are_reported():
    split = split_last_layers(MLP(4, (5,), 3))
    with pytest.warns(UserWarning, match=r"start from identical weights \(100% of"):
        tepui.Ensemble.build(split.tail, members=2)


def test_a_sequence_that_ends_in_a_linear_layer_can_be_cut():
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    split = split_last_layers(model)
    x = torch.randn(2, 4)
    assert torch.equal(split.whole()(x), model(x))
    assert isinstance(split.tail(), Model)


@pytest.mark.parametrize(
    ("model", "layers", "message"),
    [
        (MLP(4, (5,), 3), 0, r"layers must lie in \[1, 1\], got 0"),
        (MLP(4, (5,), 3), 2, r"layers must lie in \[1, 1\], got 2"),
        (nn.Linear(3, 2), 1, r"model must be one of tepui.models .* got 'Linear'"),
        (nn.Sequential(), 1, r"model must be .* got 'an empty nn.Sequential'"),
        (nn.Sequential(nn.ReLU()), 1, r"model must be .* got 'ReLU at its end'"),
    ],
)
def test_a_cut_that_cannot_be_is_refused(model, layers, message):
    with pytest.raises(ValueError, match=message):
        split_last_layers(model, layers)


def test_members_on_one_extractor_are_saved_once_and_loaded(tmp_path):
    split = split_last_layers(MLP(64, (300,), 10))
    make = lambda: split.whole(fresh=True)  # noqa: E731
    with pytest.warns(UserWarning, match="identical weights"):
        ensemble = tepui.Ensemble.build(make, members=3, seed=1)
    file = ensemble.save(tmp_path)
    extractor = sum(p.numel() for p in split.extractor.parameters())
    assert file.stat().st_size < 2 * 4 * extractor
    loaded = tepui.load(tmp_path, make)
    x = torch.randn(4, 1, 8, 8)
    assert torch.equal(loaded.logits(x), ensemble.logits(x))
