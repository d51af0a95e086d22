"""Second derivatives along directions, for every layer that torch has kernels for."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils import parametrizations, parametrize

from tepui.data import Arrays
from tepui.losses import cross_entropy
from tepui.models import Albert, ViTTiny
from tepui.sharpness import (
    fisher_rao,
    hessian_eigenvalues,
    hessian_trace,
    sample_hessian_trace,
)

SAMPLES = 5


class Attention(nn.MultiheadAttention):
    def forward(self, x):
        return super().forward(x, x, x, need_weights=False)[0]


class Normed(nn.Module):
    """Weight norm by its formula, with the names that torch gives the parameters."""

    def forward(self, g, v):
        return g * v / v.norm(dim=1, keepdim=True)

    def right_inverse(self, weight):
        return weight.norm(dim=1, keepdim=True), weight


def by_formula():
    linear = nn.Linear(4, 4)
    return parametrize.register_parametrization(linear, "weight", Normed())


LAYERS = {
    "layer norm": lambda: nn.LayerNorm(4),
    "RMS norm": lambda: nn.RMSNorm(4),
    "group norm": lambda: nn.GroupNorm(3, 3),
    "instance norm": lambda: nn.InstanceNorm1d(3, affine=True),
    "batch norm in eval": lambda: nn.BatchNorm1d(3),
    "statistics of the batch": lambda: nn.BatchNorm1d(3, track_running_stats=False),
    "attention": lambda: Attention(4, 2, batch_first=True),
    "encoder layer": lambda: nn.TransformerEncoderLayer(
        4, 2, 4, activation="gelu", batch_first=True
    ),
    "GLU": lambda: nn.Sequential(nn.Linear(4, 8), nn.GLU()),
    "weight norm": lambda: parametrizations.weight_norm(nn.Linear(4, 4)),
}


def with_layer(layer):
    ends = nn.Linear(4, 4), nn.Sequential(nn.Tanh(), nn.Flatten(), nn.Linear(12, 3))
    return nn.Sequential(ends[0], layer(), ends[1])


def embedding():
    return nn.Sequential(nn.Embedding(6, 4), nn.Tanh(), nn.Flatten(), nn.Linear(12, 3))


def vision_transformer():
    """Only some weights move, so that the dense Hessian is small."""
    model = ViTTiny(3, image_size=8, depth=1)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.endswith("1.norm.weight"))
    return model


def albert():
    model = Albert(3, vocabulary=6, embedding=2, width=4, depth=2, heads=2, length=3)
    model.layers[0].shared.wide.requires_grad_(False)
    model.layers[0].shared.narrow.requires_grad_(False)
    return model


MODELS = {
    **{name: partial(with_layer, layer) for name, layer in LAYERS.items()},
    "embedding": embedding,
    "ViTTiny": vision_transformer,
    "Albert": albert,
}
TWINS = {"weight norm": partial(with_layer, by_formula)}

every_model = pytest.mark.parametrize("name", MODELS)


def drawn(build):
    torch.manual_seed(0)
    model = build().double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return model


def case(name):
    """Return a model, one of the same function to differentiate, and data."""
    model = drawn(MODELS[name])
    twin = drawn(TWINS.get(name, MODELS[name])).eval()
    twin.load_state_dict(model.state_dict())
    stream = torch.Generator().manual_seed(1)
    shape = (3, 8, 8) if name == "ViTTiny" else (3, 4)
    x = torch.randn(SAMPLES, *shape, generator=stream, dtype=torch.float64)
    if name in ("embedding", "Albert"):
        x = torch.randint(6, (SAMPLES, 3), generator=stream)
    return model, twin, Arrays(x, torch.randint(3, (SAMPLES,), generator=stream))


def trainable(model):
    return {n: p.detach() for n, p in model.named_parameters() if p.requires_grad}


def losses(model, data, vector):
    """One loss per sample as a function of the trainable weights."""
    values = trainable(model)
    parts = vector.split([value.numel() for value in values.values()])
    named = zip(values.items(), parts, strict=True)
    moved = {name: part.view_as(value) for (name, value), part in named}
    with sdpa_kernel(SDPBackend.MATH):
        outputs = functional_call(model, moved, (data.inputs,))
    return cross_entropy(outputs, data.targets)


def here(model):
    return torch.cat([value.flatten() for value in trainable(model).values()])


def gradient(model, data, vector):
    vector = vector.clone().requires_grad_()
    return torch.autograd.grad(losses(model, data, vector).mean(), vector)[0]


def dense_hessian(model, data):
    return torch.autograd.functional.hessian(
        lambda vector: losses(model, data, vector).mean(), here(model)
    )


def hessian_along(model, data, way):
    """The Hessian times a direction, by finite differences of the gradient."""
    w = here(model)

    def central(h):
        there, back = (gradient(model, data, w + s * h * way) for s in (1, -1))
        return (there - back) / (2 * h)

    step = 4e-3 / float(way.norm())
    return (4 * central(step / 2) - central(step)) / 3


def signs(size, stream):
    return 2.0 * torch.randint(2, size, generator=stream).double() - 1


@every_model
def test_every_measure_of_the_hessian_is_that_of_the_dense_one(name):
    model, twin, data = case(name)
    H = dense_hessian(twin, data)
    way = signs(here(model).shape, torch.Generator().manual_seed(2))
    near = hessian_along(model.eval(), data, way)
    torch.testing.assert_close(H @ way, near, rtol=1e-6, atol=1e-6)

    stream = torch.Generator().manual_seed(0)
    ways = [signs(here(model).shape, stream) for _ in range(2)]
    traces = [float(way @ H @ way) for way in ways]
    stream.manual_seed(0)
    trace = hessian_trace(model, data, num_probes=2, generator=stream)
    assert trace.value == pytest.approx(sum(traces) / 2, rel=1e-9, abs=1e-9)

    exact = torch.linalg.eigvalsh(H).flip(0)[:3].tolist()
    found = hessian_eigenvalues(model, data, num_eigenvalues=3, tolerance=1e-9)
    assert [one.value for one in found] == pytest.approx(exact, rel=1e-7)


@every_model
def test_every_sample_has_the_curvature_of_its_own_loss(name):
    model, twin, data = case(name)
    stream = torch.Generator().manual_seed(0)
    parts = [signs(value.shape, stream) for value in trainable(model).values()]
    way = torch.cat([part.flatten() for part in parts])
    vector = here(twin).requires_grad_()
    expected = []
    for loss in losses(twin, data, vector):
        (slope,) = torch.autograd.grad(loss, vector, create_graph=True)
        (product,) = torch.autograd.grad(slope @ way, vector, retain_graph=True)
        expected.append(product @ way)
    stream.manual_seed(0)
    measured = sample_hessian_trace(model, data, num_probes=1, generator=stream)
    torch.testing.assert_close(measured, torch.stack(expected), rtol=1e-9, atol=1e-9)
    near = hessian_along(model.eval(), data, way) @ way
    torch.testing.assert_close(measured.mean(), near, rtol=1e-6, atol=1e-6)


@every_model
def test_the_norm_along_the_weights_is_that_of_the_gradients(name):
    model, twin, data = case(name)
    vector = here(twin).requires_grad_()
    slopes = [
        torch.autograd.grad(loss, vector, retain_graph=True)[0] @ vector.detach()
        for loss in losses(twin, data, vector)
    ]
    measured = fisher_rao(model, data, method="direct", squared=True)
    expected = float(torch.stack(slopes).square().mean())
    assert measured.value == pytest.approx(expected, rel=1e-9)
