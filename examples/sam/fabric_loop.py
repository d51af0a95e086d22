"""SAM in a loop with Fabric: give step a closure.

Run: python examples/sam/fabric_loop.py
"""

import torch
from lightning.fabric import Fabric
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from tepui.optim import SAM

digits = load_digits()
x, y = torch.tensor(digits.data / 16).float(), torch.tensor(digits.target)
net = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10))
sam = SAM(
    net.parameters(),
    torch.optim.SGD,
    rho=0.05,
    module=net,
    max_grad_norm=1.0,
    lr=0.05,
    momentum=0.9,
)
fabric = Fabric(accelerator="cpu", precision="bf16-mixed")
model, optimizer = fabric.setup(net, sam)
loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
loader = fabric.setup_dataloaders(loader)

for _ in range(3):
    for inputs, labels in loader:

        def closure(inputs=inputs, labels=labels):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            fabric.backward(loss)
            return loss

        optimizer.step(closure)

accuracy = (net.eval()(x).argmax(-1) == y).float().mean()
print(f"accuracy on the training data {accuracy:.3f}")
