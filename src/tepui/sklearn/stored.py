"""A fitted estimator as a folder: its ensemble, and a JSON document of all else.

Values such as ``SAM(rho=0.1)`` are written by name and fields, and only names of a
fixed list are read; code of your own is given again when an estimator is loaded.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tepui import losses, methods
from tepui.core.checks import one_of, require
from tepui.core.storage import read_document, reading, tensors_digest, write_document
from tepui.ensembles.ensemble import FILE as ENSEMBLE
from tepui.ensembles.ensemble import Ensemble
from tepui.ensembles.loading import load
from tepui.sklearn.rows import Rows, read_rows, write_rows
from tepui.training import SGD, AdamW, Constant, Cosine, EarlyStopping, MultiStep

FILE = "estimator.json"
KIND = "estimator"
OWN = "own"  # marks what is code of the user's
PAIRS = "pairs"  # marks a dict, whose keys JSON would turn into texts

KNOWN: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *(getattr(methods, name) for name in methods.__all__),
        *(losses.CrossEntropy, losses.MSE, losses.GaussianNLL, losses.Quantiles),
        *(SGD, AdamW, Constant, Cosine, MultiStep, EarlyStopping),
    )
    if isinstance(kind, type) and is_dataclass(kind)
}
# What fit learns beside the ensemble, where there is some.
LEARNED = ("classes_", "feature_names_in_", "target_mean_", "target_scale_")


class Storable(Protocol):
    """What is known of an estimator here; all else are its parameters."""

    n_features_in_: int
    ensemble_: Ensemble
    rows_: Rows | None
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
    write_rows(estimator.rows_, folder, digest)
    document = {
        "estimator": type(estimator).__name__,
        "parameters": {name: described(value) for name, value in parameters.items()},
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
            name: restored(name, value, file)
            for name, value in stored.items()
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
    estimator.rows_ = read_rows(folder, digest)
    return estimator


def described(value: Any) -> Any:
    """Return a parameter for JSON: plain, by name and fields, or as the user's own.

    Example:
        >>> from tepui.methods import DeepEnsemble
        >>> described(DeepEnsemble()), described((64, 64))
        ({'class': 'DeepEnsemble', 'fields': {}}, [64, 64])
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, list | tuple):
        return [described(item) for item in value]
    if isinstance(value, dict):
        pairs = value.items()
        return {PAIRS: [[described(key), described(item)] for key, item in pairs]}
    kind = type(value)
    if KNOWN.get(kind.__name__) is not kind:
        return {OWN: f"{kind.__module__}.{kind.__qualname__}"}
    values = {
        field.name: described(getattr(value, field.name)) for field in fields(kind)
    }
    return {"class": kind.__name__, "fields": values}


def restored(argument: str, value: Any, file: Path) -> Any:
    """Return the parameter that :func:`described` was given."""
    if isinstance(value, list):
        return tuple(restored(argument, item, file) for item in value)
    if not isinstance(value, dict):
        return value
    if PAIRS in value:
        return dict(restored(argument, pair, file) for pair in value[PAIRS])
    rule = f"be given: {file} does not hold code of your own"
    require(OWN not in value, argument, rule, value.get(OWN))
    one_of(f"{argument} in {file}", value["class"], KNOWN)
    values = {name: restored(argument, v, file) for name, v in value["fields"].items()}
    return KNOWN[value["class"]](**values)


def _array(values: list[Any], kind: str, file: Path) -> NDArray[Any]:
    """Return an array of numbers or texts; objects must be texts."""
    dtype = np.dtype(kind)
    plain = dtype.kind in "biufU"
    texts = dtype.kind == "O" and all(isinstance(value, str) for value in values)
    require(plain or texts, f"learned in {file}", "be numbers or texts", kind)
    return np.array(values, dtype)
