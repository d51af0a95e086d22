"""SAM in Lightning's manual optimization, with large batches in parts.

accumulate_grad_batches cannot be right with SAM, as the optimizer never sees the earlier
batches again, and is refused. Go over the parts of a batch in the closure instead.

Run: python examples/sam/lightning_manual.py
"""

import torch
from lightning.pytorch import LightningModule, Trainer
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from tepui.optim import SAM

PARTS = 4


class Classifier(LightningModule):
    """A small network with BatchNorm."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        layers = nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10)
        self.net = nn.Sequential(*layers)

    def training_step(self, batch, _):
        """Make a step with a closure, which runs at two places."""
        optimizer = self.optimizers()

        def closure():
            optimizer.zero_grad()
            total = 0.0
            for x, y in zip(*(each.chunk(PARTS) for each in batch), strict=True):
                loss = F.cross_entropy(self.net(x), y) / PARTS
                self.manual_backward(loss)
                total += loss.detach()
            return total

        # With precision="16-mixed": optimizer.backward(closure), then optimizer.step()
        optimizer.step(closure=closure)

    def configure_optimizers(self):
        """Return SAM, which clips the final gradient itself."""
        return SAM(
            self.parameters(),
            torch.optim.SGD,
            rho=0.05,
            module=self,
            max_grad_norm=1.0,
            lr=0.05,
            momentum=0.9,
        )


digits = load_digits()
x, y = torch.tensor(digits.data / 16).float(), torch.tensor(digits.target)
loader = DataLoader(TensorDataset(x, y), batch_size=256, shuffle=True, drop_last=True)
model = Classifier()
trainer = Trainer(
    max_epochs=10, accelerator="cpu", logger=False, enable_checkpointing=False
)
trainer.fit(model, loader)
accuracy = (model.net.eval()(x).argmax(-1) == y).float().mean()
print(f"accuracy on the training data {accuracy:.3f}")
