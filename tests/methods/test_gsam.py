import pytest
import torch
from torch import nn

from tepui.data import Batch
from tepui.methods import SAM
from tepui.methods.gsam import GSAM
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


@pytest.mark.parametrize(("rate", "rho"), [(0.1, 0.2), (0.05, 0.125), (0.0, 0.05)])
def test_radius_follows_the_learning_rate(rate, rho):
    member, batch = member_and_batch(rate=0.1)
    member.learning_rate.fill_(rate)
    scheduled = GSAM(rho=0.2, rho_min=0.05, alpha=0.0).gradient(member, batch).values
    fixed = SAM(rho=rho).gradient(member, batch).values
    for one, other in zip(scheduled, fixed, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-9)
