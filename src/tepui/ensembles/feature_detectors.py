"""Detectors of unfamiliar features, one set for each member of an ensemble.

Every member has features of its own, so that detectors are fitted for each and their
scores averaged. Features are taken from the passes that predictions make anyway.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Self, final

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.core.evenly_spaced import evenly_spaced
from tepui.core.precision import computing_in
from tepui.data.loading import at_rows, in_order, length
from tepui.ensembles.base import EnsembleBase
from tepui.metrics import (
    FeatureScore,
    HeldOutScores,
    Mahalanobis,
    NearestNeighbor,
    ViM,
)
from tepui.modules.last_linear import classifier_of
from tepui.modules.running import device_of, evaluating
from tepui.modules.state import weights_digest
from tepui.tasks.base import require_classes
from tepui.tasks.named import settled
from tepui.tasks.probabilities import JUDGING as JUDGING_OUTPUTS

HELD_OUT = "held_out"  # marks what held-out samples scored, in a file
# How far out a feature lies, and in which direction; ViM has no third thing to say.
JUDGING: tuple[FeatureScore, ...] = ("mahalanobis", "nearest_neighbor")


class MemberDetectors(NamedTuple):
    """The detectors of one member."""

    mahalanobis: Mahalanobis
    nearest_neighbor: NearestNeighbor
    vim: ViM


@final
@dataclass(frozen=True, eq=False)
class FeatureDetectors:
    """Three detectors of unfamiliar features, averaged over the members.

    Attributes:
        members: The detectors of each member, in their order.
        held_out: What held-out samples scored, where some were given.
        fitted_for: A hash of the weights that the members had.
    """

    members: tuple[MemberDetectors, ...]
    held_out: HeldOutScores | None = None
    fitted_for: str = ""

    def __repr__(self) -> str:
        return f"FeatureDetectors({len(self.members)} members)"

    @classmethod
    def fit(
        cls,
        ensemble: EnsembleBase,
        dataset: Dataset[Any],
        *,
        held_out: Dataset[Any] | None = None,
        num_samples: int = 10_000,
        k: int = 50,
        batch_size: int = 1024,
        workers: int = 0,
    ) -> Self:
        """Learn what features of training data look like.

        Args:
            ensemble: An ensemble whose members end in a linear layer, the inputs of
                which are the features.
            dataset: The training data, as they are without augmentation.
            held_out: Data that members were not trained on. What they score tells how
                unfamiliar others are, see :meth:`tepui.Prediction.unfamiliarity`.
            num_samples: How many of them are looked at most, evenly spaced; each
                member keeps that many features, for their neighbors.
            k: Which neighbor counts, see :class:`tepui.metrics.NearestNeighbor`.
            batch_size: How many samples go through a member at once.
            workers: Processes that load a data set not held in tensors.

        Returns:
            What ``evaluate`` takes as ``detectors``, and what makes predictions judge
            by features: ``ensemble.detectors = …``.

        Raises:
            ValueError: If a member does not end in a linear layer, or outputs are not
                logits of classes.

        Example:
            >>> import tepui
            >>> data = tepui.data.Arrays(torch.randn(30, 4), torch.arange(30) % 3)
            >>> ensemble = tepui.Ensemble.build(lambda: nn.Linear(4, 3), members=2)
            >>> from tepui.evaluation import FeatureDetectors
            >>> detectors = FeatureDetectors.fit(ensemble, data, k=3)
            >>> far = {"far": tepui.data.Arrays(data.inputs + 9, data.targets)}
            >>> found = tepui.evaluate(ensemble, data, ood=far, detectors=detectors)
            >>> far = found.ood["far"]
            >>> far["mahalanobis"].auroc
            1.0
        """
        require_classes(ensemble.task, "detectors of features")
        require(num_samples > 0, "num_samples", "be positive", num_samples)
        device = device_of(ensemble)
        rows = evenly_spaced(length(dataset), num_samples)
        batches = at_rows(
            dataset, rows.split(batch_size), device=device, workers=workers
        )
        features: list[list[Tensor]] = [[] for _ in ensemble.members]
        labels: list[Tensor] = []
        with last_inputs(ensemble) as seen, evaluating(ensemble), torch.no_grad():
            for batch in batches:
                ensemble(batch.inputs)
                for kept, new in zip(features, seen(), strict=True):
                    kept.append(new)
                labels.append(batch.targets)
        answers = torch.cat(labels)
        joined = (torch.cat(parts) for parts in features)
        members = zip(ensemble.members, joined, strict=True)
        found = tuple(_fitted(module, x, answers, k) for module, x in members)
        fitted = cls(found, fitted_for=weights_digest(ensemble))
        if held_out is None:
            return fitted
        scored = scores_on(ensemble, held_out, fitted, batch_size, workers)
        return replace(fitted, held_out=HeldOutScores.fit(scored))

    def scores(self, features: list[Tensor], logits: Tensor) -> dict[str, Tensor]:
        """Return each score's mean over members.

        Args:
            features: Those of each member, ``(samples, features)``.
            logits: Logits of shape ``(members, samples, classes)``.

        Returns:
            Scores of shape ``(samples,)`` by name.
        """
        rows = [
            (
                own.mahalanobis.score(x),
                own.nearest_neighbor.score(x),
                own.vim.score(x, outputs),
            )
            for own, x, outputs in zip(self.members, features, logits, strict=True)
        ]
        columns = zip(*rows, strict=True)
        means = (torch.stack(column).mean(0) for column in columns)
        return dict(zip(MemberDetectors._fields, means, strict=True))

    def tensors(self) -> dict[str, Tensor]:
        """Return what a file keeps, by name."""
        return {name: v for name, v in self._values() if isinstance(v, Tensor)}

    def numbers(self) -> dict[str, float]:
        """Return what a file keeps beside tensors, by name."""
        return {
            n: value for n, value in self._values() if not isinstance(value, Tensor)
        }

    def _values(self) -> Iterator[tuple[str, Any]]:
        for index, member in enumerate(self.members):
            for name, detector in member._asdict().items():
                for item in fields(detector):
                    yield f"{index}.{name}.{item.name}", getattr(detector, item.name)
        if self.held_out is not None:
            yield f"{HELD_OUT}.scores", self.held_out.scores

    @classmethod
    def of(cls, values: Mapping[str, Any], fitted_for: str) -> Self:
        """Read what :meth:`tensors` and :meth:`numbers` returned together.

        Args:
            values: Tensors and numbers by name.
            fitted_for: A hash of the weights that the members had.

        Returns:
            The detectors.
        """
        owners = {name.partition(".")[0] for name in values}
        count = len(owners - {HELD_OUT})
        members = tuple(_stored_member(values, index) for index in range(count))
        scores = values.get(f"{HELD_OUT}.scores")
        names = tuple(sorted((*JUDGING_OUTPUTS, *JUDGING)))
        held_out = None if scores is None else HeldOutScores(names, scores)
        return cls(members, held_out, fitted_for)

    def to(self, device: torch.device) -> Self:
        """Return the detectors on a device, themselves if they lie there.

        Args:
            device: Where features to score will lie.

        Returns:
            The detectors.
        """
        tensors = self.tensors()
        if all(tensor.device == device for tensor in tensors.values()):
            return self
        moved = {name: tensor.to(device) for name, tensor in tensors.items()}
        return self.of({**moved, **self.numbers()}, self.fitted_for)


def scores_on(
    ensemble: EnsembleBase,
    dataset: Dataset[Any],
    detectors: FeatureDetectors,
    batch_size: int = 1024,
    workers: int = 0,
) -> dict[str, Tensor]:
    """Return what outputs and detectors say of every sample of a data set."""
    device, rows = device_of(ensemble), []
    batches = in_order(dataset, batch_size, device=device, workers=workers)
    with scoring(ensemble, detectors) as scores, torch.no_grad():
        for batch in batches:
            with evaluating(ensemble), computing_in("tf32", device):
                outputs = ensemble(batch.inputs).float()
            predicted = settled(ensemble.task, tuple(outputs.shape)).prediction(outputs)
            found = scores(outputs)
            by_features = {name: found[name] for name in JUDGING}
            rows.append(predicted.scores(predicted.judging) | by_features)
    return joined_scores(rows)


@contextmanager
def scoring(
    ensemble: EnsembleBase, detectors: FeatureDetectors | None
) -> Iterator[Callable[[Tensor], dict[str, Tensor]]]:
    """Give a function of a batch's logits that scores its features.

    To be called after each pass; without detectors there are no scores.
    """
    if detectors is None:
        yield lambda _: {}
        return
    members = len(ensemble.members)
    rule = f"be fitted for an ensemble of {members} members"
    fits = len(detectors.members) == members
    require(fits, "detectors", rule, len(detectors.members))
    here = detectors.to(device_of(ensemble))
    with last_inputs(ensemble) as seen:
        yield lambda logits: here.scores(seen(), logits)


def joined_scores(rows: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the scores of all batches, by name."""
    names = rows[0] if rows else {}
    return {name: torch.cat([row[name] for row in rows]) for name in names}


