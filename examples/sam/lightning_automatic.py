"""SAM in Lightning: return it from configure_optimizers, nothing else changes.

Run: python examples/sam/lightning_automatic.py
"""

import torch
from lightning.pytorch import LightningModule, Trainer
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from tepui.optim import SAM


class Classifier(LightningModule):
    """A small network with BatchNorm."""

    def __init__(self):
        super().__init__()
        layers = nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10)
        self.net = nn.Sequential(*layers)

    def training_step(self, batch, _):
        """Return the loss; Lightning backpropagates it in both passes."""
        x, y = batch
        return F.cross_entropy(self.net(x), y)

    def configure_optimizers(self):
        """Return SAM around SGD; with module=self BatchNorm sees one pass only."""
        settings = {"lr": 0.05, "momentum": 0.9, "weight_decay": 5e-4}
        return SAM(
            self.parameters(), torch.optim.SGD, rho=0.05, module=self, **settings
        )


digits = load_digits()
x, y = torch.tensor(digits.data / 16).float(), torch.tensor(digits.target)
loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
model = Classifier()
trainer = Trainer(
    max_epochs=3,
    accelerator="cpu",
    precision="bf16-mixed",
    gradient_clip_val=1.0,
    logger=False,
    enable_checkpointing=False,
)
trainer.fit(model, loader)
accuracy = (model.net.eval()(x).argmax(-1) == y).float().mean()
print(f"accuracy on the training data {accuracy:.3f}")
