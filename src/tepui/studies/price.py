"""What a plan costs before it is carried out: time, memory, disk.

Times come from runs that were made before on this hardware, and besides from what an
H200 was measured to take for a step of ResNet-18, in proportion to the operations of
other networks. The latter is a floor for small networks, whose steps wait for the host
that launches them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from heapq import nlargest
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset

from tepui.data import Arrays
from tepui.data.corruptions.copies import KEPT_BYTES
from tepui.data.image_files import MEMORY
from tepui.data.loading import as_arrays, at_rows, length
from tepui.data.reading import AHEAD
from tepui.data.shifts import Shifts
from tepui.data.stored import StoredData
from tepui.evaluation.memory import evaluation_memory
from tepui.modules.features import Reading
from tepui.studies.beginnings import Piece, pieces
from tepui.studies.blank_data import blank, form_of
from tepui.studies.derived_data import HELD, Features
from tepui.studies.given import EvaluationRequest, Given, GivenTest
from tepui.studies.job import Job
from tepui.studies.loaded_data import MOST_HELD
from tepui.studies.made_data import blank_of_made, extractor_of, one_of
from tepui.studies.member_cost import (
    MemberCost,
    gradients_per_step,
    member_cost,
    module_cost,
    optimizer_slots,
)
from tepui.studies.specifications import (
    DataSource,
    EvaluationSpec,
    Samples,
    Trial,
    any_draw,
    digest,
)
from tepui.studies.speeds import Speeds
from tepui.studies.store import Store, kept_in
from tepui.studies.sweep import HoldOut

# benchmarks/training_step.py: a member-step of a deep ensemble of ResNet-18 on images
# of 32 pixels, batch 128, on one H200; one of SAM takes 3.73 ms.
H200_STEP = 1.86e-3 / 128
RESNET18_OPERATIONS = 1_110_845_440
FORWARD = 1 / 3  # of a gradient, which passes backward too
STORED_BYTES = {"float32": 4, "float16": 2, "none": 0}
TARGET = 8


@dataclass(frozen=True)
class Price:
    """What a plan costs beyond what a store has.

    Attributes:
        hours_on_h200: Of training and tests, one ensemble after the other, on one H200.
        hours_here: The same on this hardware, as earlier runs of the same methods and
            models went; None if there is a model without any.
        device_bytes: The most memory that anything takes on the device.
        host_bytes: The same beside it, where the data are held that fit into memory;
            without what Python and torch take for themselves.
        disk_bytes: What all ensembles, features and logits take in the store.
        unpriced: Ensembles that are not in these numbers, since their data are missing
            and not known, or have yet to be made.
    """

    hours_on_h200: float = 0.0
    hours_here: float | None = 0.0
    device_bytes: int = 0
    host_bytes: int = 0
    disk_bytes: int = 0
    unpriced: int = 0

    def __add__(self, other: "Price") -> "Price":
        """Return the price of both."""
        both = self.hours_here, other.hours_here
        return Price(
            self.hours_on_h200 + other.hours_on_h200,
            None if None in both else sum(hours for hours in both if hours),
            max(self.device_bytes, other.device_bytes),
            max(self.host_bytes, other.host_bytes),
            self.disk_bytes + other.disk_bytes,
            self.unpriced + other.unpriced,
        )


class Pricing:
    """Prices plans; what is known of a network or of earlier runs is looked up once.

    Attributes:
        store: What is in it costs nothing.
    """

    def __init__(self, store: Store, runs: Path | None = None) -> None:
        self.store = store
        self._speeds = Speeds(runs or store.path, store.device)
        self._costs: dict[str, MemberCost | None] = {}
        self._datasets: dict[str, Dataset[Any] | None] = {}

    def price(self, jobs: Sequence[Job]) -> Price:
        """Return what a plan, merged, costs; what trials share counts once.

        Args:
            jobs: The plan.

        Returns:
            The price.
        """
        left = [job for job in jobs if job.steps_left(self.store)]
        untrained = [j.trial for j in left if not self.store.is_trained(j.trial)]
        asked = {source.digest: source for job in left for source in _asked(job)}
        sources = [*asked.values()]
        made = [source for source in sources if isinstance(source, Features)]
        prices = [
            *map(self._making, made),
            *map(self._training, pieces(untrained)),
            *map(self._keeping, untrained),
            *map(self._testing, left),
        ]
        price = reduce(Price.__add__, prices, Price())
        return replace(price, host_bytes=price.host_bytes + self._held(sources))

    def _making(self, source: Features) -> Price:
        """Return what the features of an extractor cost that are not stored yet."""
        images, features = self._dataset(source.images), self._dataset(source)
        if images is None or features is None or source.file(self.store).exists():
            return Price()
        cost, count = self._extracting(source, images), length(images)
        time = count * FORWARD * H200_STEP * cost.operations / RESNET18_OPERATIONS
        batch = Reading().batch_size
        inputs = batch * one_of(images).nbytes
        return Price(
            hours_on_h200=time / 3600,
            hours_here=None,
            device_bytes=cost.weights + 2 * inputs + batch * cost.passing,
            host_bytes=cost.weights + (AHEAD + 2) * inputs,
            disk_bytes=row_bytes(features) * count,
        )

    def _training(self, piece: Piece) -> Price:
        trial, (cost, samples) = piece.trial, self._known(piece.trial)
        if cost is None:
            return Price()
        seen = piece.epochs * len(trial.seeds) * samples
        return self._time(trial, cost, seen, _gradients(trial))

    def _keeping(self, trial: Trial) -> Price:
        cost, _ = self._known(trial)
        if cost is None:
            return Price(unpriced=1)
        members, slots = len(trial.seeds), optimizer_slots(trial)
        weights = members * cost.weights
        return Price(
            device_bytes=self._memory(trial, cost),
            host_bytes=3 * weights,  # as they are built, and copied to be saved
            disk_bytes=weights * (2 + slots),  # result, checkpoint
        )

    def _testing(self, job: Job) -> Price:
        cost, _ = self._known(job.trial)
        if cost is None:
            return Price()
        missing = [e for e in job.evaluations if not self.store.has(job.trial, e)]
        return reduce(
            Price.__add__,
            (self._test(job.trial, cost, evaluation) for evaluation in missing),
            Price(),
        )

    def _test(self, trial: Trial, cost: MemberCost, test: EvaluationRequest) -> Price:
        members, (familiar, unfamiliar) = len(trial.seeds), self._tested(test)
        shown = members * (sum(familiar) + unfamiliar)
        data = self._dataset(trial.data)
        size = 0 if data is None else row_bytes(data)
        memory = evaluation_memory(
            members=members,
            samples=familiar[0],
            classes=cost.outputs,
            sample_bytes=4 * size,  # bytes become floats
            weight_bytes=members * cost.weights,
            activation_bytes=cost.passing,
            ood_samples=unfamiliar,
            own_metrics=isinstance(test, GivenTest) and bool(test.metrics),
        )
        kept = STORED_BYTES[kept_in(test, self.store.logits_in)]
        return self._time(trial, cost, shown, FORWARD) + Price(
            device_bytes=memory.device + _copies(test, [n * size for n in familiar]),
            host_bytes=memory.host,
            disk_bytes=kept * shown * cost.outputs,
        )

    def _time(
        self, trial: Trial, cost: MemberCost, samples: int, passes: float
    ) -> Price:
        """Return the hours in which members see so many samples, once per pass."""
        on_h200 = samples * passes * H200_STEP * cost.operations / RESNET18_OPERATIONS
        speed, here = self._speeds.of(trial, cost.model), None
        if speed is not None:
            share = passes / _gradients(trial)
            here = samples * speed.seconds_per_sample * share / 3600
        return Price(on_h200 / 3600, here)

    def _memory(self, trial: Trial, cost: MemberCost) -> int:
        """Return the bytes on the device: as seen, or weights, activations and data."""
        speed = self._speeds.of(trial, cost.model)
        if speed is not None and speed.peak_memory:
            return speed.peak_memory
        copies = 3 + optimizer_slots(trial)  # weights, gradient, where SAM goes
        activations = trial.training.batch_size * cost.activations
        members = len(trial.seeds) * (copies * cost.weights + activations)
        return members + self._held_bytes(trial.data)

    def _held(self, sources: Sequence[DataSource]) -> int:
        """Return the most that data take of those that a store holds at once."""
        return sum(nlargest(MOST_HELD, map(self._held_bytes, sources)))

    def _held_bytes(self, source: DataSource) -> int:
        dataset = self._dataset(source)
        if dataset is None:
            return 0
        taken = length(dataset) * row_bytes(dataset)
        limit = HELD if isinstance(source, Features) else MEMORY
        return taken if taken <= limit else 0

    def _known(self, trial: Trial) -> tuple[MemberCost | None, int]:
        """Return what a member costs, and how many samples it learns from."""
        dataset = self._dataset(trial.data)
        if dataset is None:
            return None, 0
        name = digest([trial.model, any_draw(trial.data)])
        if name not in self._costs:
            try:
                self._costs[name] = member_cost(trial, dataset)
            except (FileNotFoundError, ImportError):  # of published weights
                self._costs[name] = None
        return self._costs[name], length(dataset)

    def _extracting(self, source: Features, images: Dataset[Any]) -> MemberCost:
        """Return what an extractor costs, whatever it was trained on."""
        model = source.extractor
        made_by = model.model if isinstance(model, Trial) else model
        name = digest([made_by, source.layers, [*one_of(images).shape]])
        cost = self._costs.get(name)
        if cost is None:
            cost = self._costs[name] = module_cost(extractor_of(source), images)
        return cost

    def _dataset(self, source: DataSource) -> Dataset[Any] | None:
        """Return data, blank if they are not there; None if they are to be made."""
        name = source.digest
        if name not in self._datasets:
            drawn = any_draw(source)
            try:
                found = self._found(source) if drawn == source else self._dataset(drawn)
            except ImportError:  # of a model that is not installed
                found = None
            self._datasets[name] = found
        return self._datasets[name]

    def _found(self, source: DataSource) -> Dataset[Any] | None:
        inner = source
        while isinstance(inner, HoldOut):
            inner = inner.source
        if not isinstance(inner, Samples | Given):
            return blank_of_made(source, self._dataset)
        try:
            return form_of(self.store.dataset(source))
        except FileNotFoundError:
            return blank(source)

    def _tested(self, test: EvaluationRequest) -> tuple[list[int], int]:
        """Return the samples of each labeled set, and of all unfamiliar ones."""
        if isinstance(test, GivenTest):
            shifts = Shifts.of(test.shifted)
            unfamiliar = sum(map(length, test.ood.values()))
            clean = [length(test.test)] * (1 + len(shifts.copies))
            return [*clean, *map(length, shifts.natural.values())], unfamiliar
        copies = 1 + len(test.types) * len(test.severities)
        unfamiliar = self._count(source for _, source in test.ood)
        return [self._count([test.test])] * copies, unfamiliar

    def _count(self, sources: Iterable[DataSource]) -> int:
        found = map(self._dataset, sources)
        return sum(length(dataset) for dataset in found if dataset is not None)


def _gradients(trial: Trial) -> float:
    return gradients_per_step(trial.training.method, len(trial.seeds))


def row_bytes(dataset: Dataset[Any]) -> int:
    """Return what a sample takes as it is stored, with its target."""
    first, rows = torch.zeros(1).long(), as_rows(dataset)
    if rows is None:
        inputs = next(at_rows(dataset, [first], device=torch.device("cpu"))).inputs
    else:
        inputs = rows.raw(first)
    tensors = inputs.values() if isinstance(inputs, Mapping) else [inputs]
    return sum(tensor.nbytes for tensor in tensors) + TARGET


def as_rows(dataset: Dataset[Any]) -> Arrays | StoredData | None:
    """Return data whose rows can be had as they are stored."""
    return dataset if isinstance(dataset, StoredData) else as_arrays(dataset)


def _copies(test: EvaluationRequest, sizes: Sequence[int]) -> int:
    """Return what corrupted copies take: all that are kept, or one at a time."""
    _, *copies = sizes
    if isinstance(test, GivenTest) or not copies:
        return 0
    return sum(copies) if sum(copies) <= KEPT_BYTES else max(copies)


def _asked(job: Job) -> Iterator[DataSource]:
    """Yield the data that a job loads."""
    yield job.trial.data
    if job.trial.unlabeled is not None:
        yield job.trial.unlabeled
    for spec in job.evaluations:
        if isinstance(spec, EvaluationSpec):
            yield spec.test
            yield from (source for _, source in spec.ood)
