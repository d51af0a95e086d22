"""Predictions for a whole data set, written in shards.

A folder holds ``predictions.json``, which says what is predicted and how, and a file
for each run of ``shard_size`` samples. A file is there once it is whole, so that a
writer that was killed goes on with the first shard that is missing, and several writers
share the shards by their numbers alone.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.core.precision import Precision, precision_on
from tepui.core.replacing import check_writable
from tepui.core.storage import (
    check_tensors,
    read_document,
    read_tensors,
    write_document,
    write_tensors,
)
from tepui.core.types import check_types
from tepui.data.arrays import Normalize
from tepui.data.identity import data_digest, tensors_hash
from tepui.data.loading import length
from tepui.data.preparation import Preparation
from tepui.ensembles.ensemble import Ensemble
from tepui.ensembles.feature_detectors import FeatureDetectors, joined_scores
from tepui.evaluation.dataset_logits import logit_batches, task_on, watching
from tepui.evaluation.evaluations import ensemble_digest
from tepui.evaluation.stored_logits import TYPES, LogitType, within
from tepui.metrics import Rule
from tepui.modules.running import device_of
from tepui.tasks.base import Runs

PLAN = "predictions.json"
KIND = "predictions"
# Decimal digits that tell all numbers of float32 apart.
DIGITS = 9


class BegunOtherwiseError(ValueError):
    """A folder holds predictions of another ensemble, data or options."""


@dataclass(frozen=True)
class ShardedPredictions:
    """Predictions in a folder, some of which may be missing yet.

    Attributes:
        path: The folder.
        samples: How many samples are predicted.
        shard_size: How many of them a shard holds; the last may hold fewer.
        members: How many members predict.
        rule: How they are combined.
        precision: What members compute in.
        logits: The type of the members' logits, None where they are not stored.
        probabilities: Whether those of all classes are stored.
        ensemble: A hash of the weights.
        data: A hash of the data, as far as they are held or say what they are.
        task: What is predicted, see :class:`tepui.Task`.
        detectors: A hash of the detectors of features, None without any.
        unfamiliarity_by: The scores by which ``unfamiliarity`` was told, in the order
            of ``surprises``; empty where nothing was held out to tell it.
        held_out: How many held-out samples tell it.
        coverage: What conformal sets or intervals promise, None without any.
        classes: Names of the classes; of a yes or no in one output those of both
            answers, or of the label that holds or not.
        digits: How many digits are known of numbers in the unit of a table's column.
    """

    path: Path
    samples: int
    shard_size: int
    members: int
    rule: str
    precision: str
    logits: str | None
    probabilities: bool
    ensemble: str
    data: str
    task: str
    detectors: str | None = None
    unfamiliarity_by: tuple[str, ...] = ()
    held_out: int = 0
    coverage: float | None = None
    classes: tuple[str, ...] = ()
    digits: int = DIGITS

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Read what a folder holds.

        Args:
            path: Where :func:`predict_shards` wrote.

        Returns:
            The predictions, of which none have been read.

        Raises:
            FileNotFoundError: If the folder holds none.
            ValueError: If the document is damaged or of another kind.
        """
        file = Path(path) / PLAN
        if not file.is_file():
            raise FileNotFoundError(f"no file {file}")
        try:
            document = read_document(file, KIND)
            names = ("unfamiliarity_by", "classes")
            return cls(Path(path), **document | {n: tuple(document[n]) for n in names})
        except (TypeError, KeyError) as error:
            raise ValueError(f"{file} must describe predictions: {error}") from error

    @property
    def num_shards(self) -> int:
        """How many shards there are once all are written."""
        return -(-self.samples // self.shard_size)

    @property
    def missing(self) -> list[int]:
        """The numbers of the shards that are not written yet."""
        return [n for n in range(self.num_shards) if not self.file(n).exists()]

    def file(self, number: int) -> Path:
        """Return where a shard lies.

        Args:
            number: Which shard, from 0.

        Returns:
            Its file.
        """
        return self.path / f"shard-{number:06d}.safetensors"

    def rows(self, number: int) -> range:
        """Return the samples of a shard.

        Args:
            number: Which shard, from 0.

        Returns:
            Their positions in the data set.
        """
        start = number * self.shard_size
        return range(start, min(start + self.shard_size, self.samples))

    def check_complete(self) -> None:
        """Raise if shards are missing."""
        missing = self.missing
        rule = "hold all shards (predict_shards writes those that are missing)"
        found = f"{self.num_shards - len(missing)} of {self.num_shards}"
        require(not missing, str(self.path), rule, found)

    def shards(self) -> Iterator[dict[str, Tensor]]:
        """Yield what the shards hold, in the order of the samples.

        Yields:
            Tensors by the names of :meth:`tepui.Prediction.statistics`;
            ``unfamiliarity``, the share of held-out samples that look more familiar,
            and ``surprises``, see :class:`tepui.metrics.HeldOutScores`, where
            :attr:`unfamiliarity_by` names scores; and ``logits`` of shape ``(members,
            samples, classes)`` where they are stored.

        Raises:
            ValueError: If shards are missing, or one is damaged.
        """
        self.check_complete()
        for number in range(self.num_shards):
            tensors, document = read_tensors(self.file(number), KIND)
            which: Any = document.get("shard")
            rule = f"be shard {number}"
            require(which == number, str(self.file(number)), rule, which)
            yield tensors

    def statistics(self) -> dict[str, Tensor]:
        """Return the numbers of all samples, without logits.

        Returns:
            Tensors of shape ``(samples, …)`` by the names of :meth:`shards`.
        """
        parts = [
            {name: tensor.clone() for name, tensor in shard.items() if name != "logits"}
            for shard in self.shards()
        ]
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def predict_shards(
    ensemble: Ensemble,
    dataset: Dataset[Any],
    out: str | Path,
    *,
    shard_size: int = 8192,
    rule: Rule = "probability",
    batch_size: int = 1024,
    workers: int = 0,
    precision: Precision = "tf32",
    logits_in: LogitType = "none",
    probabilities: bool = False,
    detectors: FeatureDetectors | None = None,
    rank: int = 0,
    world: int = 1,
) -> ShardedPredictions:
    """Write an ensemble's predictions for a data set, shard after shard.

    Shards that are there already are checked and left alone, so that the same call
    goes on where one was killed. Of ``world`` processes that write into the same
    folder, each is given its ``rank`` and takes every ``world``-th shard. Neither kills
    nor their number change what is written.

    Args:
        ensemble: What predicts, where it lies.
        dataset: The samples; their labels are written beside the predictions.
        out: The folder.
        shard_size: Samples per shard.
        rule: How members are combined.
        batch_size: Samples that go through a member at once.
        workers: Processes that load a data set not held in tensors.
        precision: What members compute in on a GPU.
        logits_in: Store the logits of all members too, in this type.
        probabilities: Store those of all classes too.
        detectors: Detectors of unfamiliar features, fitted on the training data, whose
            scores are written too; those of the ensemble if not given. If they were
            given held-out data they tell how unfamiliar a sample is; else the
            ensemble's own scores do, where it was.
        rank: Which of the writers this is, from 0.
        world: How many writers share the folder.

    Returns:
        The predictions; complete if this was the only writer.

    Raises:
        ValueError: If an argument breaks its rule, or the folder holds predictions of
            another ensemble, other data or other options.

    Example:
        >>> import tempfile, tepui
        >>> data = tepui.data.Arrays(torch.randn(30, 4), torch.arange(30) % 3)
        >>> ensemble = Ensemble.build(lambda: torch.nn.Linear(4, 3), members=2)
        >>> with tempfile.TemporaryDirectory() as out:
        ...     first = predict_shards(ensemble, data, out, shard_size=8, world=2)
        ...     left = first.missing
        ...     _ = predict_shards(ensemble, data, out, shard_size=8, rank=1, world=2)
        ...     confidence = first.statistics()["confidence"]
        >>> left, confidence.shape
        ([1, 3], torch.Size([30]))
    """
    check_types(predict_shards, locals())
    require(batch_size > 0, "batch_size", "be positive", batch_size)
    require(shard_size > 0, "shard_size", "be positive", shard_size)
    require(world > 0, "world", "be positive", world)
    require(0 <= rank < world, "rank", f"lie in [0, {world - 1}]", rank)
    task, shape = task_on(ensemble, dataset)
    known = ensemble.preparation or Preparation()
    detectors = detectors or ensemble.detectors
    by_features = None if detectors is None else detectors.held_out
    held = by_features or ensemble.held_out_scores
    plan = ShardedPredictions(
        path=Path(out),
        samples=length(dataset),
        shard_size=shard_size,
        members=len(ensemble),
        rule=rule,
        precision=precision_on(device_of(ensemble), precision),
        logits=None if logits_in == "none" else logits_in,
        probabilities=probabilities,
        ensemble=ensemble_digest(ensemble),
        data=data_digest(dataset),
        task=task.written(),
        detectors=None if detectors is None else tensors_hash(detectors.tensors()),
        unfamiliarity_by=() if held is None else held.names,
        held_out=0 if held is None else held.samples,
        coverage=None if ensemble.conformity is None else ensemble.conformity.coverage,
        classes=known.classes,
        digits=_digits(known.units),
    )
    check_writable(plan.path)
    _begin(plan)
    batches = partial(logit_batches, ensemble, dataset, batch_size, workers, precision)
    with watching(ensemble, detectors, batches) as watched:
        for number in range(rank, plan.num_shards, world):
            if plan.file(number).exists():
                check_tensors(plan.file(number), KIND)
                continue
            span = plan.rows(number)
            rows = torch.arange(span.start, span.stop).split(batch_size)
            how = rule, logits_in, probabilities, held is not None
            tensors, own = _shard(ensemble, task.runs(watched(rows), shape), *how)
            tensors |= watched.scores()
            if held is not None:
                found = tensors | own
                tensors["surprises"] = held.surprises(found)
                tensors["unfamiliarity"] = held.unfamiliarity(found)
            write_tensors(plan.file(number), KIND, tensors, {"shard": number})
    return plan


def _shard(
    ensemble: Ensemble,
    batches: Runs,
    rule: Rule,
    logits_in: LogitType,
    probabilities: bool,
    judging: bool,
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return what a shard holds, and the scores by which its outputs are judged."""
    parts, kept, judged = [], [], []
    for outputs, targets in batches:
        out = ensemble.predicted(outputs, rule)
        if judging:
            judged.append(out.judged)
        parts.append(out.statistics(targets) | out.promised())
        if probabilities and "probs" in out.fields:
            parts[-1]["probability"] = out.probs
        if logits_in != "none":
            kept.append(within(out.outputs, TYPES[logits_in]).cpu())
    tensors = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    tensors |= {"logits": torch.cat(kept, dim=1)} if kept else {}
    return tensors, joined_scores(judged)


def _digits(units: Normalize | None) -> int:
    """Return the digits of numbers that are known to float32's share of their spread.

    Example:
        >>> _digits(None), _digits(Normalize((1.7e9,), (5.0,)))
        (9, 18)
    """
    if units is None:
        return DIGITS
    (mean,), (std,) = units.mean, units.std
    return DIGITS + max(0, math.ceil(math.log10(max(abs(mean) / std, 1.0))))


def _begin(plan: ShardedPredictions) -> None:
    """Write down what is predicted, or check that it is what was begun here."""
    document = {name: value for name, value in asdict(plan).items() if name != "path"}
    if not (plan.path / PLAN).is_file():
        write_document(plan.path / PLAN, KIND, document)
        return
    begun = vars(ShardedPredictions.open(plan.path))
    for name, value in document.items():
        if begun[name] != value:
            raise BegunOtherwiseError(
                f"{name} must be what {plan.path} was begun with ({begun[name]!r}) to "
                "go on there; to begin anew, remove that folder (tepui predict: "
                f"--overwrite), got {value!r}"
            )
