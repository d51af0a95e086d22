"""Evaluations in a folder: a sealed file for each data set, its logits beside it.

``evaluations/clean.json`` is of the test data, ``corrupted.json`` of their corrupted
copies; a natural shift and an unfamiliar set have files by their own names. The clean
one is written last, so that there is no evaluation without it.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from tepui.core.spec import differences
from tepui.core.storage import read_document, write_document
from tepui.data.identity import tensors_hash
from tepui.ensembles.ensemble import Ensemble
from tepui.ensembles.meaning import learned_of

FOLDER, KIND = "evaluations", "evaluation"
CLEAN, CORRUPTED = "clean", "corrupted"
SCORES, LOGITS = ".json", ".safetensors"
# What a calibration changes of what an evaluation is of.
CALIBRATED = {"calibration", "detectors"}
# Of what is applied: whether it was fitted on the very test data.
FITTED_ON_TEST = "fitted_on_test"


def file_of(folder: str | Path, name: str, kind: str = SCORES) -> Path:
    """Return where the scores, or the logits, of one data set lie in a folder."""
    return Path(folder) / FOLDER / f"{quote(name, safe=' ')}{kind}"


def names_in(folder: str | Path, kind: str = SCORES) -> list[str]:
    """Return the data sets that a folder has evaluations of, the clean ones first."""
    files = (Path(folder) / FOLDER).glob(f"*{kind}")
    names = (unquote(file.name.removesuffix(kind)) for file in files)
    return sorted(names, key=lambda n: (n != CLEAN, n != CORRUPTED, n))


def is_evaluated(folder: str | Path) -> bool:
    """Return whether a folder has an evaluation."""
    return file_of(folder, CLEAN).is_file()


def read_evaluation(folder: str | Path) -> dict[str, Any]:
    """Return the scores on all data sets as one document.

    Args:
        folder: What ``tepui.evaluate`` was given as ``out``, such as that of a run.

    Raises:
        FileNotFoundError: If there are none.
        ValueError: If a file is damaged or foreign.
    """
    names = dict.fromkeys([CLEAN, *names_in(folder)])
    return joined(read_document(file_of(folder, name), KIND) for name in names)


def joined(documents: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the scores on several data sets as one document; clean ones come first.

    Example:
        >>> clean = {"of": 1, "clean": {"nll": 1.0}, "cells": [], "ood": {}}
        >>> sketch = {"of": 2, "cells": [{"type": "sketch"}]}
        >>> joined([clean, sketch, {"of": 2, "ood": {"noise": {}}}])
        {'of': 1, 'clean': {'nll': 1.0}, 'cells': [{'type': 'sketch'}], 'ood': {'noise': {}}}
    """  # noqa: E501 - a doctest must show the whole document
    return reduce(_merged, documents, {})


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    both = dict(one)
    for name, value in other.items():
        known = both.get(name)
        if known is None:
            both[name] = value
        elif name == "cells":
            both[name] = [*known, *value]
        elif isinstance(known, Mapping) and name != "of":
            both[name] = _merged(known, value)
    return both


def write_evaluation(
    folder: str | Path, documents: Mapping[str, Mapping[str, Any]]
) -> None:
    """Write the scores on each data set."""
    for name in sorted(documents, key=lambda name: name == CLEAN):
        write_document(file_of(folder, name), KIND, documents[name])


def write_about(folder: str | Path, about: Mapping[str, Any]) -> None:
    """Let evaluations say that they are on other data than they can see."""
    for name in reversed(names_in(folder)):
        document = read_document(file_of(folder, name), KIND)
        document["about"] = about if name == CLEAN else {}
        write_document(file_of(folder, name), KIND, document)


def forget(folder: str | Path) -> None:
    """Remove all evaluations in a folder, the clean one first."""
    for kind in (SCORES, LOGITS):
        for name in names_in(folder, kind):
            file_of(folder, name, kind).unlink(missing_ok=True)


def is_of_another(
    folder: str | Path,
    asked: Sequence[str],
    of: Mapping[str, Any],
    test: Mapping[str, Any],
    *,
    overwrite: bool,
) -> bool:
    """Return whether a folder has an evaluation of something else.

    Args:
        folder: Where it is.
        asked: The data sets to evaluate on, the clean ones first.
        of: Ensemble and settings of what is asked for.
        test: The identity of the clean data.
        overwrite: Whether what is there may be replaced.

    Raises:
        FileExistsError: If it is, or has one of the data sets, and may not be replaced;
            the clean data are measured again with others. What is of before a
            calibration may.
    """
    if CLEAN not in (there := names_in(folder)):
        return bool(there)
    clean = read_document(file_of(folder, CLEAN), KIND)
    known = {**clean.get("of", {}), "test": clean.get("about", {}).get("test")}
    found = differences(known, {**of, "test": test})
    changed = {name.partition(".")[0] for name in found}
    others, why = sorted(changed - CALIBRATED), ""
    if others:
        named = ", ".join("test data" if name == "test" else name for name in others)
        why = f"differs in {named}; to keep it, evaluate a copy of its folder"
    there = [name for name in asked[1:] or asked if file_of(folder, name).is_file()]
    if why or (there and not changed):
        file = file_of(folder, CLEAN if why else there[0])
        said = f"{file} exists{' and ' if why else ''}{why}"
        if not overwrite:
            raise FileExistsError(
                f"{said}; pass overwrite=True (--overwrite) to replace it"
            )
    return bool(others)


def forget_applied(folder: str | Path, calibration: str | None) -> bool:
    """Take out what another calibration gave; return whether there was none or another.

    Args:
        folder: Where evaluations are.
        calibration: The hash of the calibration that stays.
    """
    changed = False
    for name in names_in(folder):
        file = file_of(folder, name)
        document = read_document(file, KIND)
        if document["of"].get("calibration") == calibration:
            continue
        changed = True
        if document.pop("applied", None) is not None:
            document["of"]["calibration"] = None
            write_document(file, KIND, document)
    return changed


def ensemble_digest(ensemble: Ensemble) -> str:
    """Return a hash of all weights, and of what is done to outputs."""
    document, fitted = learned_of(ensemble)
    document.pop("calibrated_on", None)
    learned = {f"{document} {name}": tensor for name, tensor in fitted.items()}
    return tensors_hash(dict(ensemble.state_dict()) | learned)


def calibration_digest(ensemble: Ensemble) -> str | None:
    """Return a hash that tells what is done to outputs; None if nothing is."""
    if ensemble.calibration is None and ensemble.conformity is None:
        return None
    return ensemble_digest(ensemble)