@contextmanager
def last_inputs(ensemble: EnsembleBase) -> Iterator[Callable[[], list[Tensor]]]:
    """Give a function that returns what each member's last layer last took."""
    taken: dict[int, Tensor] = {}

    def note(number: int) -> Callable[[nn.Module, Any], None]:
        def hook(_: nn.Module, arguments: Any) -> None:
            taken[number] = arguments[0].detach().float()

        return hook

    def seen() -> list[Tensor]:
        features = [taken[number] for number in range(len(ensemble.members))]
        shapes = [tuple(item.shape) for item in features]
        flat = all(item.ndim == 2 for item in features)
        rule = "take (samples, features) in members' last linear layers"
        require(flat, "ensemble", rule, shapes)
        return features

    with ExitStack() as stack:
        for number, member in enumerate(ensemble.members):
            handle = classifier_of(member).register_forward_pre_hook(note(number))
            stack.callback(handle.remove)
        yield seen


def _stored_member(values: Mapping[str, Any], index: int) -> MemberDetectors:
    kinds = MemberDetectors.__annotations__.items()
    made = (
        kind(**{f.name: values[f"{index}.{name}.{f.name}"] for f in fields(kind)})
        for name, kind in kinds
    )
    return MemberDetectors(*made)


def _fitted(module: nn.Module, x: Tensor, labels: Tensor, k: int) -> MemberDetectors:
    layer = classifier_of(module)
    return MemberDetectors(
        Mahalanobis.fit(x, labels),
        NearestNeighbor.fit(x, k),
        ViM.fit(x, layer.weight, layer.bias),
    )
