"""Classifiers of Hugging Face (the extra ``text``) as models of tepui.

Weights are read from safetensors only, and no code that comes with them is run. What a
saved ensemble keeps beside the weights is the model's configuration, from which the
library's own classes build it again: nothing is downloaded, and nothing is executed.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, final, get_args

from torch import Tensor, nn

from tepui.core.checks import one_of, require
from tepui.core.extras import extra, known_by_name
from tepui.core.types import check_types
from tepui.models.adapters import LoRA, adapt
from tepui.models.base import Model, positive

Kind = Literal["text", "image", "audio", "video"]

AUTO: dict[Kind, str] = {
    "text": "AutoModelForSequenceClassification",
    "image": "AutoModelForImageClassification",
    "audio": "AutoModelForAudioClassification",
    "video": "AutoModelForVideoClassification",
}
# What a configuration says of where it comes from; it is not needed to build a model.
ORIGIN = ("auto_map", "custom_pipelines", "_name_or_path", "transformers_version")
# What would fetch weights, or change them by another library, while a model is built.
FETCHING = ("use_pretrained_backbone", "use_timm_backbone", "quantization_config")


def from_huggingface(
    name: str | Path,
    num_classes: int = 2,
    pretrained: bool = True,
    kind: Kind = "text",
    adapter: LoRA | None = None,
    **options: Any,
) -> Model:
    """Return a classifier of transformers.

    Args:
        name: Its name on the hub, such as ``"albert-base-v2"``, or a folder.
        num_classes: Number of logits; a head for another number is initialized anew.
        pretrained: Whether weights are loaded, or only the configuration.
        kind: What it classifies.
        adapter: What is trained beside the classifier; without it, all is.
        options: Further values of the model's configuration, none of which brings code.

    Returns:
        A model with features and a linear classifier. One of texts takes dict inputs,
        such as ``input_ids`` and ``attention_mask``; any other a tensor, too. A saved
        ensemble of such models is loaded without a factory.

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
    auto = getattr(library, AUTO[kind])
    what = "sequence classifier" if kind == "text" else f"classifier of {kind}"
    rule = f"be a {what} on Hugging Face's hub, or its folder"
    with known_by_name("name", rule, str(name), OSError, ValueError):
        config = library.AutoConfig.from_pretrained(
            name, num_labels=num_classes, **options, **closed
        )
        if pretrained:
            safe = {"use_safetensors": True, "ignore_mismatched_sizes": True, **closed}
            model = auto.from_pretrained(name, config=config, **safe)
        else:
            model = auto.from_config(config, **closed)
    found = HuggingFaceClassifier(kind, _document(model.config), model)
    if adapter is not None:
        adapt(found, adapter)
    return found


@final
class HuggingFaceClassifier(Model):
    """A classifier of transformers, built from its configuration alone.

    Args:
        kind: What it classifies.
        document: Its configuration, as the library writes it to JSON.
        model: The library's model of that configuration, where it is there already; it
            is taken apart.

    Raises:
        ImportError: If transformers is not installed.
        ValueError: If the configuration asks for code or for weights from elsewhere,
            or the model does not end in a linear classifier.
    """

    def __init__(
        self, kind: Kind, document: dict[str, Any], model: nn.Module | None = None
    ) -> None:
        super().__init__(kind=kind, document=document)
        check_types(HuggingFaceClassifier.__init__, {"model": model})
        one_of("kind", kind, get_args(Kind))
        body: Any = _built(kind, document) if model is None else model
        classifier = _beheaded(body, body.config.num_labels)
        self.layers = nn.Sequential(_Outputs(body))
        self.classifier = classifier


class _Outputs(nn.Module):
    """What a model of transformers returns as logits."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: Tensor, **named: Tensor) -> Tensor:
        outputs: Tensor = self.model(*inputs, **named).logits
        return outputs


def _built(kind: Kind, document: Mapping[str, Any]) -> Any:
    """Build a model of the library's own classes, with weights that are drawn."""
    require_no_code(document)
    _require_nothing_fetched(document)
    library = extra("transformers", "text")
    known = library.models.auto.configuration_auto.CONFIG_MAPPING
    one_of("model_type", str(document.get("model_type")), list(known.keys()))
    config = library.AutoConfig.for_model(**document)
    return getattr(library, AUTO[kind]).from_config(config, trust_remote_code=False)


def _document(config: Any) -> dict[str, Any]:
    """Return a configuration for JSON, without where it comes from."""
    whole: dict[str, Any] = json.loads(config.to_json_string(use_diff=False))
    return {name: value for name, value in whole.items() if name not in ORIGIN}


def _require_nothing_fetched(document: Mapping[str, Any]) -> None:
    """Raise if a configuration, or one inside it, asks for weights from elsewhere."""
    for argument, name, value in _options(document):
        rule = "be left out of what a model is built from, since nothing is fetched"
        require(not (name in FETCHING and value), argument, rule, value)


def _beheaded(model: nn.Module, num_classes: int) -> nn.Linear:
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
    return classifier


CODE = ("trust_remote_code", "code_revision", "auto_map", "custom_pipeline")


def require_no_code(options: Mapping[str, Any]) -> None:
    """Raise if options, or the configurations that they hold, bring code."""
    for argument, name, value in _options(options):
        rule = "be left out, since a model's code is never run"
        require(name not in CODE, argument, rule, value)
        if name.endswith("_implementation"):
            rule = "not name a repository, since its code is never run"
            require("/" not in str(value), argument, rule, value)


def _options(
    document: Mapping[str, Any], inside: str = ""
) -> Iterator[tuple[str, str, Any]]:
    """Yield all options, also of configurations inside: the way to each, its name."""
    for name, value in document.items():
        yield f"{inside}{name}", name, value
        for part in value if isinstance(value, list | tuple) else [value]:
            if isinstance(part, Mapping):
                yield from _options(part, f"{inside}{name}.")
