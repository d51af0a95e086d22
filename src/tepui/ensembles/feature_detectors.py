"""Detectors of unfamiliar samples: by the features of members, and by rows of numbers.

Every member has features of its own, so that detectors are fitted for each and their
scores averaged. Features are taken from the passes that predictions make anyway. Of
inputs that are rows of numbers the distance from the training rows counts too, for any
task: far out members may all be sure, and alike.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, final

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.core.evenly_spaced import evenly_spaced
from tepui.core.storage import read_tensors, reading, write_tensors
from tepui.core.warning import warn
from tepui.data.loading import length
from tepui.ensembles.outputs import logit_batches
from tepui.metrics import (
    HeldOutScores,
    Mahalanobis,
    NearestNeighbor,
)
from tepui.metrics.chunks import wide
from tepui.modules.running import classifier_of, device_of
from tepui.modules.state import weights_digest
from tepui.tasks.named import settled

if TYPE_CHECKING:
    from tepui.ensembles.ensemble import Ensemble

DETECTORS = "detectors.safetensors"
DETECTORS_KIND = "detectors"
# What a file has beside members: distances of rows, and what held-out samples scored.
ROWS, HELD_OUT = "rows", "held_out"
DISTANCE = "distance"
# Features whose correlations are learned, in seconds; of more each counts by itself.
WIDEST = 1000


@final
@dataclass(frozen=True, eq=False)
class RowDistance:
    """Squared distance from the mean of training rows, in units of their spread.

    The spread is that of :class:`tepui.metrics.Mahalanobis` with a single class; of
    more than 1000 columns, that of each column by itself.

    Attributes:
        center: The mean, ``(columns,)``.
        whitening: What makes the spread the identity, ``(columns, columns)``; or one
            factor per column.
    """

    center: Tensor
    whitening: Tensor

    @classmethod
    def fit(cls, rows: Tensor) -> Self:
        """Learn mean and spread of training rows, ``(samples, columns)``."""
        if rows.shape[1] <= WIDEST:
            one = torch.zeros(len(rows), dtype=torch.long, device=rows.device)
            spread = Mahalanobis.fit(rows, one)
            return cls(spread.center, spread.whitening)
        values = wide(rows)
        scale = values.std(0, correction=0)
        return cls(values.mean(0), 1 / torch.where(scale > 0, scale, 1.0))

    def score(self, rows: Tensor) -> Tensor:
        """Return the distances of other rows, ``(samples,)``."""
        moved = wide(rows) - self.center
        flat = self.whitening.ndim == 1
        white = moved * self.whitening if flat else moved @ self.whitening
        return white.square().sum(1)


# The detectors of a member's features, and of rows of numbers.
OF_MEMBERS = {
    "mahalanobis": Mahalanobis,
    "nearest_neighbor": NearestNeighbor,
}


@final
@dataclass(frozen=True, eq=False)
class FeatureDetectors:
    """Detectors of features, averaged over the members, and of rows of numbers.

    Attributes:
        members: The detectors of each member by name, in their order; empty unless
            members choose between classes.
        held_out: What held-out samples scored, where some were given.
        fitted_for: A hash of the weights that the members had.
        rows: How far rows of numbers lie out; None if inputs are something else.
    """

    members: tuple[Mapping[str, Any], ...] = ()
    held_out: HeldOutScores | None = None
    fitted_for: str = ""
    rows: RowDistance | None = None

    def __repr__(self) -> str:
        of_rows = "" if self.rows is None else ", rows"
        return f"FeatureDetectors({len(self.members)} members{of_rows})"

    @classmethod
    def fit(
        cls,
        ensemble: "Ensemble",
        dataset: Dataset[Any],
        *,
        held_out: Dataset[Any] | None = None,
        num_samples: int = 10_000,
        k: int = 50,
        batch_size: int = 1024,
        workers: int = 0,
    ) -> Self:
        """Learn what features of training data look like, and their rows.

        Args:
            ensemble: An ensemble of any task if inputs are rows of numbers. Members
                that choose between classes end in a linear layer, the inputs of which
                are the features.
            dataset: The training data, as they are without augmentation.
            held_out: Data that members were not trained on. What they score tells how
                unfamiliar others are, see :meth:`tepui.Prediction.unfamiliarity`.
            num_samples: How many of them are looked at most, evenly spaced; each
                member keeps that many features, for their neighbors.
            k: Which neighbor counts, see :class:`tepui.metrics.NearestNeighbor`.
            batch_size: How many samples go through a member at once.
            workers: Processes that load a data set of your own.

        Returns:
            What ``evaluate`` takes as ``detectors``, and what makes predictions judge
            by features: ``ensemble.detectors = …``.

        Raises:
            ValueError: If a member of classes does not end in a linear layer, or there
                are neither classes nor rows of numbers.

        Example:
            >>> import tepui
            >>> data = tepui.data.Arrays(torch.randn(30, 4), torch.arange(30) % 3)
            >>> ensemble = tepui.Ensemble.build(lambda: nn.Linear(4, 3), members=2)
            >>> from tepui.evaluation import FeatureDetectors
            >>> detectors = FeatureDetectors.fit(ensemble, data, k=3)
            >>> far = {"far": tepui.data.Arrays(data.inputs + 9, data.targets)}
            >>> ensemble.detectors = detectors
            >>> far = tepui.evaluate(ensemble, data, ood=far).ood["far"]
            >>> far["mahalanobis"].auroc
            1.0
        """
        require(num_samples > 0, "num_samples", "be positive", num_samples)
        of_classes = ensemble.task is None or ensemble.task.chooses is True
        rows = evenly_spaced(length(dataset), num_samples).split(batch_size)
        how: Any = {"workers": workers, "precision": "float32", "rows": rows}
        kept: list[Seen] = []
        labels: list[Tensor] = []
        with inputs_seen(ensemble, of_classes) as seen:
            for _, targets in logit_batches(ensemble, dataset, batch_size, **how):
                kept.append(seen())
                labels.append(targets)
        inputs = [x.rows for x in kept if x.rows is not None]
        rule = "choose between classes, or take rows of numbers, to have detectors"
        require(of_classes or bool(inputs), "ensemble", rule, str(ensemble.task))
        answers = torch.cat(labels)
        features = zip(*(x.features for x in kept), strict=True)
        fitted = cls(
            tuple(
                {
                    "mahalanobis": Mahalanobis.fit(x, answers),
                    "nearest_neighbor": NearestNeighbor.fit(x, k),
                }
                for x in map(torch.cat, features)
            ),
            fitted_for=weights_digest(ensemble),
            rows=RowDistance.fit(torch.cat(inputs)) if inputs else None,
        )
        if held_out is None:
            return fitted
        scored = scores_on(ensemble, held_out, fitted, batch_size, workers)
        return replace(fitted, held_out=HeldOutScores.fit(scored))

    def scores(
        self, features: Sequence[Tensor], rows: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return each score, the mean over members of those of features.

        Args:
            features: Those of each member, ``(samples, features)``.
            rows: The inputs, if they are rows of numbers.

        Returns:
            Scores of shape ``(samples,)`` by name.
        """
        given = [*zip(self.members, features, strict=False)]
        found = {}
        for name in OF_MEMBERS if given else ():
            each = [own[name].score(x) for own, x in given]
            found[name] = torch.stack(each).mean(0)
        if self.rows is not None:
            rule = "be rows of numbers, as those that detectors were fitted on"
            require(rows is not None, "inputs", rule, "others")
            assert rows is not None
            found[DISTANCE] = self.rows.score(rows)
        return found

    def tensors(self) -> dict[str, Tensor]:
        """Return what a file keeps, by name."""
        return {name: v for name, v in self._values() if isinstance(v, Tensor)}

    def document(self) -> dict[str, Any]:
        """Return what a file keeps beside tensors."""
        numbers = {n: v for n, v in self._values() if not isinstance(v, Tensor)}
        names = None if self.held_out is None else list(self.held_out.names)
        return {"ensemble": self.fitted_for, "numbers": numbers, HELD_OUT: names}

    def _values(self) -> Iterator[tuple[str, Any]]:
        owned = {} if self.rows is None else {ROWS: self.rows}
        for index, member in enumerate(self.members):
            owned |= {f"{index}.{name}": own for name, own in member.items()}
        for name, detector in owned.items():
            for item in fields(detector):
                yield f"{name}.{item.name}", getattr(detector, item.name)
        if self.held_out is not None:
            yield HELD_OUT, self.held_out.scores

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], document: Mapping[str, Any]) -> Self:
        """Read what :meth:`tensors` and :meth:`document` returned."""
        values, names = {**tensors, **document["numbers"]}, document[HELD_OUT]

        def stored(owner: str, kind: type[Any]) -> Any:
            return kind(**{f.name: values[f"{owner}.{f.name}"] for f in fields(kind)})

        count = len({name.partition(".")[0] for name in values} - {ROWS, HELD_OUT})
        return cls(
            tuple(
                {name: stored(f"{n}.{name}", kind) for name, kind in OF_MEMBERS.items()}
                for n in range(count)
            ),
            None if names is None else HeldOutScores(tuple(names), values[HELD_OUT]),
            document["ensemble"],
            stored(ROWS, RowDistance) if f"{ROWS}.center" in values else None,
        )

    def to(self, device: torch.device) -> Self:
        """Return the detectors on a device.

        Args:
            device: Where features to score will lie.

        Returns:
            The detectors.
        """
        moved = {name: tensor.to(device) for name, tensor in self.tensors().items()}
        return self.of(moved, self.document())


