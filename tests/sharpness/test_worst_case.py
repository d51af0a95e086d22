"""Worst-case sharpness of models: closed forms, invariances, the naive loop."""

import pytest
import torch
from torch import nn

from naive_worst_case import naive_worst_case
from quadratic import inputs_of, largest_rise, own_value, random_quadratic
from tepui.data import Arrays
from tepui.models import MLP, ConvNet
from tepui.sharpness import worst_case
from tepui.sharpness.weights import normalized_logits
from tepui.sharpness.worst_case import ascent, released_ascent


def classified(samples=20, features=6, classes=3, dtype=torch.float64):
    stream = torch.Generator().manual_seed(1)
    x = torch.randn(samples, features, generator=stream, dtype=dtype)
    return Arrays(x, torch.randint(classes, (samples,), generator=stream))


def network(dtype=torch.float64):
    torch.manual_seed(0)
    return MLP(6, (8, 8), 3).to(dtype)


def test_a_quadratic_has_its_secular_maximum():
    model = random_quadratic(3, convex=True)
    w = model.weights.detach()
    scale, slope = w.abs(), model.hessian @ w + model.slope
    A, b = scale[:, None] * model.hessian * scale, scale * slope
    measured = worst_case(model, inputs_of(1.0, 1.0), loss=own_value, rho=0.4)
    assert measured.value == pytest.approx(largest_rise(A, b, 0.4), rel=0.01)
    plain = worst_case(model, inputs_of(1.0), loss=own_value, rho=0.4, adaptive=False)
    exact = largest_rise(model.hessian, slope, 0.4)
    assert plain.value == pytest.approx(exact, rel=0.01)


def test_the_value_is_the_mean_over_batches_and_the_error_theirs():
    model = random_quadratic(3, convex=True)
    measured = worst_case(
        model, inputs_of(1.0, 3.0), loss=own_value, rho=0.4, batch_size=1
    )
    single = worst_case(model, inputs_of(1.0), loss=own_value, rho=0.4).value
    assert measured.value == pytest.approx(2 * single)
    assert measured.standard_error == pytest.approx(single)


def test_equals_the_naive_loop_over_parameter_dictionaries():
    model, data = network(), classified()
    measured = worst_case(model, data, rho=0.5, num_samples=20, batch_size=20)
    expected = naive_worst_case(model, [(data.inputs, data.targets)], 0.5)
    assert measured.value == pytest.approx(float(expected.mean()), rel=1e-9)


def test_linear_models_have_their_maximum_in_the_corner_of_the_cube():
    model = nn.Linear(6, 1, bias=False).double()
    data = classified()
    measured = worst_case(
        model,
        data,
        loss=lambda outputs, targets: outputs[:, 0],
        rho=0.1,
        norm="linf",
        batch_size=20,
    )
    slope = data.inputs.mean(0)
    expected = 0.1 * (model.weight.detach().abs() * slope.abs()).sum()
    assert measured.value == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_blind_to_a_rescaling_of_layers(norm):
    model, data = network(), classified()
    before = worst_case(model, data, rho=0.1, norm=norm).value
    with torch.no_grad():
        model.layers[1].weight *= 7
        model.layers[1].bias *= 7
        model.layers[3].weight /= 7
    after = worst_case(model, data, rho=0.1, norm=norm).value
    assert after == pytest.approx(before, rel=1e-6)
    plain = worst_case(model, data, rho=0.1, norm=norm, adaptive=False).value
    assert plain != pytest.approx(before, rel=0.1)


def test_several_radii_are_measured_as_one_by_one():
    model, data = network(), classified()
    several = worst_case(model, data, rho=[0.05, 0.5], norm="linf")
    single = [worst_case(model, data, rho=rho, norm="linf") for rho in (0.05, 0.5)]
    assert several == tuple(single)
    assert several[0].value < several[1].value
    assert [measured.settings["rho"] for measured in several] == [0.05, 0.5]


