"""A loop written by hand: weights in memory, stored with torch.save."""

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


def run(make_net, train, test, folder, members, epochs, batch, settings):
    loader = DataLoader(TensorDataset(*train), batch_size=batch, shuffle=True)
    nets = []
    for seed in range(members):
        torch.manual_seed(seed)
        net = make_net()
        optimizer = torch.optim.SGD(net.parameters(), **settings)
        for _ in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(net(x), y).backward()
                optimizer.step()
        nets.append(net.eval())
        torch.save(net.state_dict(), folder / f"{seed}.pt")
    with torch.no_grad():
        return torch.stack([net(test[0]).softmax(-1) for net in nets]).mean(0)
