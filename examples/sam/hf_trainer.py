"""SAM in Hugging Face's Trainer: both passes in training_step, the rest is the Trainer's.

The Trainer calls step without a closure. backward runs both passes before it and leaves
the final gradient, which the Trainer clips (max_grad_norm) and hands to the step.

Run: python examples/sam/hf_trainer.py
"""

import tempfile

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainingArguments,
)

from tepui.optim import SAM


class SAMTrainer(Trainer):
    """A Trainer whose optimizer is SAM."""

    def training_step(self, model, inputs, num_items_in_batch=None):
        """Backpropagate at the weights and at the perturbed weights."""
        sam = getattr(self.optimizer, "optimizer", self.optimizer)

        def closure():
            sam.zero_grad()
            ordinary = super(SAMTrainer, self).training_step
            return ordinary(model, dict(inputs), num_items_in_batch)

        return sam.backward(closure)


torch.manual_seed(0)
sizes = {"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64}
config = BertConfig(vocab_size=50, num_attention_heads=2, num_labels=2, **sizes)
model = BertForSequenceClassification(config)
tokens = torch.randint(2, 50, (512, 12))
labels = (tokens < 10).any(dim=1).long()  # is one of eight words there?
data = [
    {"input_ids": row, "labels": label}
    for row, label in zip(tokens, labels, strict=True)
]
sam = SAM(model.parameters(), torch.optim.AdamW, rho=0.05, module=model, lr=2e-3)
arguments = TrainingArguments(
    tempfile.mkdtemp(),
    num_train_epochs=6,
    per_device_train_batch_size=32,
    max_grad_norm=1.0,
    use_cpu=True,
    report_to=[],
    save_strategy="no",
)
SAMTrainer(model, arguments, train_dataset=data, optimizers=(sam, None)).train()
with torch.no_grad():
    logits = model.eval()(input_ids=tokens).logits
accuracy = (logits.argmax(-1) == labels).float().mean()
print(f"accuracy on the training data {accuracy:.3f}")
