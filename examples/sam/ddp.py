"""SAM under DistributedDataParallel: nothing changes.

Gradients are averaged while they are backpropagated, so that every process perturbs along
the gradient of the whole batch.

Run: torchrun --standalone --nproc-per-node=2 examples/sam/ddp.py
"""

import torch
from sklearn.datasets import load_digits
from torch import distributed, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from tepui.optim import SAM

distributed.init_process_group("gloo")  # "nccl" on GPUs
torch.manual_seed(0)
digits = load_digits()
x, y = torch.tensor(digits.data / 16).float(), torch.tensor(digits.target)
net = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10))
model = DistributedDataParallel(net)
optimizer = SAM(
    model.parameters(),
    torch.optim.SGD,
    rho=0.05,
    module=model,
    max_grad_norm=1.0,
    lr=0.05,
    momentum=0.9,
)
data = TensorDataset(x, y)
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=32, sampler=sampler)

for epoch in range(3):
    sampler.set_epoch(epoch)
    for inputs, labels in loader:

        def closure(inputs=inputs, labels=labels):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            return loss

        optimizer.step(closure)

if distributed.get_rank() == 0:
    with torch.no_grad():
        accuracy = (net.eval()(x).argmax(-1) == y).float().mean()
    print(f"accuracy on the training data {accuracy:.3f}")
distributed.destroy_process_group()
