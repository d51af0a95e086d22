"""A fitted estimator as a folder: its ensemble, and a JSON document of all else.

Parameters are written as everywhere, such as ``SAM(rho=0.1)``, and read by the table of
tepui's classes; code of your own is given again when an estimator is loaded.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tepui.core.checks import one_of, require
from tepui.core.spec import read_argument, written
from tepui.core.storage import read_document, reading, tensors_digest, write_document
from tepui.ensembles.ensemble import FILE as ENSEMBLE
from tepui.ensembles.ensemble import Ensemble
from tepui.ensembles.loading import load

FILE = "estimator.json"
KIND = "estimator"
# What fit learns beside the ensemble, where there is some.
LEARNED = ("classes_", "feature_names_in_", "target_mean_", "target_scale_")


class Storable(Protocol):
    """What is known of an estimator here; all else are its parameters."""

    n_features_in_: int
    ensemble_: Ensemble
    model: Any
    device: str | torch.device
    _flat: bool

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return its parameters, by name."""

    def _member(self, dtype: torch.dtype) -> nn.Module: ...


Estimator = TypeVar("Estimator", bound=Storable)


def write_estimator(estimator: Storable, folder: Path) -> Path:
    """Write what an estimator is beside its ensemble, which lies in the folder."""
    parameters = estimator.get_params(deep=False)
    learned = {name: getattr(estimator, name, None) for name in LEARNED}
    digest = tensors_digest(folder / ENSEMBLE)
    document = {
        "estimator": type(estimator).__name__,
        "parameters": {name: _text(value) for name, value in parameters.items()},
        "ensemble": digest,
        "wide": estimator.ensemble_.dtype == torch.float64,
        "features": estimator.n_features_in_,
        "flat": estimator._flat,
        "learned": {
            name: {"values": array.tolist(), "type": array.dtype.str}
            for name, array in learned.items()
            if array is not None
        },
    }
    write_document(folder / FILE, KIND, document)
    return folder


def read_estimator(
    kind: type[Estimator], folder: Path, given: Mapping[str, Any]
) -> Estimator:
    """Read an estimator and its ensemble; parameters that are given are not read."""
    file = folder / FILE
    if not file.exists():
        raise FileNotFoundError(f"no estimator in {folder}")
    document = read_document(file, KIND)
    with reading(file, "an estimator"):
        name = document["estimator"]
        require(name == kind.__name__, str(file), f"hold {kind.__name__}", name)
        stored = document["parameters"]
        parameters = {
            name: _value(name, text, file)
            for name, text in stored.items()
            if name not in given
        }
        estimator = kind(**parameters, **given)
        estimator.n_features_in_ = int(document["features"])
        estimator._flat = bool(document["flat"])
        for name, array in document["learned"].items():
            one_of(f"learned in {file}", name, LEARNED)
            setattr(estimator, name, _array(array["values"], array["type"], file))
        rule = "describe the ensemble beside it"
        digest = tensors_digest(folder / ENSEMBLE)
        require(document["ensemble"] == digest, str(file), rule, "another one's digest")
        dtype = torch.float64 if document["wide"] else torch.float32
    own = None if estimator.model is None else partial(estimator._member, dtype)
    ensemble = load(folder, own)
    estimator.ensemble_ = ensemble.to(estimator.device)
    return estimator


def _text(value: Any) -> str | None:
    """Return the text of a parameter; None of what is not read back from it."""
    plain = str(value) if isinstance(value, torch.device) else value
    text = written(plain)
    try:
        found = read_argument(text, "parameter")
    except ValueError:
        return None
    return text if isinstance(plain, str) or not isinstance(found, str) else None


def _value(name: str, text: str | None, file: Path) -> Any:
    rule = f"be given: {file} does not hold code of your own"
    require(text is not None, name, rule, text)
    return read_argument(str(text), f"{name} in {file}")


def _array(values: list[Any], kind: str, file: Path) -> NDArray[Any]:
    """Return an array of numbers or texts; objects must be texts."""
    dtype = np.dtype(kind)
    plain = dtype.kind in "biufU"
    texts = dtype.kind == "O" and all(isinstance(value, str) for value in values)
    require(plain or texts, f"learned in {file}", "be numbers or texts", kind)
    return np.array(values, dtype)
