"""pytorch_optimizer's SAM in a loop written by hand."""

import torch
from pytorch_optimizer import SAM
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


def run(make_net, train, test, folder, members, epochs, batch, settings):
    loader = DataLoader(TensorDataset(*train), batch_size=batch, shuffle=True)
    nets = []
    for seed in range(members):
        torch.manual_seed(seed)
        net = make_net()
        optimizer = SAM(net.parameters(), torch.optim.SGD, rho=0.05, **settings)
        for _ in range(epochs):
            for x, y in loader:

                def closure(x=x, y=y, net=net, optimizer=optimizer):
                    optimizer.zero_grad()
                    loss = F.cross_entropy(net(x), y)
                    loss.backward()
                    return loss

                closure()
                optimizer.step(closure)
        nets.append(net.eval())
        torch.save(net.state_dict(), folder / f"{seed}.pt")
    with torch.no_grad():
        return torch.stack([net(test[0]).softmax(-1) for net in nets]).mean(0)
