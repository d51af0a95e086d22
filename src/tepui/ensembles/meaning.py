"""What an ensemble's outputs mean, and what held-out data made of them.

An ensemble and its heads share it: both hold the same members.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from torch import Tensor, nn
from torch.utils.data import Dataset

from tepui.core.checks import one_of, require
from tepui.core.warning import warn
from tepui.data.identity import fingerprint, same_data
from tepui.ensembles.feature_detectors import FeatureDetectors
from tepui.ensembles.outputs import dataset_logits
from tepui.metrics import (
    Calibration,
    CalibrationMethod,
    Conformity,
    HeldOutScores,
    IntervalScoreName,
    Rule,
    SetScore,
)
from tepui.metrics.conformal import check_coverage
from tepui.modules.running import device_of
from tepui.tasks.base import Promise, Task
from tepui.tasks.named import settled


@dataclass
class Meaning:
    """What is known of outputs beside the members themselves."""

    task: Task | None = None
    calibration: Calibration | None = None
    conformity: Conformity | None = None
    held_out_scores: HeldOutScores | None = None
    detectors: FeatureDetectors | None = None
    trained_on: tuple[str, ...] = ()
    calibrated_on: tuple[str, ...] = ()


def _shared(name: str) -> Any:
    """Return an attribute that an ensemble and its heads have together."""
    return property(
        lambda ensemble: getattr(ensemble._meaning, name),
        lambda ensemble, value: setattr(ensemble._meaning, name, value),
    )


class Meaningful(nn.Module):
    """A module whose outputs have a meaning, see :class:`Ensemble`.

    Attributes:
        members: The members.
        conformity: What makes sets and intervals of predictions, see :meth:`conformal`.
        held_out_scores: What the data last given to :meth:`calibrate` or
            :meth:`conformal` scored. It tells a prediction which inputs look
            unfamiliar; None where no data were given.
        detectors: Detectors of unfamiliar features, saved with the ensemble and loaded
            with it. Those that were given held-out data judge, with the outputs, which
            inputs of ``predict`` look unfamiliar; None where there are none.
        trained_on: By what ``fit`` knows its training data again; empty before it.
        calibrated_on: By what the data of :meth:`calibrate` and :meth:`conformal` are
            known again. Scores on the same data are of samples that these were fitted
            on.
    """

    members: nn.ModuleList
    conformity: Conformity | None = _shared("conformity")
    held_out_scores: HeldOutScores | None = _shared("held_out_scores")
    detectors: FeatureDetectors | None = _shared("detectors")
    trained_on: tuple[str, ...] = _shared("trained_on")
    calibrated_on: tuple[str, ...] = _shared("calibrated_on")

    def __init__(self) -> None:
        super().__init__()
        self._meaning = Meaning()

    def extra_repr(self) -> str:
        """Return what is known of the ensemble, which is printed above its layers."""
        known = f"members={len(self.members)}, task={self.task}"
        if self.calibration is None:
            return known
        return f"{known}, calibration={self.calibration.method}"

    @property
    def task(self) -> Task | None:
        """What outputs mean: what the loss of ``fit`` says, or what is set here.

        None where nobody has said: two outputs or more per sample are then taken for
        logits of classes, and anything else is refused.
        """
        return self._meaning.task

    @task.setter
    def task(self, task: Task | None) -> None:
        fits = task is None or isinstance(task, Task)
        require(fits, "task", "be a tepui.Task (see tepui.tasks), or None", task)
        self._meaning.task = task

    @property
    def calibration(self) -> Calibration | None:
        """What ``predict`` applies to logits, see :meth:`calibrate`; None for nothing.

        To set it forgets the sets and intervals that :meth:`conformal` made, and what
        held-out samples scored, which hold for the probabilities as they were.
        """
        return self._meaning.calibration

    @calibration.setter
    def calibration(self, calibration: Calibration | None) -> None:
        self._meaning.calibration = calibration
        self.conformity = self.held_out_scores = None
        self.calibrated_on = ()

    def calibrate(
        self,
        dataset: Dataset[Any],
        method: CalibrationMethod = "temperature",
        *,
        rule: Rule = "probability",
        batch_size: int = 1024,
        workers: int = 0,
    ) -> Calibration:
        """Make probabilities mean what they say, by held-out data.

        From then on ``predict`` applies it, :meth:`save` keeps it and ``evaluate``
        shows what it changes. ``fit`` forgets it. What the data score is kept too, so
        that ``predict(…).unfamiliar()`` says which inputs look unlike them.

        Args:
            dataset: Data that members were not trained on, with labels.
            method: ``"temperature"``, one factor of all logits; ``"vector"``, a factor
                and an offset for each class or label; ``"isotonic"``, a rising map of
                each class's probability, which changes the ensemble's probabilities and
                leaves members, and so how far they disagree, as they are.
            rule: How members are combined, ``"probability"`` or ``"logit"``; it is the
                one to predict with.
            batch_size: How many samples go through a member at once.
            workers: Processes that load a data set of your own.

        Returns:
            The calibration, which is also :attr:`calibration`; None there undoes it.

        Raises:
            ValueError: If outputs are not logits of classes or labels, or the method is
                unknown or not one for labels, which have no ``"isotonic"``.

        Example:
            >>> import tepui, torch
            >>> data = tepui.data.Arrays(torch.randn(30, 4), torch.arange(30) % 3)
            >>> ensemble = tepui.Ensemble.build(lambda: nn.Linear(4, 3), members=2)
            >>> _ = ensemble.calibrate(data, "vector")
            >>> ensemble.predict(data.inputs).probs.shape
            torch.Size([30, 3])
        """
        one_of("method", method, get_args(CalibrationMethod))
        held = held_out(self, dataset, self.task, self.trained_on, batch_size, workers)
        if self.conformity is not None:
            warn(
                "the sets that were promised belong to probabilities before this "
                "calibration and are dropped: call conformal again, on other data"
            )
        self.calibration = held.task.fit_calibration(
            held.outputs, held.targets, method, rule
        )
        self.held_out_scores = fitted_scores(held)
        self.calibrated_on = held.hashes
        return self.calibration

    def conformal(
        self,
        dataset: Dataset[Any],
        coverage: float = 0.9,
        score: SetScore | IntervalScoreName | None = None,
        *,
        rule: Rule = "probability",
        seed: int | None = None,
        per: Literal["class"] | None = None,
        shift: Dataset[Any] | None = None,
        batch_size: int = 1024,
        workers: int = 0,
    ) -> Conformity:
        """Make sets of classes, or intervals of numbers, that hold as often as told.

        For new samples that are exchangeable with the held-out ones, ``sets`` and
        ``conformal_interval`` of a prediction hold the truth with a probability of at
        least ``coverage``. Under a shift they need not, as ``evaluate`` shows; weights
        keep the promise if only inputs are drawn otherwise, and answers to them are as
        before. Take other data than for :meth:`calibrate`, which must come first. What
        the data score is kept too, as :meth:`calibrate` does, in the place of its
        data's.

        Args:
            dataset: Data that members were not trained on, with targets.
            coverage: How often the truth shall be held, in (0, 1).
            score: Of classes ``"threshold"`` (the default) or ``"aps"``; of numbers
                ``"residual"``, ``"normalized"`` by the predicted standard
                deviation, or ``"quantile"``, by default what the task has. See
                :class:`tepui.metrics.ConformalSets` and
                :class:`tepui.metrics.ConformalIntervals`.
            rule: How members are combined; it is the one to predict with.
            seed: For ``"aps"``: derive a pseudo-random number from it
                and the sample's probabilities, so that the coverage is met closely.
            per: ``"class"`` makes the promise for each class by itself, not for their
                average. A class with too few samples for it is in every set.
            shift: Data like new ones, whose labels are not read: weigh samples by how
                much likelier they are among these, which is estimated from members'
                logits. Of weights that are known :class:`tepui.metrics.ConformalSets`
                makes sets.
            batch_size: How many samples go through a member at once.
            workers: Processes that load a data set of your own.

        Returns:
            What makes sets or intervals, which is also :attr:`conformity`.

        Raises:
            ValueError: If the coverage lies outside (0, 1), the score is not one of the
                task, or ``per`` and ``shift`` are both given, which are for classes.

        Example:
            >>> import tepui, torch
            >>> data = tepui.data.Arrays(torch.randn(30, 4), torch.arange(30) % 3)
            >>> ensemble = tepui.Ensemble.build(lambda: nn.Linear(4, 3), members=2)
            >>> _ = ensemble.conformal(data, coverage=0.8)
            >>> ensemble.predict(data.inputs).sets.shape
            torch.Size([30, 3])
        """
        check_coverage(coverage)
        one_of("rule", rule, get_args(Rule))
        self._check_rule(rule)
        held = held_out(self, dataset, self.task, self.trained_on, batch_size, workers)
        before = () if self.calibration is None else self.calibrated_on
        others = None
        if shift is not None:
            others, _ = dataset_logits(self, shift, batch_size, workers, "float32")
        promise = Promise(coverage, score, rule, seed, self.calibration, per, others)
        given = held.outputs, held.targets
        self.conformity = held.task.fit_conformity(*given, promise)
        self.calibrated_on = (*before, *held.hashes)
        self.held_out_scores = fitted_scores(held)
        return self.conformity

    @property
    def judges(self) -> FeatureDetectors | None:
        """The detectors that tell unfamiliar inputs, where the members lie, if any."""
        if self.detectors is None or self.detectors.held_out is None:
            return None
        self.detectors = self.detectors.to(device_of(self))
        return self.detectors

    @property
    def judged_by(self) -> HeldOutScores | None:
        """What held-out samples scored, of features too where there are detectors."""
        by_features = None if self.detectors is None else self.detectors.held_out
        return by_features or self.held_out_scores

    def _check_rule(self, rule: Rule) -> None:
        if self.calibration is not None:
            own = self.calibration.rule
            wanted = f"be {own!r}, for which the ensemble is calibrated"
            fits = rule == own
            require(fits, "rule", f"{wanted} (calibration = None undoes it)", rule)


def learned_of(ensemble: Meaningful) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return what held-out data made of outputs, as a file keeps it beside members."""
    parts = ("calibration", "conformity", "held_out_scores")
    document: dict[str, Any] = dict.fromkeys(parts)
    tensors: dict[str, Tensor] = {}
    calibration, conformity = ensemble.calibration, ensemble.conformity
    if calibration is not None:
        how = {"method": calibration.method, "rule": calibration.rule}
        document["calibration"] = how
        tensors |= _named("calibration", calibration.tensors())
    if conformity is not None:
        document["conformity"] = conformity.document()
        tensors |= _named("conformity", conformity.tensors())
    scores = ensemble.held_out_scores
    if scores is not None:
        document["held_out_scores"] = {"names": list(scores.names)}
        tensors["held_out_scores.scores"] = scores.scores
    if ensemble.calibrated_on:
        document["calibrated_on"] = list(ensemble.calibrated_on)
    return document, tensors


def _named(owner: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{owner}.{name}": tensor for name, tensor in tensors.items()}


class HeldOut(NamedTuple):
    """An ensemble's outputs on held-out data, with the targets."""

    outputs: Tensor
    targets: Tensor
    task: Task
    hashes: tuple[str, ...] = ()  # by which the data are known again


def held_out(
    ensemble: nn.Module,
    dataset: Dataset[Any],
    task: Task | None,
    trained_on: Sequence[str],
    batch_size: int,
    workers: int,
) -> HeldOut:
    """Return outputs and targets; warn if members were trained on these data."""
    hashes = fingerprint(dataset)
    if same_data(trained_on, hashes):
        warn(
            "dataset holds the training data, on which members are surer than on "
            "others; take data that they have not seen",
        )
    found = dataset_logits(ensemble, dataset, batch_size, workers, "float32")
    return HeldOut(*found, settled(task, tuple(found[0].shape)), hashes)


def fitted_scores(held: HeldOut) -> HeldOutScores | None:
    """Return what held-out samples score; None where nothing can tell them apart."""
    predicted = held.task.prediction(held.outputs)
    if not predicted.judging:
        return None
    return HeldOutScores.fit(predicted.scores(predicted.judging))
