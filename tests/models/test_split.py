"""A frozen extractor and a trained tail."""

import pytest
import torch
from torch import nn

import tepui
from models.cases import NAMES, built, data
from tepui.methods import SAM, SharpBalance
from tepui.models import MLP, ViTTiny, split_last_layers
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
