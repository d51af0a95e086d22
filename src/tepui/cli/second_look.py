"""What ``tepui predict`` says of its rows: units, bounds, and which to look at."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, get_args

import torch
from torch import Tensor

from tepui.cli.datasets import recorded_training
from tepui.core.counted import counted
from tepui.core.task import GAUSSIAN
from tepui.ensembles.ensemble import Ensemble
from tepui.evaluation.sample_statistics import COVERAGE
from tepui.evaluation.shards import ShardedPredictions
from tepui.metrics import ConformalIntervals, ConformalSets, FeatureScore
from tepui.metrics.held_out_scores import (
    in_words,
    objections,
    too_few,
    unfamiliar_at,
)

SPREADS = {
    "regression": "epistemic, the variance over members (std is its root)",
    "gaussian": "aleatoric and epistemic, variances (std is the root of their sum)",
    "quantiles": "epistemic, the variance over members",
}


class Counts(NamedTuple):
    """What says how many rows need a second look."""

    unfamiliarity: Tensor  # of each row, if it is known
    objecting: list[int]  # to how many rows each score objects
    empty: int  # no class is in their set


def second_look(
    shards: ShardedPredictions, ensemble: Ensemble, level: float, run: Path, out: Path
) -> list[str]:
    """Return what there is to say of predictions, a line each."""
    counts = _counts(shards, ensemble, level)
    lines = [*_of_numbers(ensemble), *_of_empty_sets(shards, counts)]
    lines += judged(shards, counts, level, run)
    doubtful = "the lowest confidence" if _has_confidence(shards) else "high epistemic"
    unfamiliar = "unfamiliar rows and " if shards.unfamiliarity_by else ""
    rows = f"{unfamiliar}the rows of {doubtful}"
    return [*lines, f"next: look at {rows} in {out} first"]


def _counts(shards: ShardedPredictions, ensemble: Ensemble, level: float) -> Counts:
    """Count rows, in one pass over the parts if there is anything to count."""
    of_classes = shards.task == "classification"
    sets = of_classes and isinstance(ensemble.conformity, ConformalSets)
    known, empty = bool(shards.unfamiliarity_by), 0
    shares, objecting = [torch.empty(0)], []
    for part in shards.shards() if sets or known else ():
        if known:
            shares.append(part["unfamiliarity"].clone())
            called = unfamiliar_at(level, shares[-1], shards.held_out)
            objecting.append(objections(level, part["surprises"], called).sum(0))
        if sets:
            empty += int((~part["in_set"].any(dim=1)).sum())
    by = torch.stack(objecting).sum(0).tolist() if objecting else []
    return Counts(torch.cat(shares), by, empty)


def _of_numbers(ensemble: Ensemble) -> Iterator[str]:
    """Say what numbers are measured in, and what their intervals are."""
    name = "" if ensemble.task is None else ensemble.task.name
    if name in SPREADS:
        unit = "answers are in the target's unit; in its square"
        yield f"{unit}: {SPREADS[name]}"
    if ensemble.task == GAUSSIAN:
        bounds = f"lower_{COVERAGE} and upper_{COVERAGE}"
        share = f"{100 * COVERAGE:g} %"
        yield f"{bounds}: {share} by the noise that the members predict"
    if isinstance(ensemble.conformity, ConformalIntervals):
        level = ensemble.conformity.coverage
        bounds = f"conformal_lower_{level} and conformal_upper_{level}"
        share = f"{100 * level:g} %"
        yield f"{bounds}: {share} by the held-out data of tepui calibrate"


def _of_empty_sets(shards: ShardedPredictions, counts: Counts) -> Iterator[str]:
    """Say how many rows no class fits, if there are some."""
    if counts.empty:
        rows = f"{counts.empty} of {counted(shards.samples, 'row')}"
        have = "has" if 1 in (counts.empty, shards.samples) else "have"
        why = "no class is as likely there as classes of held-out samples are"
        yield f"{rows} {have} an empty set (in_set columns): {why}"


def judged(
    shards: ShardedPredictions, counts: Counts, level: float, run: Path
) -> list[str]:
    """Say how many rows are unfamiliar, or what to run to know."""
    by = shards.unfamiliarity_by
    kept = recorded_training(run).get("validation") is not None
    held_out = "" if kept else " --held-out test"
    if by:
        objecting = dict(zip(by, counts.objecting, strict=True))
        said = in_words(level, counts.unfamiliarity, objecting, shards.held_out)
        few = too_few(level, shards.held_out)
        said += [] if few is None else [few]
        # Members extrapolate alike, and are sure of what lies far out.
        if shards.task == "classification" and not {*by} & {*get_args(FeatureScore)}:
            typed = f"tepui calibrate {run}{held_out} --detectors"
            said.append(f"to find rows far out too: {typed}")
        return said
    what = "which rows look unlike the training data"
    if shards.task == "unknown":
        return [f"{what} cannot be told, since the loss names no task"]
    of_classes = _has_confidence(shards)
    if shards.members == 1 and not of_classes:
        return [f"{what} cannot be told of numbers by one member alone"]
    coverage = "" if of_classes else " --coverage 0.9"
    return [f"to learn {what}: tepui calibrate {run}{coverage}{held_out}"]


def _has_confidence(shards: ShardedPredictions) -> bool:
    return shards.task in ("classification", "multi_label")
