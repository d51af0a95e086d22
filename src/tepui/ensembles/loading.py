"""Reading ensembles from files: whole, into another, or what they say of themselves."""

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor, nn

from tepui.core.checks import require
from tepui.core.seeding import seeded
from tepui.core.storage import read_document, read_tensors, reading
from tepui.data.preparation import Preparation
from tepui.ensembles.building import Factory, factories_for, made_by
from tepui.ensembles.ensemble import EXTRACTOR, FILE, KIND, Ensemble, parts_of
from tepui.ensembles.feature_detectors import read_detectors
from tepui.metrics import HeldOutScores
from tepui.metrics.calibrators import stored_calibration
from tepui.metrics.conformal import stored_conformity
from tepui.models.split import frozen
from tepui.modules.sharing import share_as_stored
from tepui.modules.state import (
    load_tensor_state,
    rebuilt,
    take_adapter,
    take_dtypes,
)
from tepui.tasks.base import Task
from tepui.tasks.named import read_task

RUN = "run.json"
DIVERGED = "diverged.json"

States = defaultdict[str, dict[str, Tensor]]
Made = TypeVar("Made")


def load(
    path: str | Path,
    factory: Factory | Sequence[Factory] | None = None,
    extractor: Factory | None = None,
) -> Ensemble:
    """Load an ensemble that :meth:`Ensemble.save` or a run wrote.

    Nothing in the file is executed: models of ``tepui.models`` are rebuilt from their
    names and arguments, those of transformers from their configuration, all others by
    the factory. What ``tepui calibrate`` learned comes with it, detectors of features
    too, so that ``predict`` says what ``tepui predict`` does.

    Args:
        path: The folder of a run or of a saved ensemble, or the file of one.
        factory: Returns an untrained member, or head where members share an extractor;
            needed only for models tepui does not know. One, or one per member.
        extractor: Returns the extractor that members share, with any weights; needed
            only where it is not part of a model that tepui knows.

    Returns:
        The ensemble, on the CPU, in eval mode.

    Raises:
        FileNotFoundError: If there is no ensemble.
        ValueError: If the file is foreign or damaged, or does not fit the factories.
    """
    states, document, file = _read(path)
    described, shared = document["members"], document.get("extractor")
    rule = f"be None for {file}, whose members share none"
    require(extractor is None or shared is not None, "extractor", rule, extractor)
    with seeded("load"):
        if factory is None:
            modules = _rebuilt_members(described, states, file)
        else:
            modules = [made_by(make) for make in factories_for(factory, len(described))]
            for module, each in zip(modules, described, strict=True):
                take_adapter(module, each, file)
        front = None
        if extractor is not None:
            front = frozen(extractor().eval())
        elif shared is not None:
            front = frozen(rebuilt(shared, states[EXTRACTOR], file, "extractor"))
    ensemble = Ensemble(modules, document["seeds"], front)
    for owner, module in parts_of(ensemble).items():
        given = extractor if owner == EXTRACTOR else factory
        if given is None:
            take_dtypes(module, states[owner])
    _load_parts(ensemble, states, file)
    _take_meaning(ensemble, document, states, file)
    return ensemble.eval()


def meaning_in(path: str | Path) -> tuple[Task | None, Preparation | None]:
    """Return what the outputs of the ensemble in a folder mean, and of what inputs."""
    _, document, file = _read(path)
    said = partial(_described, document, file)
    return said("task", read_task), said("preparation", Preparation.of)


def load_into(ensemble: Ensemble, path: str | Path) -> None:
    """Load saved weights into an ensemble of the same shape."""
    states, document, file = _read(path)
    argument, members = f"members in {file}", len(document["members"])
    rule = f"be as many as the ensemble's ({len(ensemble)})"
    require(members == len(ensemble), argument, rule, members)
    rule = "share an extractor exactly if the ensemble's do"
    shared = document["extractor"] is not None
    require(shared == (ensemble.extractor is not None), argument, rule, shared)
    _load_parts(ensemble, states, file)
    _take_meaning(ensemble, document, states, file)


