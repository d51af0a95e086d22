"""torch-uncertainty: members by its routine, joined by deep_ensembles."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch_uncertainty import TUTrainer
from torch_uncertainty.methods import deep_ensembles
from torch_uncertainty.routines import ClassificationRoutine


def run(make_net, train, test, folder, members, epochs, batch, settings):
    loader = DataLoader(TensorDataset(*train), batch_size=batch, shuffle=True)
    nets = []
    for seed in range(members):
        torch.manual_seed(seed)
        net = make_net()
        routine = ClassificationRoutine(
            net,
            num_classes=10,
            loss=nn.CrossEntropyLoss(),
            optim_recipe=torch.optim.SGD(net.parameters(), **settings),
        )
        trainer = TUTrainer(
            max_epochs=epochs,
            accelerator="cpu",
            logger=False,
            enable_progress_bar=False,
            enable_checkpointing=False,
            default_root_dir=folder,
        )
        trainer.fit(routine, loader)
        trainer.save_checkpoint(folder / f"{seed}.ckpt")
        nets.append(net.eval())
    ensemble = deep_ensembles(nets).eval()
    with torch.no_grad():
        logits = ensemble(test[0])
    return logits.unflatten(0, (members, -1)).softmax(-1).mean(0)
