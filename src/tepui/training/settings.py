"""What a run was told: recorded, and compared when it is resumed or shared by ranks.

Digests tell layers and data from others, and tell a person nothing: if anything else
differs it is shown in their place.
"""

import re
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset

from tepui.core.spec import check_same, differences, document
from tepui.core.version import __version__
from tepui.data.arrays import Arrays
from tepui.data.identity import data_identity, tensors_hash
from tepui.data.labels import class_names
from tepui.data.loading import as_arrays
from tepui.data.stored import StoredData
from tepui.ensembles.ensemble import Ensemble
from tepui.modules.state import description, structure_digest, tensor_state
from tepui.training.checks import RunData
from tepui.training.exchange import Exchange
from tepui.training.numerics import Numerics
from tepui.training.spec import ExecutionSpec, TrainingSpec

# How values are shown in messages: not longer than one can read.
SHOWN = reprlib.Repr()
SHOWN.maxstring = 70
REMEDY = "give it what it had, or begin another run in a new folder"
_DIGEST = re.compile(r"[0-9a-f]{16,}")


def run_config(
    ensemble: Ensemble,
    dataset: Dataset[Any],
    data: RunData,
    spec: TrainingSpec,
    execution: ExecutionSpec,
    numerics: Numerics,
) -> dict[str, Any]:
    """Return what was asked for, as a run folder records it."""
    config: dict[str, Any] = document(spec)
    del config["class"]
    config |= {
        "seeds": list(ensemble.seeds),
        "runner": execution.runner,
        "compile": execution.compile,
        "device": numerics.device.type,
        "precision": numerics.precision,
        "deterministic": execution.deterministic,
        "cpu_kernels": execution.cpu_kernels,
        "threads": numerics.threads,
    }
    config["models"] = [
        description(member) | {"layers": structure_digest(member)}
        for member in ensemble.members
    ]
    config["data"] = data_identity(data.train) | {
        "class": type(dataset).__qualname__,
        "classes": list(class_names(data.train)),
    }
    for name, part in (("unlabeled", data.unlabeled), ("validation", data.held_out)):
        config[name] = None if part is None else data_identity(part)
    if data.weights is not None:
        config["sample_weights"] = data_identity(Arrays(data.weights, data.weights))
    return config


def check_settings(
    begun: Mapping[str, Any],
    now: Mapping[str, Any],
    run: Path,
    command: str | None = None,
) -> None:
    """Raise if a run's settings differ from those that it was started with.

    Args:
        begun: What it was started with.
        now: What is given now.
        run: Its folder.
        command: That started it, which is quoted.

    Example:
        >>> check_settings({"models": [{}], "seeds": [1]}, {"models": [{}, {}]}, Path("a"))
        Traceback (most recent call last):
        ValueError: members must be what the run in a was started with (1) to resume it, got 2; give it what it had, or begin another run in a new folder
        >>> check_settings({"data": {"sha256": 64 * "0"}}, {"data": {"sha256": 64 * "1"}}, Path("a"))
        Traceback (most recent call last):
        ValueError: data must be what the run in a was started with to resume it, got one with other contents; give it what it had, or begin another run in a new folder
    """  # noqa: E501 - a doctest must show the whole message
    found = differences(begun, now)
    members = [len(config.get("models", ())) for config in (begun, now)]
    if members[0] != members[1]:
        hidden = ("models", "seeds")
        found = {n: b for n, b in found.items() if n.partition(".")[0] not in hidden}
        found["members"] = (members[0], members[1])
    names = sorted({name.partition(".")[0] for name in found})
    if not names:
        return
    first, *others = sorted(names, key=lambda name: name != "members")
    had, got = "", "one with other contents"
    for name, (then, given) in found.items():
        setting, _, place = name.partition(".")
        if setting == first and not (_is_digest(then) and _is_digest(given)):
            at = f"{place}: " if place else ""
            had, got = f" ({at}{SHOWN.repr(then)})", SHOWN.repr(given)
            break
    more = f"; so must {', '.join(others)}" if others else ""
    started = f"; it was started by: {command}" if command else ""
    raise ValueError(
        f"{first} must be what the run in {run} was started with{had} to resume it, "
        f"got {got}{more}; {REMEDY}{started}"
    )


def _is_digest(value: object) -> bool:
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def check_agreement(
    exchange: Exchange,
    config: Mapping[str, Any],
    ensemble: Ensemble,
    dataset: Dataset[Any],
) -> None:
    """Raise on every rank alike unless all were told and have the same.

    Every rank writes its own members into one folder: ranks that differ would make a
    run which is none of theirs.
    """
    data, members = dict(config["data"]), [_hashes(m) for m in ensemble.members]
    if as_arrays(dataset) is None and not isinstance(dataset, StoredData):
        data["hashes"] = ensemble.trained_on  # nothing else tells their order
    versions = {"torch": torch.__version__, "tepui": __version__}
    check_same(
        exchange.everywhere({**versions, **config, "data": data, "members": members})
    )


def _hashes(member: nn.Module) -> dict[str, str]:
    """Return shape and hash of a member's tensors, the same on any machine."""
    return {
        name: f"{tuple(tensor.shape)}, sha256 {tensors_hash({name: tensor})[:16]}"
        for name, tensor in tensor_state(member).items()
    }
