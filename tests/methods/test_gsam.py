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


@pytest.mark.parametrize(("rate", "rho"), [(0.1, 0.2), (0.05, 0.125), (0.0, 0.05)])
def test_radius_follows_the_learning_rate(rate, rho):
    member, batch = member_and_batch(rate=0.1)
    member.learning_rate.fill_(rate)
    scheduled = GSAM(rho=0.2, rho_min=0.05, alpha=0.0).gradient(member, batch).values
    fixed = SAM(rho=rho).gradient(member, batch).values
    for one, other in zip(scheduled, fixed, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-9)
