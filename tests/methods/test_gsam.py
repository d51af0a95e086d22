import pytest
import torch
from torch import nn

from tepui.data import Batch
from tepui.methods import SAM
from tepui.methods.gsam import GSAM, orthogonal_part
from training.cases import member_of


def member_and_batch(rate=0.1):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    member = member_of(module, rate=rate)
    inputs = torch.randn(8, 6, dtype=torch.float64)
    batch = Batch(inputs, torch.randint(3, (8,)), torch.arange(8))
    return member, batch


def dot(first, second):
    return sum((a * b).sum() for a, b in zip(first, second, strict=True))


def test_without_decomposition_it_is_sam_to_the_bit():
    member, batch = member_and_batch()
    sam = SAM(rho=0.2).gradient(member, batch)
    gsam = GSAM(rho=0.2, alpha=0.0).gradient(member, batch)
    assert torch.equal(sam.loss, gsam.loss)
    assert all(torch.equal(a, b) for a, b in zip(sam.values, gsam.values, strict=True))


def test_the_orthogonal_part_of_complex_gradients_is_that_of_their_real_view():
    parts = torch.randn(2, 7, 2, generator=torch.Generator().manual_seed(0)).double()
    first, second = ([torch.view_as_complex(part)] for part in parts)
    [found] = orthogonal_part(first, second)
    [expected] = orthogonal_part(*([part] for part in parts))
    torch.testing.assert_close(torch.view_as_real(found), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_orthogonal_part_of_large_gradients_in_half_precision(dtype):
    generator = torch.Generator().manual_seed(0)
    parts = [1e3 * torch.randn(90_000, generator=generator) for _ in range(2)]
    first, second = ([part.to(dtype)] for part in parts)
    [found] = orthogonal_part(first, second)
    assert found.dtype == dtype
    a, b = first[0].double(), second[0].double()
    expected = a - (a @ b) / (b @ b) * b
    torch.testing.assert_close(found.double(), expected, rtol=0.01, atol=1.0)


def test_what_is_removed_is_orthogonal_to_the_perturbed_gradient():
    member, batch = member_and_batch()
    perturbed = SAM(rho=0.2).gradient(member, batch).values
    step = GSAM(rho=0.2, alpha=0.4).gradient(member, batch).values
    removed = [p - s for p, s in zip(perturbed, step, strict=True)]
    lengths = dot(removed, removed).sqrt() * dot(perturbed, perturbed).sqrt()
    assert float(lengths) > 1e-6
    assert abs(float(dot(removed, perturbed) / lengths)) < 1e-6


def test_step_equals_the_formula_written_out():
    member, batch = member_and_batch()
    g = member.gradient(batch).values
    g_p = SAM(rho=0.2).gradient(member, batch).values
    share = dot(g, g_p) / dot(g_p, g_p)
    expected = [p - 0.4 * (h - share * p) for h, p in zip(g, g_p, strict=True)]
    found = GSAM(rho=0.2, alpha=0.4).gradient(member, batch).values
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


def test_orthogonal_part_of_a_multiple_is_zero():
    g = [torch.randn(3, dtype=torch.float64), torch.randn(2, 2, dtype=torch.float64)]
    for part in orthogonal_part([3 * x for x in g], g):
        torch.testing.assert_close(part, torch.zeros_like(part), atol=1e-11, rtol=0)


@pytest.mark.parametrize("size", [1e-9, 1e-7, 1e-4, 1.0, 1e4])
def test_orthogonal_part_scales_with_the_gradient(size):
    g = [torch.tensor([3.0, 4.0], dtype=torch.float64) * size]
    along = [torch.tensor([2.0, 0.0], dtype=torch.float64) * size]
    (found,) = orthogonal_part(g, along)
    expected = torch.tensor([0.0, 4.0], dtype=torch.float64)
    torch.testing.assert_close(found / size, expected, atol=1e-2, rtol=0)
    if size >= 1e-7:
        torch.testing.assert_close(found / size, expected, atol=1e-4, rtol=0)


def test_nothing_is_along_a_gradient_of_zero():
    g, zero = [torch.tensor([3.0, 4.0])], [torch.zeros(2)]
    assert torch.equal(orthogonal_part(g, zero)[0], g[0])


def test_gradients_of_usual_size_are_divided_by_their_squared_norm_to_the_bit():
    """Runs recorded earlier go on as they began."""
    stream = torch.Generator().manual_seed(0)
    for size in (0.01, 1.0, 50.0):
        g, along = (size * torch.randn(2, 30, generator=stream)).unbind()
        scale = (g * along).sum() / (along.norm().square() + 1e-12)
        assert torch.equal(orthogonal_part([g], [along])[0], g - along * scale)


@pytest.mark.parametrize(("rate", "rho"), [(0.1, 0.2), (0.05, 0.125), (0.0, 0.05)])
def test_radius_follows_the_learning_rate(rate, rho):
    member, batch = member_and_batch(rate=0.1)
    member.learning_rate.fill_(rate)
    scheduled = GSAM(rho=0.2, rho_min=0.05, alpha=0.0).gradient(member, batch).values
    fixed = SAM(rho=rho).gradient(member, batch).values
    for one, other in zip(scheduled, fixed, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rho": -0.1}, "rho must be non-negative, got -0.1"),
        ({"rho": 0.1, "rho_min": 0.2}, r"rho_min must lie between 0 and rho \(0.1\)"),
        ({"alpha": -1.0}, "alpha must be non-negative, got -1.0"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        GSAM(**arguments)
