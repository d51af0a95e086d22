"""Adapters of PEFT (the extra ``adapters``): small trained changes of a frozen body.

A member is a body whose own weights are frozen, an adapter in its layers, and, for a
:class:`~tepui.models.Model`, a classifier that is trained whole. What a saved ensemble
keeps beside the weights is the adapter's configuration, from which the library's own
classes put it into a rebuilt body: nothing is downloaded, and nothing is executed.
"""

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import nn

from tepui.core.checks import one_of, require
from tepui.core.extras import extra
from tepui.core.types import check_fields
from tepui.models.base import Model, positive

NAME = "default"  # PEFT's own for the only adapter
# What names a place, starts other code, or draws weights that a file holds.
NOT_STORED = (
    "auto_mapping",
    "base_model_name_or_path",
    "megatron_core",
    "peft_version",
)
NOT_READ = ("_config", "revision", "runtime")
NARROW = (torch.float16, torch.bfloat16)


@final
@dataclass(frozen=True)
class LoRA:
    r"""A change of low rank, :math:`W + \frac{\alpha}{r} B A`, of linear layers.

    Attributes:
        rank: Its rank, :math:`r`.
        alpha: What it is scaled by; twice the rank by default.
        targets: The layers, by the ends of their names, such as ``query``; those that
            PEFT knows for the architecture by default.
        dropout: Share of the inputs of the change that is dropped in training.
        magnitude: Train the length of each column apart from its direction (DoRA).

    References:
        Hu et al., LoRA: Low-Rank Adaptation of Large Language Models, ICLR 2022.
        Liu et al., DoRA: Weight-Decomposed Low-Rank Adaptation, ICML 2024.
    """

    rank: int = 8
    alpha: float | None = None
    targets: tuple[str, ...] = ()
    dropout: float = 0.0
    magnitude: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        positive(rank=self.rank)
        require(0 <= self.dropout < 1, "dropout", "lie in [0, 1)", self.dropout)

    def config(self) -> Any:
        """Return PEFT's configuration of it."""
        return extra("peft", "adapters").LoraConfig(
            r=self.rank,
            lora_alpha=2 * self.rank if self.alpha is None else self.alpha,
            target_modules=list(self.targets) or None,
            lora_dropout=self.dropout,
            use_dora=self.magnitude,
        )


def adapt(module: nn.Module, adapter: Any, *, anew: bool = True) -> None:
    """Freeze a module and put an adapter into its layers.

    Args:
        module: Any module. The classifier of a :class:`~tepui.models.Model` stays
            trained.
        adapter: :class:`LoRA`, or a configuration of PEFT that keeps the body frozen.
        anew: Draw that classifier anew.

    Raises:
        ImportError: If PEFT is not installed.
        ValueError: If the module has no layers that the adapter names.
    """
    library = extra("peft", "adapters")
    config = deepcopy(adapter.config() if isinstance(adapter, LoRA) else adapter)
    known = isinstance(config, library.PeftConfig)
    require(known, "adapter", "be LoRA(...) or a configuration of PEFT", adapter)
    rule = "be left alone, since a module takes one adapter"
    require(not adapter_of(module), "module", rule, type(module).__name__)
    module.requires_grad_(False)
    body = _foreign_body(module)
    try:
        library.inject_adapter_in_model(config, body, NAME)
    except ValueError as error:
        raise ValueError(f"adapter must fit {type(body).__name__}: {error}") from error
    classifier = getattr(module, "classifier", None)
    if isinstance(module, Model) and isinstance(classifier, nn.Linear):
        classifier.requires_grad_(True)
        if anew:
            classifier.reset_parameters()
    for parameter in module.parameters():
        if parameter.requires_grad and parameter.dtype in NARROW:
            parameter.data = parameter.data.float()  # in which small steps are kept


def adapted(body: nn.Module, adapter: Any) -> nn.Module:
    """Return a copy of a module with an adapter, and a new classifier if it has one."""
    module = deepcopy(body)
    adapt(module, adapter)
    return module


def adapter_of(module: nn.Module) -> dict[str, Any] | None:
    """Return the adapter in a module as a value for JSON, None if there is none."""
    config = next(_configs(module), None)
    if config is None:
        return None
    plain = type(config)().to_dict()
    kept = {
        name: sorted(value) if isinstance(value, set) else value
        for name, value in config.to_dict().items()
        if value != plain.get(name)
        and name not in NOT_STORED
        and not name.startswith("init_")
    }
    kept["peft_type"] = str(getattr(config.peft_type, "value", config.peft_type))
    try:
        document: dict[str, Any] = json.loads(json.dumps(kept))
    except TypeError as error:
        rule = "be made of numbers and names to be saved"
        raise ValueError(f"adapter must {rule}, but: {error}") from error
    return document


def adapter_from(document: Mapping[str, Any], where: object) -> Any:
    """Return the configuration that :func:`adapter_of` gave.

    Raises:
        ValueError: If it asks for code or for weights from elsewhere.
    """
    library = extra("peft", "adapters")
    known = library.mapping.PEFT_TYPE_TO_CONFIG_MAPPING
    kinds = {str(getattr(kind, "value", kind)): made for kind, made in known.items()}
    one_of(f"peft_type in {where}", str(document.get("peft_type")), kinds)
    for name, value in document.items():
        outside = name in NOT_STORED or any(part in name for part in NOT_READ)
        rule = "be left out of what an adapter is built from, since nothing is fetched"
        require(not outside, f"{name} in {where}", rule, value)
    given = {name: value for name, value in document.items() if name != "peft_type"}
    return kinds[str(document["peft_type"])](**given)


def _foreign_body(module: nn.Module) -> nn.Module:
    """Return the part whose architecture PEFT may know, else the module."""
    for part in module.modules():
        config = getattr(part, "config", None)
        if hasattr(config, "model_type"):
            return part
    return module


def _configs(module: nn.Module) -> Iterator[Any]:
    for part in module.modules():
        found = getattr(part, "peft_config", None)
        if isinstance(found, Mapping):
            yield from found.values()