@pytest.mark.parametrize("by", ["exact", "released"])
def test_zero_weights_stay_and_do_no_harm(by):
    """A pruned first layer and zero biases, which made the published ratio 0/0."""
    model, data = network(), classified()
    with torch.no_grad():
        model.layers[1].weight[:, ::2] = 0
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
    mask = {"layers.1.weight": model.layers[1].weight != 0}
    measured = worst_case(model, data, rho=0.5, ascent=by)
    masked = worst_case(model, data, rho=0.5, ascent=by, masks=mask)
    assert measured.value > 0
    assert measured.value == masked.value


def test_masked_weights_stay_where_they_are():
    """Only the second of two weights may move; the loss is their sum."""
    model = nn.Linear(2, 1, bias=False).double()
    data = Arrays(torch.ones(1, 2).double(), torch.zeros(1))
    mask = {"weight": torch.tensor([[False, True]])}

    def rise(norm, masks):
        return worst_case(
            model,
            data,
            loss=lambda outputs, targets: outputs[:, 0],
            rho=0.3,
            norm=norm,
            adaptive=False,
            masks=masks,
        ).value

    assert rise("linf", mask) == pytest.approx(0.3)
    assert rise("linf", None) == pytest.approx(0.6)
    assert rise("l2", mask) == pytest.approx(0.3)
    assert rise("l2", None) == pytest.approx(0.3 * 2**0.5)


def test_normalized_logits_are_those_of_a_wrapped_model():
    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = network()

        def forward(self, x):
            return normalized_logits(self.inner(x))

    data = classified()
    measured = worst_case(network(), data, normalize_logits=True)
    assert measured.value == worst_case(Wrapped(), data).value
    logits = normalized_logits(torch.randn(4, 5, dtype=torch.float64))
    torch.testing.assert_close(logits.mean(1), torch.zeros(4).double())
    torch.testing.assert_close(logits.norm(dim=1), torch.ones(4).double())


def test_the_samples_are_drawn_by_the_generator():
    model, data = network(), classified(60)

    def value(seed, **options):
        stream = torch.Generator().manual_seed(seed)
        measured = worst_case(model, data, num_samples=10, generator=stream, **options)
        assert measured.settings["samples"] == 10
        return measured.value

    assert value(0) == value(0)
    assert value(0) != value(1)


def test_a_last_smaller_batch_is_left_out():
    model, data = network(), classified(23)
    assert worst_case(model, data).settings["samples"] == 20
    assert worst_case(model, data, batch_size=30).settings["samples"] == 23


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rho": -1.0}, "rho must be finite and non-negative, got -1.0"),
        ({"rho": float("nan")}, "rho must be a finite number .*, got nan"),
        ({"rho": []}, r"rho must be a number, or several, got \[\]"),
        ({"num_steps": 0}, "num_steps must be positive, got 0"),
        ({"norm": "l1"}, "norm must be one of l2, linf, got 'l1'"),
        ({"ascent": "box"}, "ascent must be one of exact, released"),
        ({"masks": {"nobody": torch.ones(1)}}, "masks must name trainable parameters"),
        (
            {"masks": {"classifier.bias": torch.ones(2, dtype=torch.bool)}},
            r"masks\['classifier.bias'\] must be boolean of shape \(3,\)",
        ),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        worst_case(network(), classified(), **options)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_captured_batches_give_what_single_ones_give():
    torch.manual_seed(0)
    model = ConvNet(3, 1, 8).cuda()
    data = Arrays(torch.randn(40, 1, 8, 8), torch.arange(40) % 3).to("cuda")
    stream = torch.Generator().manual_seed(0)
    whole = worst_case(model, data, num_samples=40, generator=stream)
    rows = torch.randperm(40, generator=torch.Generator().manual_seed(0))
    single = [worst_case(model, data.subset(part)).value for part in rows.split(5)]
    assert whole.value == pytest.approx(sum(single) / 8, rel=1e-3)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("climb", [ascent, released_ascent])
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
def test_the_ascent_never_waits_for_the_device(norm, climb):
    scale = torch.rand(9, device="cuda")
    height = torch.randn(9, device="cuda")

    def slope(u):
        return height @ (scale * u), height

    torch.cuda.set_sync_debug_mode("error")
    try:
        measured = climb(slope, scale, rho=0.3, norm=norm)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert float(measured) > 0
