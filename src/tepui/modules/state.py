"""A module's state as tensors, and the models that can be rebuilt from a file."""

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from inspect import isclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from tepui import models
from tepui.core.checks import one_of, require
from tepui.data.identity import tensors_hash
from tepui.models.adapters import adapt, adapter_from, adapter_of
from tepui.models.base import Composed, Model
from tepui.models.from_huggingface import HuggingFaceClassifier
from tepui.models.from_timm import TimmClassifier
from tepui.models.split import Frozen
from tepui.modules.pruning import adopt_masks

SPARE = 10_000  # parameters that a model may have while it is built


def tensor_state(module: nn.Module) -> dict[str, Tensor]:
    """Return a module's state dict, which must hold tensors only."""
    state: dict[str, Any] = module.state_dict()
    owner = f"state of {type(module).__name__}"
    for name, value in state.items():
        actual = f"{type(value).__name__} in {name!r}"
        require(isinstance(value, Tensor), owner, "hold tensors only", actual)
    return state


def load_tensor_state(module: nn.Module, state: dict[str, Tensor], where: str) -> None:
    """Load tensors into a module, naming what does not fit."""
    check_fit(module, state, where)
    module.load_state_dict(state)


def check_fit(module: nn.Module, state: Mapping[str, Tensor], where: str) -> None:
    """Raise unless a state has the names and shapes of a module's."""
    adopt_masks(module, state)
    present = tensor_state(module)
    missing = [name for name in present if name not in state]
    unexpected = [name for name in state if name not in present]
    if missing or unexpected:
        raise ValueError(
            f"{where} must fit {type(module).__name__}, got missing {missing[:3]} "
            f"({len(missing)}) and unexpected {unexpected[:3]} ({len(unexpected)})"
        )
    for name, tensor in state.items():
        shape, actual = tuple(present[name].shape), tuple(tensor.shape)
        require(actual == shape, f"{name!r} in {where}", f"have shape {shape}", actual)


def description(module: nn.Module) -> dict[str, Any]:
    """Return how to rebuild a module, as a value for JSON."""
    if (adapter := adapter_of(module)) is not None:
        return {**_described(module), "adapter": adapter}
    return _described(module)


def _described(module: nn.Module) -> dict[str, Any]:
    origin = module.cut_from if isinstance(module, Frozen | Composed) else None
    if origin is not None and _is_listed(origin.model):
        part = "extractor" if isinstance(module, Frozen) else "tail"
        whole = {"model": origin.model.__name__, "config": origin.config}
        return {**whole, "part": part, "layers": origin.layers}
    kind = type(module)
    if isinstance(module, Model) and _is_listed(kind) and _is_plain(module.config):
        return {"model": kind.__name__, "config": module.config}
    return {"model": f"{kind.__module__}.{kind.__qualname__}", "config": None}


_NO_WORD_OF_BIAS = re.compile(
    r"((?:\baffine|LayerNorm\([^\n]*elementwise_affine)=(True|False))(?!, bias)"
)


def structure_digest(module: nn.Module) -> str:
    """Return what tells a module from others beside its weights.

    That is its printed layers, without addresses, and what of it is trained. Newer
    torch also prints whether a normalization has a bias: older printings are completed.
    """
    layers = re.sub(r" at 0x[0-9a-fA-F]+", "", repr(module))
    layers = _NO_WORD_OF_BIAS.sub(r"\1, bias=\2", layers)
    trained = [name for name, p in module.named_parameters() if p.requires_grad]
    return hashlib.sha256("\n".join([layers, *trained]).encode()).hexdigest()[:16]


def weights_digest(module: nn.Module) -> str:
    """Return a hash of all weights and buffers."""
    return tensors_hash(dict(module.state_dict()))


def maker_of(described: Mapping[str, Any], folder: Path) -> Callable[[], nn.Module]:
    """Return what makes an untrained model of a :func:`description`."""
    return partial(_kind_of(described, folder, "factory"), **described["config"])


def _kind_of(described: Mapping[str, Any], place: Path, argument: str) -> type[Model]:
    """Return the class of a description, or say what must be given in its place."""
    name, known = described["model"], _rebuildable()
    rule = f"be given: {place} holds parts of type {name}, which is not one of"
    if described["config"] is None:
        raise ValueError(f"{argument} must {rule} tepui.models")
    one_of(f"model in {place}", name, known)
    return known[name]


def rebuilt(
    described: Mapping[str, Any],
    state: Mapping[str, Tensor],
    file: Path,
    argument: str = "factory",
) -> nn.Module:
    """Build a model from its :func:`description`; nothing else is run.

    Before it takes memory, its shapes are compared with those of its state.
    """
    kind = _kind_of(described, file, argument)
    rule = f"config in {file} must hold the arguments of {kind.__name__}"
    try:
        # Without memory first: a short file can describe a model of any size.
        with torch.device("meta"), _at_most(len(state)):
            blank = _part(kind(**described["config"]), described, file)
        check_fit(blank, state, str(file))
        return _part(kind(**described["config"]), described, file)
    except ImportError:
        raise
    except Exception as error:  # what a file says can fail in any way
        if str(file) in str(error):
            raise
        raise ValueError(f"{rule}, but: {error}") from error


def _part(module: nn.Module, described: Mapping[str, Any], file: Path) -> nn.Module:
    """Return what was stored: a whole, adapted or not, or one side of a cut."""
    take_adapter(module, described, file)
    if "part" not in described:
        return module
    part, layers = described["part"], described["layers"]
    one_of(f"part in {file}", part, ["extractor", "tail"])
    require(isinstance(layers, int), f"layers in {file}", "be an integer", layers)
    split = models.split_last_layers(module, layers)
    return split.extractor if part == "extractor" else split.pattern


def take_adapter(module: nn.Module, described: Mapping[str, Any], file: Path) -> None:
    """Put the adapter of a :func:`description` into a module that has none."""
    document = described.get("adapter")
    if document is not None and adapter_of(module) is None:
        adapt(module, adapter_from(document, file), anew=False)


@contextmanager
def _at_most(tensors: int) -> Iterator[None]:
    """Refuse to build modules with far more parameters than a file has tensors."""
    here, limit, made = threading.get_ident(), SPARE + 10 * tensors, 0

    def count(*_: object) -> None:
        nonlocal made
        made += threading.get_ident() == here
        if made > limit:
            raise ValueError(f"a model of at most {limit} parameters is expected")

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()


def _is_plain(config: Mapping[str, Any]) -> bool:
    """Return whether JSON can hold a configuration; options of timm may be classes."""
    try:
        json.dumps(config)
    except TypeError:
        return False
    return True


def _is_listed(kind: type) -> bool:
    return _rebuildable().get(kind.__name__) is kind


def _rebuildable() -> dict[str, type[Model]]:
    """Return the models that a file may name: neither their base nor functions."""
    named = [getattr(models, name) for name in models.__all__]
    own = [kind for kind in named if isclass(kind) and issubclass(kind, Model)]
    foreign = [HuggingFaceClassifier, TimmClassifier]
    kinds = [*(kind for kind in own if kind is not Model), *foreign]
    return {kind.__name__: kind for kind in kinds}


def take_dtypes(module: nn.Module, state: dict[str, Tensor]) -> None:
    """Give a rebuilt module the number types it was saved in."""
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        saved = state.get(name, tensor)
        if saved.is_floating_point():
            tensor.data = tensor.data.to(saved.dtype)
