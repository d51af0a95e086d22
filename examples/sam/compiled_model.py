"""SAM and torch.compile: compile the model, not the step.

Run: python examples/sam/compiled_model.py
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

from tepui.optim import SAM

digits = load_digits()
x, y = torch.tensor(digits.data / 16).float(), torch.tensor(digits.target)
net = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10))
model = torch.compile(net)
optimizer = SAM(
    net.parameters(),
    torch.optim.SGD,
    rho=0.05,
    module=net,
    max_grad_norm=1.0,
    lr=0.05,
    momentum=0.9,
)

for _ in range(3):
    for rows in torch.randperm(len(x))[:1728].split(64):

        def closure(rows=rows):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x[rows]), y[rows])
            loss.backward()
            return loss

        optimizer.step(closure)

with torch.no_grad():
    accuracy = (net.eval()(x).argmax(-1) == y).float().mean()
print(f"accuracy on the training data {accuracy:.3f}")
