"""Models with dropout: the graph runner against the eager one, in one process.

ViT-Tiny for 32-pixel images (patch 4, depth 12, batch 128) and a BERT-like classifier
of Hugging Face (width 256, 4 layers, 64 tokens, batch 64), dropout 0.1, three members,
deep ensemble and SAM. The classifier needs transformers, and is left out without it:

    PYTHONPATH=src python3 benchmarks/dropout.py --json FILE
"""

import argparse
import importlib.util
import json
from pathlib import Path

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import tepui
from tepui.data import Arrays
from tepui.methods import SAM, DeepEnsemble
from tepui.models import ViTTiny
from tepui.models.vit import SelfAttention

RATE, CLASSES, MEMBERS = 0.1, 10, 3
TOKENS, VOCABULARY = 64, 1000
METHODS = {"deep ensemble": DeepEnsemble(), "SAM": SAM(rho=0.05)}


class DroppingAttention(SelfAttention):
    """Attention with dropout of its weights."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return one new vector per position."""
        divided = self.projection(x).unflatten(2, (3, self.heads, -1))
        query, key, value = divided.permute(2, 0, 3, 1, 4).unbind(0)
        rate = RATE if self.training else 0.0
        mixed = F.scaled_dot_product_attention(query, key, value, dropout_p=rate)
        result: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return result


def vit() -> nn.Module:
    """Return the library's ViT-Tiny with dropout in and after every half-block."""
    model = ViTTiny(num_classes=CLASSES)
    for part in model.layers:
        if isinstance(getattr(part, "branch", None), SelfAttention):
            part.branch = DroppingAttention(model.width, model.heads)
        if hasattr(part, "branch"):
            part.branch = nn.Sequential(part.branch, nn.Dropout(RATE))
    return model


def bert() -> nn.Module:
    import transformers

    config = transformers.BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=1024,
        max_position_embeddings=TOKENS,
        hidden_dropout_prob=RATE,
        attention_probs_dropout_prob=RATE,
        num_labels=CLASSES,
    )
    return transformers.BertForSequenceClassification(config)


def images(samples: int) -> Arrays:
    stream = torch.Generator().manual_seed(0)
    pixels = torch.randn(samples, 3, 32, 32, generator=stream)
    return Arrays(pixels, torch.randint(CLASSES, (samples,), generator=stream))


def sentences(samples: int) -> Arrays:
    """Return padded sentences; full batches would let the eager runner skip masks."""
    stream = torch.Generator().manual_seed(0)
    ids = torch.randint(VOCABULARY, (samples, TOKENS), generator=stream)
    lengths = torch.randint(TOKENS // 2, TOKENS, (samples, 1), generator=stream)
    mask = (torch.arange(TOKENS) < lengths).long()
    labels = torch.randint(CLASSES, (samples,), generator=stream)
    return Arrays({"input_ids": ids * mask, "attention_mask": mask}, labels)


MODELS = {"ViT-Tiny": (vit, images, 128), "BERT-like": (bert, sentences, 64)}


def member_steps(model: str, method, runner: str, arguments) -> float:
    """Return member-steps per second in the fastest epoch after the first."""
    factory, data, batch = MODELS[model]
    run = tepui.fit(
        tepui.Ensemble.build(factory, members=MEMBERS, seed=13),
        data(batch * arguments.steps),
        method=method,
        optimizer=tepui.AdamW(lr=1e-4),
        epochs=1 + arguments.epochs,
        batch_size=batch,
        device="cuda",
        precision=arguments.precision,
        runner=runner,
        compile=False,
        progress="none",
    )
    seconds = min(record.seconds for record in run.history[1:])
    return MEMBERS * arguments.steps / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--steps", type=int, default=40, help="steps per epoch")
    parser.add_argument("--epochs", type=int, default=2, help="epochs that count")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    table = Table("model", "method", "eager, steps/s", "graph, steps/s", "ratio")
    results = []
    for model in MODELS:
        if model == "BERT-like" and importlib.util.find_spec("transformers") is None:
            continue
        for name, method in METHODS.items():
            eager = member_steps(model, method, "eager", arguments)
            graph = member_steps(model, method, "graph", arguments)
            row = {"model": model, "method": name, "eager": eager, "graph": graph}
            results.append({**row, "ratio": graph / eager})
            speeds = (f"{eager:.1f}", f"{graph:.1f}", f"{graph / eager:.2f}")
            table.add_row(model, name, *speeds)
    Console().print(table)
    if arguments.json:
        document = {
            "device": torch.cuda.get_device_name(),
            "torch": torch.__version__,
            "precision": arguments.precision,
            "results": results,
        }
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
