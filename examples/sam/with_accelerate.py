"""SAM in a loop with Accelerate: give step a closure.

Leave gradient_accumulation_steps at 1 (anything else is refused) and go over the parts
of a batch in the closure. With mixed_precision="fp16", whose gradient scaler takes no
closure, call sam.backward(closure) and then optimizer.step().

Run: python examples/sam/with_accelerate.py
"""

import torch
from accelerate import Accelerator
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from tepui.optim import SAM

PARTS = 2
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
accelerator = Accelerator(cpu=True, mixed_precision="bf16")
loader = DataLoader(TensorDataset(x, y), batch_size=128, shuffle=True, drop_last=True)
model, optimizer, loader = accelerator.prepare(net, sam, loader)

for _ in range(5):
    for batch in loader:

        def closure(batch=batch):
            optimizer.zero_grad()
            for inputs, labels in zip(*(b.chunk(PARTS) for b in batch), strict=True):
                loss = F.cross_entropy(model(inputs), labels) / PARTS
                accelerator.backward(loss)
            return loss

        optimizer.step(closure)

with torch.no_grad():
    accuracy = (net.eval()(x).argmax(-1) == y).float().mean()
print(f"accuracy on the training data {accuracy:.3f}")
