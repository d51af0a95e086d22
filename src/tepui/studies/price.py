"""What a plan costs before it is carried out: time, memory, disk.

Times come from runs that were made before on this hardware, and besides from what an
H200 was measured to take for a step of ResNet-18, in proportion to the operations of
other networks. The latter is a floor for small networks, whose steps wait for the host
that launches them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset

from tepui.data.loading import as_arrays, length
from tepui.studies.beginnings import Piece, pieces
from tepui.studies.blank_data import blank
from tepui.studies.given import Given, GivenTest
from tepui.studies.job import Job
from tepui.studies.member_cost import (
    MemberCost,
    gradients_per_step,
    member_cost,
    optimizer_slots,
)
from tepui.studies.specifications import (
    DataSource,
    EvaluationSpec,
    Samples,
    Trial,
    digest,
)
from tepui.studies.speeds import Speeds
from tepui.studies.store import Store
from tepui.studies.sweep import HoldOut

# benchmarks/training_step.py: a member-step of a deep ensemble of ResNet-18 on images
# of 32 pixels, batch 128, on one H200; one of SAM takes 3.73 ms.
H200_STEP = 1.86e-3 / 128
RESNET18_OPERATIONS = 1_110_845_440
FORWARD = 1 / 3  # of a gradient, which passes backward too


@dataclass(frozen=True)
class Price:
    """What a plan costs beyond what a store has.

    Attributes:
        hours_on_h200: Of training and tests, one ensemble after the other, on one H200.
        hours_here: The same on this hardware, as earlier runs of the same methods and
            models went; None if there is a model without any.
        device_bytes: Memory on the device that the largest ensemble takes.
        disk_bytes: What all ensembles and their logits take in the store.
        unpriced: Ensembles that are not in these numbers, since their data are missing
            and not known, or have yet to be made.
    """

    hours_on_h200: float = 0.0
    hours_here: float | None = 0.0
    device_bytes: int = 0
    disk_bytes: int = 0
    unpriced: int = 0

    def __add__(self, other: "Price") -> "Price":
        """Return the price of both."""
        both = self.hours_here, other.hours_here
        return Price(
            self.hours_on_h200 + other.hours_on_h200,
            None if None in both else sum(hours for hours in both if hours),
            max(self.device_bytes, other.device_bytes),
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

    def price(self, jobs: Sequence[Job]) -> Price:
        """Return what a plan, merged, costs; what trials share counts once.

        Args:
            jobs: The plan.

        Returns:
            The price.
        """
        left = [job for job in jobs if job.steps_left(self.store)]
        untrained = [j.trial for j in left if not self.store.is_trained(j.trial)]
        prices = [
            *map(self._training, pieces(untrained)),
            *map(self._keeping, untrained),
            *map(self._testing, left),
        ]
        return reduce(Price.__add__, prices, Price())

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
        disk = members * cost.weights * (2 + slots)  # result, checkpoint
        return Price(device_bytes=self._memory(trial, cost), disk_bytes=disk)

    def _testing(self, job: Job) -> Price:
        cost, _ = self._known(job.trial)
        if cost is None:
            return Price()
        missing = [e for e in job.evaluations if not self.store.has(job.trial, e)]
        logits = len(job.trial.seeds) * sum(map(self._tested, missing))
        time = self._time(job.trial, cost, logits, FORWARD)
        return time + Price(disk_bytes=4 * logits * cost.outputs)

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
        dataset = self._dataset(trial.data)
        held = None if dataset is None else as_arrays(dataset)
        inputs = 0 if held is None else _bytes(held.inputs)
        return len(trial.seeds) * (copies * cost.weights + activations) + inputs

    def _known(self, trial: Trial) -> tuple[MemberCost | None, int]:
        """Return what a member costs, and how many samples it learns from."""
        dataset = self._dataset(trial.data)
        if dataset is None:
            return None, 0
        name = digest([trial.model, trial.data])
        if name not in self._costs:
            try:
                self._costs[name] = member_cost(trial, dataset)
            except (FileNotFoundError, ImportError):  # of published weights
                self._costs[name] = None
        return self._costs[name], length(dataset)

    def _dataset(self, source: DataSource) -> Dataset[Any] | None:
        """Return data, blank if they are not there; None if they are to be made."""
        inner = source
        while isinstance(inner, HoldOut):
            inner = inner.source
        if not isinstance(inner, Samples | Given):
            return None
        try:
            return self.store.dataset(source)
        except FileNotFoundError:
            return blank(source)

    def _tested(self, test: EvaluationSpec | GivenTest) -> int:
        """Return how many samples a test shows to each member, as far as is known."""
        if isinstance(test, GivenTest):
            copies = 1 + len(test.shifted or ())
            return copies * length(test.test) + sum(map(length, test.ood.values()))
        copies = 1 + len(test.types) * len(test.severities)
        unfamiliar = [source for _, source in test.ood]
        return copies * self._count([test.test]) + self._count(unfamiliar)

    def _count(self, sources: Iterable[DataSource]) -> int:
        found = map(self._dataset, sources)
        return sum(length(dataset) for dataset in found if dataset is not None)


def _gradients(trial: Trial) -> float:
    return gradients_per_step(trial.training.method, len(trial.seeds))


def _bytes(inputs: Any) -> int:
    tensors = inputs.values() if isinstance(inputs, dict) else [inputs]
    return sum(int(tensor.nbytes) for tensor in tensors)
