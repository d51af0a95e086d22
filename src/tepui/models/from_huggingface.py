"""Sequence classifiers of Hugging Face (the extra ``text``) as models of tepui.

Weights are read from safetensors only, and no code that comes with them is run.
"""

from pathlib import Path
from typing import Any

from torch import Tensor, nn

from tepui.core.checks import require
from tepui.core.extras import extra, known_by_name
from tepui.core.types import check_types
from tepui.models.base import Composed, Model, positive
from tepui.models.foreign_code import require_no_code


def from_huggingface(
    name: str | Path, num_classes: int = 2, pretrained: bool = True, **options: Any
) -> Model:
    """Return a sequence classifier of transformers.

    Args:
        name: Its name on the hub, such as ``"albert-base-v2"``, or a folder.
        num_classes: Number of logits; a head for another number is initialized anew.
        pretrained: Whether weights are loaded, or only the configuration.
        options: Further values of the model's configuration, none of which brings code.

    Returns:
        A model of dict inputs, such as ``input_ids`` and ``attention_mask``, with
        features and a linear classifier.

    Raises:
        ImportError: If transformers is not installed.
        ValueError: If there is no such model, it cannot be reached, it or an option
            brings code, or it does not end in a linear classifier.
    """
    check_types(from_huggingface, locals())
    positive(num_classes=num_classes)
    require_no_code(options)
    library = extra("transformers", "text")
    # Unless told not to, the library asks on the terminal whether to run code.
    closed = {"trust_remote_code": False}
    rule = "be a sequence classifier on Hugging Face's hub, or its folder"
    with known_by_name("name", rule, str(name), OSError, ValueError):
        config = library.AutoConfig.from_pretrained(
            name, num_labels=num_classes, **options, **closed
        )
        auto = library.AutoModelForSequenceClassification
        if pretrained:
            safe = {"use_safetensors": True, "ignore_mismatched_sizes": True, **closed}
            model = auto.from_pretrained(name, config=config, **safe)
        else:
            model = auto.from_config(config, **closed)
    body, classifier = _beheaded(model, num_classes)
    return Composed([_Outputs(body)], classifier)


class _Outputs(nn.Module):
    """What a model of transformers returns as logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, **named: Tensor) -> Tensor:
        outputs: Tensor = self.model(**named).logits
        return outputs


def _beheaded(model: nn.Module, num_classes: int) -> tuple[nn.Module, nn.Linear]:
    """Take the last linear layer out of a model, which then returns its inputs."""
    heads = [
        (path, part)
        for path, part in model.named_modules()
        if isinstance(part, nn.Linear) and part.out_features == num_classes
    ]
    rule = f"name a model that ends in a linear layer for {num_classes} classes"
    require(len(heads) > 0, "name", rule, type(model).__name__)
    path, classifier = heads[-1]
    owner, _, attribute = path.rpartition(".")
    setattr(model.get_submodule(owner), attribute, nn.Identity())
    return model, classifier