def _read(path: str | Path) -> tuple[States, dict[str, Any], Path]:
    """Return the state of every part, the document and the file."""
    file = Path(path)
    if file.is_file() and file.suffix != ".safetensors":
        hint = "tepui.ensembles.ensemble_of takes files of weights"
        raise FileNotFoundError(f"no ensemble in {file}, which is a file; {hint}")
    if not file.is_file():
        check_ended(file)
        file = file / FILE
    tensors, document = read_tensors(file, KIND)
    return _parted(tensors), document, file


def check_ended(folder: Path) -> None:
    """Raise if a folder has no ensemble, and say why."""
    if (folder / FILE).exists():
        return
    if not folder.is_dir():
        raise FileNotFoundError(f"no folder {folder}")
    if diverged := divergence_in(folder):
        raise FileNotFoundError(diverged)
    if (folder / RUN).exists():
        rule = "finish it with resume=True (--resume), under the settings it began with"
        raise FileNotFoundError(f"the run in {folder} has not ended; {rule}")
    raise FileNotFoundError(f"{folder} holds no run and no ensemble ({RUN}, {FILE})")


def divergence_in(folder: Path) -> str:
    """Return why the run in a folder has no ensemble, and what to do; empty if it may.

    Only a run that diverged has none for good.
    """
    if (folder / FILE).exists() or not (folder / DIVERGED).exists():
        return ""
    document = read_document(folder / DIVERGED, "divergence")
    with reading(folder / DIVERGED, "why a run diverged"):
        return (
            f"the run in {folder} diverged and has no ensemble ({document['reason']}); "
            f"begin another in a new folder, {document['remedy']}"
        )


def _parted(tensors: dict[str, Tensor]) -> States:
    """Return the tensors of every part: a member, the extractor, what was fitted."""
    states: States = defaultdict(dict)
    for name, tensor in tensors.items():
        owner, _, inner_name = name.partition(".")
        states[owner][inner_name] = tensor
    return states


def _rebuilt_members(
    described: list[dict[str, Any]], states: States, file: Path
) -> list[nn.Module]:
    """Build members that tepui knows; equal ones are built once and copied."""
    built: dict[str, nn.Module] = {}
    for index, item in enumerate(described):
        key = json.dumps(item)
        if key not in built:
            built[key] = rebuilt(item, states[str(index)], file)
    return [deepcopy(built[json.dumps(item)]) for item in described]


def _load_parts(ensemble: Ensemble, states: States, file: Path) -> None:
    parts = parts_of(ensemble)
    for owner, module in parts.items():
        name = owner if owner == EXTRACTOR else f"member {owner}"
        load_tensor_state(module, states[owner], f"{name} of {file}")
    heads = [owner for owner in parts if owner != EXTRACTOR]
    share_as_stored([parts[it] for it in heads], [states[it] for it in heads])


def _take_meaning(
    ensemble: Ensemble, document: dict[str, Any], states: States, file: Path
) -> None:
    """Give an ensemble what its file says of its outputs and of its data."""
    said = partial(_described, document, file)
    ensemble.task = said("task", read_task)
    ensemble.preparation = said("preparation", Preparation.of)
    ensemble.trained_on = tuple(document.get("trained_on", ()))
    ensemble.detectors = read_detectors(file.parent, ensemble)
    ensemble.calibration = said(
        "calibration", lambda it: stored_calibration(it, states["calibration"])
    )
    ensemble.conformity = said(
        "conformity", lambda it: stored_conformity(it, states["conformity"])
    )
    ensemble.held_out_scores = said(
        "held_out_scores",
        lambda it: HeldOutScores(
            tuple(it["names"]), states["held_out_scores"]["scores"]
        ),
    )
    ensemble.calibrated_on = tuple(document.get("calibrated_on", ()))


def _described(
    document: dict[str, Any], file: Path, name: str, made: Callable[[Any], Made]
) -> Made | None:
    """Return what a document says under a name, None where it says nothing."""
    described = document.get(name)
    try:
        return None if described is None else made(described)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{file} must say its {name}, but: {error!r}") from error
