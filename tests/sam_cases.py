"""A small network, SAM around it, and the loop both optimizer tests share."""

import torch
from torch import nn
from torch.nn import functional as F

from tepui.optim import SAM

BASES = {
    "sgd": (
        torch.optim.SGD,
        {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-2},
    ),
    "adamw": (torch.optim.AdamW, {"lr": 0.01, "weight_decay": 1e-2}),
}
X = torch.randn(16, 3, generator=torch.Generator().manual_seed(1))
Y = torch.arange(16) % 4


def make_net(norm=True):
    torch.manual_seed(0)
    middle = nn.BatchNorm1d(8) if norm else nn.Identity()
    return nn.Sequential(nn.Linear(3, 8), middle, nn.ReLU(), nn.Linear(8, 4))


def make_sam(net, base="sgd", rho=0.3, **options):
    kind, arguments = BASES[base]
    return SAM(net.parameters(), kind, rho, **options, **arguments)


def closure_of(net, optimizer, scaler=None, x=X, y=Y):
    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        (loss if scaler is None else scaler.scale(loss)).backward()
        return loss

    return closure


def train(net, optimizer, steps=5):
    for _ in range(steps):
        optimizer.step(closure_of(net, optimizer))


def state(net):
    return {name: tensor.clone() for name, tensor in net.state_dict().items()}


def weights(net):
    return {name: tensor.detach().clone() for name, tensor in net.named_parameters()}
