"""SAM under FSDP2 (fully_shard): nothing changes.

Perturbation, its norm and the weights' copy are in shards, as the weights are.

Run: torchrun --standalone --nproc-per-node=2 examples/sam/fsdp2.py
"""

import torch
from sklearn.datasets import load_digits
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F

from tepui.optim import SAM

distributed.init_process_group("gloo")  # "nccl" on GPUs
rank, size = distributed.get_rank(), distributed.get_world_size()
mesh = init_device_mesh("cpu", (size,))  # "cuda" on GPUs
torch.manual_seed(0)
digits = load_digits()
x, y = torch.tensor(digits.data / 16).float(), torch.tensor(digits.target)
model = nn.Sequential(
    nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10)
)
for part in (model[0], model[3], model):
    fully_shard(part, mesh=mesh)
optimizer = SAM(
    model.parameters(),
    torch.optim.SGD,
    rho=0.05,
    module=model,
    max_grad_norm=1.0,
    lr=0.05,
    momentum=0.9,
)

for _ in range(3):
    for rows in torch.randperm(len(x)).split(64):
        mine = rows[rank::size]

        def closure(mine=mine):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x[mine]), y[mine])
            loss.backward()
            return loss

        optimizer.step(closure)

with torch.no_grad():
    accuracy = (model.eval()(x).argmax(-1) == y).float().mean()
if rank == 0:
    print(f"accuracy on the training data {accuracy:.3f}")
distributed.destroy_process_group()