def scores_on(
    ensemble: "Ensemble",
    dataset: Dataset[Any],
    detectors: FeatureDetectors,
    batch_size: int = 1024,
    workers: int = 0,
) -> dict[str, Tensor]:
    """Return what outputs and detectors say of every sample of a data set."""
    rows = []
    with scoring(ensemble, detectors) as scores:
        for outputs, _ in logit_batches(ensemble, dataset, batch_size, workers):
            predicted = settled(ensemble.task, tuple(outputs.shape)).prediction(outputs)
            rows.append(predicted.scores(predicted.judging) | scores())
    return joined_scores(rows)


@contextmanager
def scoring(
    ensemble: "Ensemble", detectors: FeatureDetectors | None
) -> Iterator[Callable[[], dict[str, Tensor]]]:
    """Give a function that scores the features of a batch.

    To be called after each pass; without detectors there are no scores.
    """
    if detectors is None:
        yield dict
        return
    count, fitted = len(ensemble.members), len(detectors.members)
    rule = f"be fitted for an ensemble of {count} members"
    require(fitted in (count, 0), "detectors", rule, fitted)
    here = detectors.to(device_of(ensemble))
    with inputs_seen(ensemble, fitted > 0) as seen:
        yield lambda: here.scores(seen().features, seen().rows)


