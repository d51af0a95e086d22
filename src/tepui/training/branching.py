"""Going on from where another run stands that has begun alike."""

import json
import math
from pathlib import Path
from typing import Any

from tepui.core.checks import require
from tepui.core.spec import document
from tepui.ensembles.ensemble import Ensemble
from tepui.modules.state import weights_norm
from tepui.training.batches import steps_per_epoch
from tepui.training.checkpoint import Checkpoint
from tepui.training.run_folder import RunFolder
from tepui.training.spec import TrainingSpec

# Weights drawn with one seed on two kinds of machines differ by less.
SAME_WEIGHTS = 1e-4


def branch_point(
    folder: str | Path,
    config: dict[str, Any],
    spec: TrainingSpec,
    ensemble: Ensemble,
) -> Checkpoint:
    """Return the checkpoint of a run from which another one may go on.

    Both runs must have begun with the same weights and been told the same but for
    their methods, which must do the same up to the checkpoint, and for pruning, which
    must come after it.
    """
    origin = RunFolder(folder)
    checkpoint = origin.load_checkpoint()
    if checkpoint is None:
        raise ValueError(f"branch_from must hold a run with a checkpoint, got {folder}")
    document = origin.recorded()
    recorded = document["config"]
    asked = json.loads(json.dumps(config))
    later = {"method", "prune"} if recorded.get("prune") is None else {"method"}
    for name in sorted((asked.keys() | recorded.keys()) - later):
        value, there = asked.get(name), recorded.get(name)
        rule = f"match the run being branched from ({there!r} in {folder})"
        require(value == there, name, rule, value)
    _check_first_weights(document["first_weights"], ensemble, folder)
    _check_whole_epochs(checkpoint, asked["data"]["samples"], spec, folder)
    done = len(checkpoint.history)
    if asked["method"] != recorded["method"]:
        _check_prefix(recorded["method"], done, spec, folder)
    if asked["prune"] != recorded.get("prune"):
        assert spec.prune is not None
        whole = spec.prune.epoch(spec.epochs)
        rule = f"stand at epoch {whole} or before, where members are pruned"
        found = f"{folder}, after {done} epochs"
        require(done <= whole, "branch_from", rule, found)
    return checkpoint


def _check_first_weights(
    recorded: list[float], ensemble: Ensemble, folder: str | Path
) -> None:
    """Refuse an ensemble that another run than this one would have trained."""
    rule = f"begin with the weights that the run in {folder} began with"
    pairs = zip(recorded, ensemble.members, strict=True)
    for index, (length, member) in enumerate(pairs):
        here = weights_norm(member)
        same = math.isclose(here, length, rel_tol=SAME_WEIGHTS)
        value = f"weights of length {here:.6g} instead of {length:.6g}"
        require(same, f"member {index} of ensemble", rule, value)


def _check_whole_epochs(
    checkpoint: Checkpoint, samples: int, spec: TrainingSpec, folder: str | Path
) -> None:
    """Refuse a run that was stopped within an epoch, whose rest is its own method's."""
    steps = len(checkpoint.history) * steps_per_epoch(samples, spec.batch_size)
    members = range(len(checkpoint.digests))
    # Members that have yet to begin, or have ended, have done fewer.
    done = max(checkpoint.member(index)[1]["step"] for index in members)
    rule = "stand at the end of an epoch (resume it until then)"
    require(done == steps, "branch_from", rule, folder)


def _check_prefix(
    trained: dict[str, Any], epochs: int, spec: TrainingSpec, folder: str | Path
) -> None:
    method, alike = spec.method.prefix(spec.epochs)
    begins = document(method)
    rule = f"begin like the run in {folder} ({trained}), but it begins like {begins}"
    require(begins == trained, "method", rule, spec.method)
    rule = (
        f"stand at epoch {alike} or before, where {type(spec.method).__name__} begins "
        f"to differ from {type(method).__name__}"
    )
    require(epochs <= alike, "branch_from", rule, f"{folder}, after {epochs} epochs")
