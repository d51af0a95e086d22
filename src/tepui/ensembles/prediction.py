"""What an ensemble predicts, in the words of its task."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from tepui.core.checks import have_values, one_of, require
from tepui.core.counted import counted
from tepui.core.notebooks import ShownInNotebooks
from tepui.core.task import Task
from tepui.core.warning import warn
from tepui.metrics import Conformity, HeldOutScores
from tepui.metrics.held_out_scores import LEVEL, too_few, unfamiliar_at

# What the prediction of some task has, and those of others may lack.
FIELDS = frozenset(
    {
        *("logits", "probs", "labels", "label_names", "confidence", "ood_score"),
        *("total_uncertainty", "aleatoric", "epistemic", "spread"),
        *("mean", "median", "std", "quantiles", "interval"),
        *("sets", "conformal_interval", "in_units"),
    }
)


class TaskLacksError(AttributeError):
    """A prediction was asked for something that its task does not have."""


@dataclass(frozen=True, eq=False, repr=False)
class Prediction(ShownInNotebooks, ABC):
    """What an ensemble predicts for some inputs.

    Which further attributes there are depends on the task: :class:`ClassPrediction`,
    :class:`LabelPrediction`, :class:`NumberPrediction`, :class:`GaussianPrediction`,
    :class:`QuantilePrediction`, :class:`OutputPrediction`. To ask for one that a task
    lacks is an ``AttributeError`` that names those it has; printing a prediction sums
    it up.

    Attributes:
        outputs: Outputs of every member, ``(members, samples, outputs, …)``.
        task: What they mean.
        conformity: What makes sets or intervals of them, where the ensemble was given
            data for it.
        held_out_scores: What held-out samples scored, where the ensemble was given
            some.
        feature_scores: What detectors say of the inputs' features, by the name of the
            score, ``(samples,)`` each, where the ensemble has detectors.
    """

    outputs: Tensor
    task: Task = field(kw_only=True)
    conformity: Conformity | None = field(default=None, kw_only=True)
    held_out_scores: HeldOutScores | None = field(default=None, kw_only=True)
    feature_scores: Mapping[str, Tensor] = field(default_factory=dict, kw_only=True)
    fields: ClassVar[tuple[str, ...]]  # what this task has, in the order to name it

    def __post_init__(self) -> None:
        check_outputs(self.outputs)

    def __len__(self) -> int:
        return self.outputs.shape[1]

    @property
    def members(self) -> int:
        """How many members predict."""
        return len(self.outputs)

    @property
    @abstractmethod
    def default_score(self) -> str | None:
        """The score by which inputs look unfamiliar; None where there is none."""

    @abstractmethod
    def scores(self, names: Sequence[str] | None = None) -> dict[str, Tensor]:
        """Score how unfamiliar each input looks; higher means less familiar.

        Args:
            names: Which scores; all that the task has if not given.

        Returns:
            Scores of shape ``(samples,)`` by name.
        """

    def unfamiliarity(self, score: str | None = None) -> Tensor:
        """Return how much of what was held out looks more familiar than each input.

        Half of the held-out samples look more familiar than a usual input, and all of
        them more than one that is unlike the data. Scores of outputs see where members
        disagree or are unsure; inputs so far out that members are all sure of the same
        are seen by features alone, see :attr:`tepui.Ensemble.detectors`.

        Args:
            score: By which score; None takes ``"mahalanobis"`` where the ensemble has
                detectors of features, else that of the task: ``"pds"`` of classes,
                ``"mutual_information"`` of labels (both ``"entropy"`` of one member),
                ``"epistemic"`` of numbers.

        Returns:
            Shares in [0, 1], ``(samples,)``.

        Raises:
            ValueError: If the ensemble was given no held-out data, or the task has no
                such score.
        """
        held = self.held_out_scores
        if held is None:
            rule = "be given held-out data first, by calibrate or conformal"
            if self.default_score is None:
                rule = "say what outputs mean, and for numbers have two members or more"
            raise ValueError(f"ensemble must {rule}, to know unfamiliar inputs")
        name = held.default if score is None else score
        one_of("score", name, held.quantiles)
        if name in self.feature_scores:
            return held.share_below(name, self.feature_scores[name])
        return held.share_below(name, self.scores([name])[name])

    def unfamiliar(self, level: float = LEVEL, score: str | None = None) -> Tensor:
        """Return which inputs look unlike the data that the ensemble knows.

        Args:
            level: Which share of the held-out samples must look more familiar. Of
                inputs like those about ``1 - level`` are called unfamiliar too: false
                alarms, one in a hundred by default, and no fewer than one in ``n + 1``
                with ``n`` held-out samples: where that is more, a warning says so.
            score: As for :meth:`unfamiliarity`.

        Returns:
            Truth values, ``(samples,)``.

        Raises:
            ValueError: As :meth:`unfamiliarity`, or if the level lies outside (0, 1].
        """
        found = unfamiliar_at(level, self.unfamiliarity(score))
        held = self.held_out_scores
        assert held is not None
        samples = len(held.quantiles[held.default if score is None else score])
        if (warning := too_few(level, samples)) is not None:
            warn(warning)
        return found

    def __getattr__(self, name: str) -> Any:
        if name not in FIELDS:
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}"
            )
        raise TaskLacksError(
            f"a prediction of the task {str(self.task)!r} has no {name}"
            f"{self.missing(name)}; it has {', '.join(self.fields)}"
        )

    def missing(self, name: str) -> str:
        """Return why a field is missing, to follow its name; nothing by default."""
        return ""

    def __repr__(self) -> str:
        samples, members = self._counts()
        return f"{type(self).__name__}({samples}, {members})"

    def __str__(self) -> str:
        samples, members = self._counts()
        title = f"{samples}, predicted by {members} ({self.task})"
        rows = self.summary()
        width = max(map(len, rows), default=0)
        return "\n".join([title, *(f"  {k:<{width}}  {v}" for k, v in rows.items())])

    def _counts(self) -> tuple[str, str]:
        return counted(len(self), "sample"), counted(self.members, "member")

    @abstractmethod
    def summary(self) -> dict[str, str]:
        """Return what a person wants to know first, a line of text by its name."""


def check_outputs(outputs: Tensor) -> None:
    """Check that outputs are ``(members, samples, …)``, floating and not NaN."""
    rule = "have shape (members, samples, outputs, …)"
    require(outputs.ndim >= 2, "outputs", rule, tuple(outputs.shape))
    require(outputs.is_floating_point(), "outputs", "be floating point", outputs.dtype)
    shape = tuple(outputs.shape)
    rule = "hold at least one member, one sample and one output"
    require(outputs.numel() > 0, "outputs", rule, shape)
    if not have_values():
        return
    if torch.isnan(outputs.detach().sum()) and (bad := torch.isnan(outputs)).any():
        member, sample = bad.nonzero()[0, :2].tolist()
        raise ValueError(
            f"outputs must not be NaN, got {int(bad.sum())} NaN value(s), the first at "
            f"member {member}, sample {sample}"
        )


def some(values: Tensor) -> str:
    """Return the first values of a tensor as text."""
    flat = values.detach().flatten()
    shown = [f"{value:.4g}" for value in flat[:8].tolist()]
    return " ".join(shown) + (" …" if len(flat) > len(shown) else "")


def mean_and_largest(per_sample: Tensor) -> str:
    """Return the mean of some scores, and which samples have the largest."""
    scores = (
        per_sample.detach().flatten(1).mean(1) if per_sample.ndim > 1 else per_sample
    )
    top = scores.topk(min(3, len(scores))).indices.tolist()
    named = ", ".join(map(str, top))
    return f"mean {float(scores.mean()):.4g}; largest for sample {named}"
