"""Detectors of unfamiliar features, one set for each member of an ensemble.

Every member has features of its own, so that detectors are fitted for each and their
scores averaged. Features are taken from the passes that evaluation makes anyway.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, NamedTuple, Self, final

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from tepui.core.checks import one_of, require
from tepui.data.loading import at_rows, length
from tepui.ensembles.ensemble import Ensemble
from tepui.ensembles.predicted import require_classes
from tepui.evaluation.dataset_logits import logit_batches
from tepui.metrics import (
    FeatureScore,
    HeldOutScores,
    Mahalanobis,
    NearestNeighbor,
    ViM,
)
from tepui.modules.running import device_of, evaluating
from tepui.sharpness.last_layer import classifier_of

Batches = Iterator[tuple[Tensor, Tensor]]
HELD_OUT = "held_out"  # marks what held-out samples scored, in a file
# Distances see how far out a sample lies; neighbors of length one do not.
DEFAULT_SCORE: FeatureScore = "mahalanobis"


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
    """

    members: tuple[MemberDetectors, ...]
    held_out: HeldOutScores | None = None

    @classmethod
    def fit(
        cls,
        ensemble: Ensemble,
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
            ensemble: Its members end in a linear layer, whose inputs are the features.
            dataset: The training data, as they are without augmentation.
            held_out: Data that members were not trained on. What they score tells how
                unfamiliar others are, see :meth:`unfamiliarity`.
            num_samples: How many of them are looked at most, evenly spaced; each
                member keeps that many features, for their neighbors.
            k: Which neighbor counts, see :class:`tepui.metrics.NearestNeighbor`.
            batch_size: How many samples go through a member at once.
            workers: Processes that load a data set not held in tensors.

        Returns:
            What ``evaluate`` takes as ``detectors``.

        Raises:
            ValueError: If a member does not end in a linear layer, or outputs are not
                logits of classes.

        Example:
            >>> import tepui
            >>> data = tepui.data.Arrays(torch.randn(30, 4), torch.arange(30) % 3)
            >>> ensemble = Ensemble.build(lambda: torch.nn.Linear(4, 3), members=2)
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
        size, device = length(dataset), device_of(ensemble)
        rows = torch.linspace(0, size - 1, min(size, num_samples)).long().unique()
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
        fitted = cls(tuple(_fitted(module, x, answers, k) for module, x in members))
        if held_out is None:
            return fitted
        found = scores_on(ensemble, held_out, fitted, batch_size, workers)
        return replace(fitted, held_out=HeldOutScores.fit(found, DEFAULT_SCORE))

    def unfamiliarity(
        self,
        ensemble: Ensemble,
        dataset: Dataset[Any],
        score: FeatureScore = DEFAULT_SCORE,
        *,
        batch_size: int = 1024,
        workers: int = 0,
    ) -> Tensor:
        """Return how much of what was held out looks more familiar than each sample.

        Of samples like the held-out ones, one in a hundred reaches 0.99.

        Args:
            ensemble: For whom the detectors were fitted.
            dataset: The samples.
            score: Which detector's score.
            batch_size: How many samples go through a member at once.
            workers: Processes that load a data set not held in tensors.

        Returns:
            Shares in [0, 1], ``(samples,)``.

        Raises:
            ValueError: If the detectors were given no held-out data.
        """
        one_of("score", score, MemberDetectors._fields)
        if self.held_out is None:
            raise ValueError(
                "detectors must be fitted with held-out data, held_out=, to know "
                "unfamiliar samples"
            )
        found = scores_on(ensemble, dataset, self, batch_size, workers)
        return self.held_out.share_below(score, found[score])

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
            for name, quantiles in self.held_out.quantiles.items():
                yield f"{HELD_OUT}.{name}", quantiles

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Read what :meth:`tensors` and :meth:`numbers` returned together.

        Args:
            values: Tensors and numbers by name.

        Returns:
            The detectors.
        """
        owners = {name.partition(".")[0] for name in values}
        count = len(owners - {HELD_OUT})
        members = tuple(_stored_member(values, index) for index in range(count))
        return cls(members, _stored_scores(values) if HELD_OUT in owners else None)


class Watched:
    """Batches of an ensemble's logits, whose features are scored as they go by."""

    def __init__(
        self,
        detectors: FeatureDetectors,
        seen: Callable[[], list[Tensor]],
        batches: Callable[[Any], Batches],
    ) -> None:
        self.detectors, self.seen, self.batches = detectors, seen, batches
        self.rows: list[dict[str, Tensor]] = []

    def __call__(self, data: Any) -> Batches:
        """Yield the batches of a data set, or of some of its rows."""
        self.rows = []
        for logits, labels in self.batches(data):
            self.rows.append(self.detectors.scores(self.seen(), logits))
            yield logits, labels

    def scores(self) -> dict[str, Tensor]:
        """Return the scores of the last data set."""
        names = self.rows[0] if self.rows else {}
        return {name: torch.cat([row[name] for row in self.rows]) for name in names}


@contextmanager
def watching(
    ensemble: Ensemble,
    detectors: FeatureDetectors,
    batches: Callable[[Any], Batches],
) -> Iterator[Watched]:
    """Score the features of all batches that go by inside the block."""
    members = len(ensemble)
    rule = f"be fitted for an ensemble of {members} members"
    fits = len(detectors.members) == members
    require(fits, "detectors", rule, len(detectors.members))
    with last_inputs(ensemble) as seen:
        yield Watched(detectors, seen, batches)


def scores_on(
    ensemble: Ensemble,
    dataset: Dataset[Any],
    detectors: FeatureDetectors,
    batch_size: int = 1024,
    workers: int = 0,
) -> dict[str, Tensor]:
    """Return what detectors say of every sample of a data set."""
    batches = partial(logit_batches, ensemble, dataset, batch_size, workers, "tf32")
    with watching(ensemble, detectors, batches) as watched:
        for _ in watched(None):
            pass
        return watched.scores()


def scores_of(watched: Watched | None) -> dict[str, Tensor]:
    """Return the scores of the last data set, none where nothing is watched."""
    return {} if watched is None else watched.scores()


@contextmanager
def last_inputs(ensemble: Ensemble) -> Iterator[Callable[[], list[Tensor]]]:
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


def _stored_scores(values: Mapping[str, Any]) -> HeldOutScores:
    names = MemberDetectors._fields
    found = {name: values[f"{HELD_OUT}.{name}"] for name in names}
    return HeldOutScores(found, DEFAULT_SCORE)


def _fitted(module: nn.Module, x: Tensor, labels: Tensor, k: int) -> MemberDetectors:
    layer = classifier_of(module)
    return MemberDetectors(
        Mahalanobis.fit(x, labels),
        NearestNeighbor.fit(x, k),
        ViM.fit(x, layer.weight, layer.bias),
    )
