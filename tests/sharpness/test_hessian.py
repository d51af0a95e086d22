"""Trace and eigenvalues of the Hessian against the dense one and another library."""

import pytest
import torch
import torch.nn.functional as F
from scipy.sparse.linalg import eigsh
from torch import nn

from quadratic import inputs_of, own_value, random_quadratic
from tepui.data import Arrays
from tepui.losses import cross_entropy
from tepui.sharpness import fisher_trace, hessian_eigenvalues, hessian_trace
from tepui.sharpness.hessian import hessian_product
from tepui.sharpness.measurement import select
from tepui.sharpness.weights import WeightVector


def network():
    torch.manual_seed(0)
    layers = nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)
    return nn.Sequential(*layers).double()


def classified(samples=30):
    stream = torch.Generator().manual_seed(1)
    x = torch.randn(samples, 4, generator=stream, dtype=torch.float64)
    return Arrays(x, torch.randint(3, (samples,), generator=stream))


def dense_hessian(model, data):
    names = [name for name, _ in model.named_parameters()]
    values = [p.detach() for p in model.parameters()]
    sizes = [value.numel() for value in values]

    def loss(flat):
        parts = [p.view_as(v) for p, v in zip(flat.split(sizes), values, strict=True)]
        weights_by_name = dict(zip(names, parts, strict=True))
        outputs = torch.func.functional_call(model, weights_by_name, (data.inputs,))
        return F.cross_entropy(outputs, data.targets)

    flat = torch.cat([value.flatten() for value in values])
    return torch.autograd.functional.hessian(loss, flat)


def test_the_stated_error_is_that_of_the_probes():
    """Equal samples: one probe has the variance of twice the squared off-diagonal."""
    model = random_quadratic(2)
    measured = hessian_trace(model, inputs_of(1.0, 1.0), loss=own_value, num_probes=200)
    off = model.hessian - model.hessian.diagonal().diag()
    expected = float((2 * off.square().sum() / 200).sqrt())
    assert measured.standard_error == pytest.approx(expected, rel=0.2)
    assert abs(measured.value - float(model.hessian.trace())) < 4 * expected


@pytest.mark.parametrize("which", ["LA", "SA", "LM"])
@pytest.mark.parametrize(("free_weights", "count"), [(4, 3), (9, 8), (30, 2), (43, 3)])
def test_eigenvalues_are_those_of_the_weights_that_are_left(which, free_weights, count):
    """For all but one, Lanczos exhausts the space of the free weights."""
    model, data = network(), classified()
    chosen = torch.randperm(43, generator=torch.Generator().manual_seed(5))
    free = torch.zeros(43, dtype=torch.bool)
    free[chosen[:free_weights]] = True
    exact = torch.linalg.eigvalsh(dense_hessian(model, data)[free][:, free])
    sizes = [p.numel() for p in model.parameters()]
    named = [*model.named_parameters()]
    for (name, p), part in zip(named, free.split(sizes), strict=True):
        layer, _, leaf = name.rpartition(".")
        model.get_submodule(layer).register_buffer(f"{leaf}_mask", part.view_as(p))
    order = {"LA": -exact, "SA": exact, "LM": -exact.abs()}[which].argsort()
    how = {"num_eigenvalues": count, "which": which, "tolerance": 1e-10}
    measured = hessian_eigenvalues(model, data, batch_size=20, **how)
    values = torch.tensor([one.value for one in measured], dtype=torch.float64)
    torch.testing.assert_close(values, exact[order[:count]], rtol=1e-7, atol=1e-9)


def curvlinops_operator(name, model, data):
    curvlinops = pytest.importorskip(
        "curvlinops", reason="curvlinops is not installed (make installs it)"
    )
    return getattr(curvlinops, name)(
        model,
        nn.CrossEntropyLoss(),
        list(model.parameters()),
        [(data.inputs, data.targets)],
    )


def test_products_and_eigenvalues_agree_with_curvlinops():
    model, data = network(), classified()
    operator = curvlinops_operator("HessianLinearOperator", model, data)
    way = torch.randn(43, generator=torch.Generator().manual_seed(0)).double()
    batches = select(model, data, cross_entropy, batch_size=7)
    measured = hessian_product(WeightVector(model, cross_entropy), batches, way)
    torch.testing.assert_close(measured, operator @ way)
    expected = eigsh(operator.to_scipy(), k=3, which="LA", return_eigenvectors=False)
    tops = hessian_eigenvalues(model, data, num_eigenvalues=3, tolerance=1e-10)
    assert [top.value for top in tops] == pytest.approx(sorted(expected)[::-1])


def test_the_fisher_trace_agrees_with_curvlinops():
    model, data = network(), classified()
    operator = curvlinops_operator("EFLinearOperator", model, data)
    expected = float((operator @ torch.eye(43, dtype=torch.float64)).trace())
    assert fisher_trace(model, data).value == pytest.approx(expected)
