"""SAM with a gradient scaler, as float16 needs: two ways to write the same steps.

Run: python examples/sam/gradient_scaler.py
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

from tepui.optim import SAM

digits = load_digits()
x, y = torch.tensor(digits.data / 16).float(), torch.tensor(digits.target)
net = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10))
optimizer = SAM(
    net.parameters(),
    torch.optim.SGD,
    rho=0.05,
    module=net,
    max_grad_norm=1.0,
    lr=0.05,
    momentum=0.9,
)
device = "cuda" if torch.cuda.is_available() else "cpu"
net, x, y = net.to(device), x.to(device), y.to(device)
scaler = torch.amp.GradScaler(device)

for number, rows in enumerate(torch.randperm(len(x)).repeat(3).split(64)):

    def closure(rows=rows):
        optimizer.zero_grad()
        with torch.autocast(device, torch.float16):
            loss = F.cross_entropy(net(x[rows]), y[rows])
        scaler.scale(loss).backward()
        return loss

    if number % 2:
        optimizer.step(closure, scaler=scaler)
    else:  # as in most loops; the scaler leaves out a step that overflowed
        optimizer.backward(closure)
        scaler.step(optimizer)
    scaler.update()

with torch.no_grad():
    accuracy = (net.eval()(x).argmax(-1) == y).float().mean()
print(f"accuracy on the training data {accuracy:.3f}")
