"""Relative flatness against a brute-force Hessian, and what it does not see."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tepui.data import Arrays
from tepui.losses import CrossEntropy
from tepui.models import MLP
from tepui.sharpness import relative_flatness


def network(classes=4, dtype=torch.float64):
    torch.manual_seed(0)
    return MLP(6, (5,), classes).to(dtype)


def classified(classes=4, samples=15):
    stream = torch.Generator().manual_seed(1)
    x = torch.randn(samples, 6, generator=stream, dtype=torch.float64)
    return Arrays(x, torch.randint(classes, (samples,), generator=stream))


def brute_force(features, targets, weight, bias):
    """Sum over all pairs of classes of ⟨w_s, w_t⟩ tr H_st, from the dense Hessian."""

    def loss(flat):
        return F.cross_entropy(features @ flat.view_as(weight).T + bias, targets)

    classes, width = weight.shape
    H = torch.autograd.functional.hessian(loss, weight.flatten())
    H = H.view(classes, width, classes, width)
    total = 0.0
    for s in range(classes):
        for t in range(classes):
            total += float(weight[s] @ weight[t]) * float(H[s, :, t].trace())
    return total


def parts(model, data):
    with torch.no_grad():
        return (
            model.features(data.inputs),
            data.targets,
            model.classifier.weight.detach(),
            model.classifier.bias.detach(),
        )


@pytest.mark.parametrize("classes", [2, 4, 7])
def test_closed_form_equals_the_brute_force_hessian(classes):
    model, data = network(classes), classified(classes)
    expected = brute_force(*parts(model, data))
    for options in ({}, {"method": "hessian"}, {"batch_size": 4}):
        measured = relative_flatness(model, data, **options)
        assert measured.value == pytest.approx(expected, rel=1e-10)
    hessian = relative_flatness(model, data, method="hessian", batch_size=4)
    assert hessian.value == pytest.approx(expected, rel=1e-10)
    assert math.isnan(hessian.standard_error)


def test_blind_to_features_scaled_against_weights():
    model, data = network(), classified()
    before = relative_flatness(model, data).value
    with torch.no_grad():
        model.layers[1].weight *= 9
        model.layers[1].bias *= 9
        model.classifier.weight /= 9
    assert relative_flatness(model, data).value == pytest.approx(before, rel=1e-10)


def test_normalized_features_by_hand():
    model, data = network(), classified()
    features, targets, weight, bias = parts(model, data)
    spread = features.std(0, correction=0)
    spread = torch.where(spread > 0, spread, 1.0)
    expected = brute_force(features / spread, targets, weight * spread, bias)
    for method in ("closed_form", "hessian"):
        measured = relative_flatness(model, data, feature_norm=True, method=method)
        assert measured.value == pytest.approx(expected, rel=1e-10)


def test_weight_decay_adds_the_squared_weights():
    model, data = network(), classified()
    plain = relative_flatness(model, data).value
    decayed = relative_flatness(model, data, weight_decay=0.01).value
    squares = float(model.classifier.weight.detach().square().sum())
    assert decayed - plain == pytest.approx(0.02 * squares)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("soft", [False, True])
def test_class_weights_weigh_the_closed_form_as_they_do_the_hessian(smoothing, soft):
    model, data = network(), classified()
    if soft:
        stream = torch.Generator().manual_seed(2)
        odds = torch.randn(15, 4, generator=stream, dtype=torch.float64)
        data = Arrays(data.inputs, odds.softmax(1))
    loss = CrossEntropy(smoothing, class_weights=(1.0, 5.0, 0.5, 0.0))
    dense = relative_flatness(model, data, loss=loss, method="hessian")
    closed = relative_flatness(model, data, loss=loss)
    assert closed.value == pytest.approx(dense.value, rel=1e-10)
    assert closed.value != pytest.approx(relative_flatness(model, data).value, rel=0.1)


def test_confident_predictions_keep_their_digits():
    """Probabilities of 1e-12 and less, where the variance cancels in float32."""
    model, data = network(), classified()
    with torch.no_grad():
        model.classifier.weight *= 40
    exact = relative_flatness(model, data)
    rough = relative_flatness(
        network_like(model), Arrays(data.inputs.float(), data.targets)
    )
    assert rough.value == pytest.approx(exact.value, rel=1e-4)
    with torch.no_grad():
        model.classifier.weight *= 10
    small = relative_flatness(model, data.subset([0])).value
    single = Arrays(data.inputs.float(), data.targets).subset([0])
    measured = relative_flatness(network_like(model), single).value
    assert measured == pytest.approx(small, rel=1e-2, abs=1e-35)


def network_like(model):
    other = network(dtype=torch.float32)
    other.load_state_dict(model.state_dict())
    return other


def test_models_that_do_not_end_in_a_linear_layer_are_refused():
    data = classified()
    with pytest.raises(ValueError, match="model must have a linear layer, got 'Iden"):
        relative_flatness(nn.Identity(), data)
    tokens = nn.Sequential(
        nn.Unflatten(1, (2, 3)), nn.Linear(3, 4).double(), nn.Flatten()
    )
    with pytest.raises(ValueError, match="model must end in one use of its last lin"):
        relative_flatness(tokens, data)
