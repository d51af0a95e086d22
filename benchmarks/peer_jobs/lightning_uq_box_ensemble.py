"""lightning-uq-box: members by Lightning, joined from their checkpoints."""

from functools import partial

import torch
from lightning import Trainer
from lightning_uq_box.uq_methods import (
    DeepEnsembleClassification,
    DeterministicClassification,
)
from torch import nn
from torch.utils.data import DataLoader


def run(make_net, train, test, folder, members, epochs, batch, settings):
    samples = [{"input": x, "target": y} for x, y in zip(*train, strict=True)]
    loader = DataLoader(samples, batch_size=batch, shuffle=True)
    joined = []
    for seed in range(members):
        torch.manual_seed(seed)
        member = DeterministicClassification(
            make_net(),
            nn.CrossEntropyLoss(),
            optimizer=partial(torch.optim.SGD, **settings),
        )
        trainer = Trainer(
            max_epochs=epochs,
            accelerator="cpu",
            logger=False,
            enable_progress_bar=False,
            enable_checkpointing=False,
            default_root_dir=folder,
        )
        trainer.fit(member, loader)
        file = folder / f"{seed}.ckpt"
        trainer.save_checkpoint(file)
        joined.append({"base_model": member, "ckpt_path": file})
    ensemble = DeepEnsembleClassification(joined, num_classes=10)
    return ensemble.predict_step(test[0])["pred"]
