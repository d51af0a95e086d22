"""torchensemble: a voting classifier that trains its estimators."""

import torch
from torch.utils.data import DataLoader, TensorDataset
from torchensemble import VotingClassifier


def run(make_net, train, test, folder, members, epochs, batch, settings):
    loader = DataLoader(TensorDataset(*train), batch_size=batch, shuffle=True)
    torch.manual_seed(0)
    model = VotingClassifier(estimator=make_net, n_estimators=members, cuda=False)
    model.set_optimizer("SGD", **settings)
    model.fit(loader, epochs=epochs, log_interval=10**6, save_dir=folder)
    with torch.no_grad():
        return model.eval()(test[0])