def joined_scores(rows: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the scores of all batches, by name."""
    names = rows[0] if rows else {}
    return {name: torch.cat([row[name] for row in rows]) for name in names}


class Seen(NamedTuple):
    """What an ensemble last took, and what each member's last layer took of it."""

    rows: Tensor | None  # inputs that are rows of numbers
    features: tuple[Tensor, ...]


@contextmanager
def inputs_seen(
    ensemble: "Ensemble", features: bool = True
) -> Iterator[Callable[[], Seen]]:
    """Give a function that returns what went through an ensemble last."""
    taken: dict[int, Any] = {}

    def note(number: int) -> Callable[[nn.Module, Any], None]:
        def hook(_: nn.Module, arguments: Any) -> None:
            taken[number] = arguments[0]

        return hook

    layers = [classifier_of(member) for member in ensemble.members] if features else []

    def seen() -> Seen:
        found = tuple(taken[n].detach().float() for n in range(len(layers)))
        flat = all(item.ndim == 2 for item in found)
        rule = "take (samples, features) in members' last linear layers"
        require(flat, "ensemble", rule, [tuple(item.shape) for item in found])
        rows = taken[-1]
        numeric = isinstance(rows, Tensor) and rows.is_floating_point()
        return Seen(rows if numeric and rows.ndim == 2 else None, found)

    with ExitStack() as stack:
        for number, module in enumerate((ensemble, *layers), -1):
            handle = module.register_forward_pre_hook(note(number))
            stack.callback(handle.remove)
        yield seen


def write_detectors(
    folder: Path, detectors: FeatureDetectors | None, ensemble: nn.Module
) -> None:
    """Write detectors into the folder of their ensemble, in the place of those there.

    Those that were fitted for other weights are left out, with a warning.
    """
    file = folder / DETECTORS
    if detectors is not None and detectors.fitted_for != weights_digest(ensemble):
        warn(
            "ensemble has other weights than those that its detectors were fitted for: "
            "they are not saved with it; fit them anew (FeatureDetectors.fit, tepui "
            "calibrate --detectors)"
        )
        detectors = None
    if detectors is None:
        file.unlink(missing_ok=True)
    else:
        write_tensors(file, DETECTORS_KIND, detectors.tensors(), detectors.document())


def read_detectors(folder: Path, ensemble: nn.Module) -> FeatureDetectors | None:
    """Return the detectors beside an ensemble, on its device; None if there are none.

    Those of other weights, or other types of numbers, are left out with a warning.
    """
    file = folder / DETECTORS
    if not file.exists():
        return None
    tensors, about = read_tensors(file, DETECTORS_KIND)
    if about.get("ensemble") != weights_digest(ensemble):
        warn(
            f"{file} is left out: it was fitted for other weights, or other types of "
            "numbers (tepui calibrate --detectors fits others)"
        )
        return None
    with reading(file, "detectors"):
        return FeatureDetectors.of(tensors, about).to(device_of(ensemble))
