"""What a run was told: recorded, and compared when it is resumed or shared by ranks.

Digests tell layers and data from others, and tell a person nothing: where something
else differs it alone is shown, and else that contents do.
"""

import re
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset

from tepui.core.agreement import apart, check_same
from tepui.core.spec import document
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
SHOWN.maxlist = SHOWN.maxdict = 6
SHOWN.maxstring = 70
MEMBERS = "members"
LAYERS = "layers"  # of a model, their digest
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
    """  # noqa: E501 - a doctest must show the whole message
    then, now = _by_setting(begun, now)
    names = sorted(then.keys() | now.keys(), key=lambda name: (name != MEMBERS, name))
    other = [name for name in names if then.get(name) != now.get(name)]
    if not other:
        return
    name, *more = other
    had, got = _in_words(*apart(then.get(name), now.get(name)))
    started = f"; it was started by: {command}" if command else ""
    raise ValueError(
        f"{name} must be what the run in {run} was started with{had} to resume it, got "
        f"{got}"
        + (f"; so must {', '.join(more)}" if more else "")
        + f"; {REMEDY}{started}"
    )


def _by_setting(
    begun: Mapping[str, Any], now: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return both with the number of members where it differs, not with their list."""
    counts = [len(config.get("models", ())) for config in (begun, now)]
    if counts[0] == counts[1]:
        return dict(begun), dict(now)
    hidden = ("models", "seeds")
    then, given = (
        {MEMBERS: count, **{n: v for n, v in config.items() if n not in hidden}}
        for count, config in zip(counts, (begun, now), strict=True)
    )
    return then, given


def _in_words(then: Any, now: Any) -> tuple[str, str]:
    """Return two values that differ, as far as they tell a person something.

    Example:
        >>> _in_words({"samples": 9, "sha256": 64 * "0"}, {"samples": 8, "sha256": 64 * "1"})
        (" ({'samples': 9})", "{'samples': 8}")
        >>> _in_words({"sha256": 64 * "0"}, {"sha256": 64 * "1"})
        ('', 'one with other contents')
        >>> _in_words({"layers": 16 * "0"}, {"layers": 16 * "1"})[1]
        'one with other layers'
    """  # noqa: E501 - a doctest must show the whole call
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        telling = [n for n in then if not (_is_digest(then[n]) and _is_digest(now[n]))]
        if not telling:
            return "", f"one with other {LAYERS if LAYERS in then else 'contents'}"
        then, now = ({n: value[n] for n in telling} for value in (then, now))
    return f" ({SHOWN.repr(then)})", SHOWN.repr(now)


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
