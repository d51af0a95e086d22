"""A run: what it learned from, with what, what came of it, and what is done with it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, final

import torch
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.core.text import ShownInNotebooks, counted, listed
from tepui.core.warning import warn
from tepui.data import ImageFiles, Table, sources, split
from tepui.data.identity import fingerprint
from tepui.data.labels import unlabeled
from tepui.data.loading import length
from tepui.data.shifts import NATURAL
from tepui.data.sources import Source, kind_of, named, options_given
from tepui.ensembles.ensemble import FILE, Ensemble
from tepui.ensembles.feature_detectors import FeatureDetectors
from tepui.ensembles.loading import meaning_in
from tepui.evaluation.cost import write_cost
from tepui.evaluation.evaluate import evaluate
from tepui.evaluation.evaluations import (
    calibration_digest,
    forget_applied,
    is_evaluated,
    read_evaluation,
)
from tepui.evaluation.gallery import FILE as GALLERY
from tepui.evaluation.gallery import write_gallery
from tepui.evaluation.measure import EnsembleMeasurement, measure
from tepui.evaluation.predictions import (
    NewSamples,
    Written,
    check_new,
    names_in,
    of_readable,
    write_predictions,
)
from tepui.evaluation.results import Evaluation
from tepui.metrics.held_out_scores import LEVEL
from tepui.modules.state import maker_of
from tepui.tasks import Prediction
from tepui.training.history import EpochRecord, Told
from tepui.training.numerics import place_of
from tepui.training.prepare import to_device
from tepui.training.progress import Style
from tepui.training.recorded_run import HEADS, RecordedRun
from tepui.training.spec import ExecutionSpec

Held = Literal["validation", "test"]
Score = Literal["threshold", "aps", "residual", "normalized", "quantile"]
OTHER_CLASSES = "labels are left out: they number other classes than the run's"


@dataclass(frozen=True)
class Calibrated:
    """What held-out data were used for.

    Attributes:
        held: The samples that probabilities were calibrated on; None if they were not.
        promised: Those that sets or intervals were made by.
        trained: Those that detectors learned from.
        dropped: What there was before, and is not any more.
        outdated: Whether there is an evaluation from before.
    """

    held: Dataset[Any] | None
    promised: Dataset[Any] | None
    trained: Dataset[Any] | None
    dropped: tuple[str, ...]
    outdated: bool


@final
class Run(RecordedRun, ShownInNotebooks):
    """A run, in memory or in its folder; what lies there is read when it is asked for.

    The folder of an ensemble that was saved without a run is one too, which does not
    say what its members learned from. Data are named by a data set, by what makes one
    (``CIFAR10``, ``partial(ImageFolder, path="photos")``), or as on the command line
    (``"ImageFolder(path=photos)"``); without a name they are those of the run.

    Attributes:
        path: The folder, if there is one.
        loading: Makes the ensemble when it is asked for; by default :func:`tepui.load`.
        trained_by: What trains a run, :func:`tepui.training.train`, which makes runs.
    """

    trained_by: ClassVar[Callable[..., "Run"]]

    @property
    def evaluations(self) -> dict[str, Any]:
        """The scores that are kept, by the name of the data; empty without any."""
        if not is_evaluated(self._there):
            return {}
        found = read_evaluation(self._there)
        scores = {"clean": found["clean"], "corrupted": found["shifted"]}
        cells = [cell for cell in found["cells"] if cell["severity"] == NATURAL]
        scores |= {cell["type"]: cell for cell in cells} | found["ood"]
        return {name: each for name, each in scores.items() if each}

    def samples(
        self,
        inputs: str | Path | None = None,
        source: Source | None = None,
        carry: str | Sequence[str] = (),
    ) -> NewSamples:
        """Return new samples, what they are called, and what is missing of them.

        Args:
            inputs: A file or folder.
            source: What makes a data set instead; by default that of the run.
            carry: Columns of a table to carry over.
        """
        known = self.preparation
        made_by = None if source is None else named(source)
        if inputs is not None:
            rule = f"be left out, since {self.path} does not say how its training data "
            rule += "were prepared: name a data set that prepares them, --data "
            require(known is not None, "inputs", f"{rule}mypackage.MyData", str(inputs))
            assert known is not None
            data = known.apply(inputs, targets=False)
        elif made_by is None:
            data = self.tested()
        elif kind_of(made_by) is Table and self._is_other(made_by):
            data = sources.read_like(made_by, known, "data", targets=None)
        else:
            data = self._applied(sources.built(made_by))
        said = [*data.remarks] if isinstance(data, Table) else []
        data = data.in_batches() if isinstance(data, ImageFiles) else data
        names = names_in(data, carry)
        if not self._has_other_classes(data):
            return NewSamples(data, names, said)
        return NewSamples(unlabeled(data), names, [*said, OTHER_CLASSES])

    # What one does with it.

    def _placed(self, device: str | torch.device | None) -> Ensemble:
        """Return the ensemble where it computes: on a GPU if there is one."""
        to_device(self.ensemble, place_of(device))
        return self.ensemble

    def evaluate(
        self,
        data: Source | None = None,
        *,
        shifted: Mapping[str, Source] | None = None,
        ood: Mapping[str, Source] | None = None,
        corruptions: str | None = None,
        copies: str | None = None,
        device: str | torch.device | None = None,
        **how: Any,
    ) -> Evaluation:
        """Evaluate the ensemble, and keep the scores in the folder.

        Each data set has a file of its own, in ``evaluations``: those that are not
        asked for stay as they were measured. Clean data are measured every time.

        Args:
            data: What to test on, by default the test part of the run's data.
            shifted: Labeled data that shifted by themselves, by name.
            ood: Unfamiliar data by name.
            corruptions: Whose strengths corrupted copies have (``"none"``, ``"cifar"``,
                ``"tiny_imagenet"``, ``"imagenet"``); CIFAR's of images by default,
                unless other data are asked for.
            copies: A folder, or the name of a published set, instead.
            device: A GPU by default, if there is one.
            **how: ``metrics``, ``classes``, ``rule``, ``batch_size``, ``workers``,
                ``precision``, ``logits_in``, ``exchange`` and ``overwrite`` as those of
                :func:`tepui.evaluate`.

        Returns:
            The scores.

        Raises:
            FileExistsError: If there are scores on these data, or of something else.
            ValueError: If data have other classes, columns or labels than the run's.
        """
        either, folder = "be left out with copies", self._there
        require(not (corruptions and copies), "corruptions", either, corruptions)
        test = self.tested(data)
        more = shifted or copies or (ood and is_evaluated(folder))
        strength = corruptions or ("none" if more else None)
        root = options_given(None if data is None else named(data)).get("root")
        copied = sources.corrupted_copies(test, strength, copies, root)
        learned = self._named("data") if self._says_its_data else None
        shifts = sources.shifts_of(test, copied, shifted, learned)
        for name, each in shifts.natural.items():
            for words in each.remarks if isinstance(each, Table) else ():
                warn(f"shifted {name}: {words}")
        sets = sources.unfamiliar(ood, test)
        ensemble, exchange = self._placed(device), how.get("exchange")
        how["precision"] = how.get("precision") or self.exam_precision
        found = evaluate(ensemble, test, shifted=shifts, ood=sets, out=folder, **how)
        if exchange is None or exchange.writer:
            write_cost(ensemble, test, folder)
            if how.get("logits_in") == "none":
                (folder / GALLERY).unlink(missing_ok=True)
            else:
                write_gallery(folder, test, shifts)
        return found

    def calibrate(
        self,
        data: Source | None = None,
        *,
        held_out: Held = "validation",
        method: Literal["temperature", "vector", "isotonic", "none"] | None = None,
        coverage: float | None = None,
        score: Score | None = None,
        per: Literal["class"] | None = None,
        shift: Source | None = None,
        detectors: bool = False,
        rule: Literal["probability", "logit"] = "probability",
        batch_size: int = 1024,
        workers: int = 0,
        device: str | torch.device | None = None,
    ) -> Calibrated:
        """Make answers mean what they say, by data that members have not seen.

        What is learned is saved with the ensemble, in the place of what was there.

        Args:
            data: What the run was trained on.
            held_out: What the run was validated on, or the test part, which then tests
                nothing any more.
            method: ``"temperature"``, by default where there are probabilities,
                ``"vector"``, ``"isotonic"``, or ``"none"``.
            coverage: How often conformal sets or intervals are to hold the truth. One
                half of the data is for them, the other for probabilities.
            score: As that of :meth:`tepui.Ensemble.conformal`.
            per: As that of :meth:`tepui.Ensemble.conformal`.
            shift: As that of :meth:`tepui.Ensemble.conformal`, read as the run's data.
            detectors: Fit detectors of unfamiliar features too.
            rule: How members are combined.
            batch_size: Samples that go through a member at once.
            workers: Processes that load a data set of your own.
            device: Where to compute; a GPU if there is one.

        Returns:
            What was used for what.

        Raises:
            ValueError: If nothing was held out, or data are others.
        """
        learns = method != "none" or coverage is not None or detectors
        rule_of_none = "go with coverage or detectors if it is none"
        require(learns, "method", rule_of_none, method)
        for name, given in {"score": score, "per": per, "shift": shift}.items():
            require(not given or coverage is not None, name, "go with coverage", given)
        of_test = held_out == "test"
        whole = self.part(data, train=False) if of_test else self.held_out(data)
        ensemble = self._placed(device)
        task = ensemble.task
        chosen = None if method == "none" else method
        if method is None and (task is None or task.calibrations):
            chosen = "temperature"
        needed = f"be given for the task {str(task)!r}, to make intervals"
        require(bool(chosen or coverage or detectors), "coverage", needed, coverage)
        how: dict[str, Any] = {"batch_size": batch_size, "workers": workers}
        held = promised = whole
        if chosen is not None and coverage is not None:
            held, promised = split(whole, 0.5, seed=0)
        before, ensemble.calibration = _said_of(ensemble), None
        if chosen is not None:
            ensemble.calibrate(held, chosen, rule=rule, **how)
        if coverage is not None:
            others = None if shift is None else self.samples(source=shift).data
            sets: dict[str, Any] = {"rule": rule, "per": per, "shift": others}
            ensemble.conformal(promised, coverage, score, **sets, **how)
        trained = self._learned(self.part(data, train=True)) if detectors else None
        if trained is not None:
            fitted = FeatureDetectors.fit(ensemble, trained, held_out=whole, **how)
            ensemble.detectors = fitted
        if chosen is not None or coverage is not None:
            ensemble.calibrated_on = fingerprint(whole)  # all of it, even if divided
        ensemble.save(self._there, overwrite=True)
        return Calibrated(
            None if chosen is None else held,
            None if coverage is None else promised,
            trained,
            tuple(name for name in before if name not in _said_of(ensemble)),
            forget_applied(self._there, calibration_digest(self.ensemble)),
        )

    def uncalibrate(self) -> list[str]:
        """Take back what held-out data said; return what there was."""
        ensemble = self.ensemble
        kept = _said_of(ensemble)
        forget_applied(self._there, None)
        ensemble.calibration = ensemble.conformity = ensemble.detectors = None
        ensemble.save(self._there, overwrite=True)
        return kept

    def predict(
        self,
        inputs: Any = None,
        *,
        data: Source | None = None,
        carry: str | Sequence[str] = (),
        **how: Any,
    ) -> Prediction:
        """Return what the ensemble says of new samples.

        Images of a folder that cannot be read are left out, and a warning names them.

        Args:
            inputs: As those of :meth:`tepui.Ensemble.predict`.
            data: What makes a data set instead; by default the test part of the run's.
            carry: Columns of a table to carry over, beside the row of each sample, into
                ``prediction.named``.
            **how: As :meth:`tepui.Ensemble.predict` takes it.
        """
        known = self.preparation
        words = isinstance(inputs, str) and known is not None and known.tokenizer
        if inputs is not None and (words or not isinstance(inputs, str | Path)):
            require(not carry, "carry", "be left out for what is no table", carry)
            return self.ensemble.predict(inputs, **how)
        samples = self.samples(inputs, data, carry)
        made, samples, left_out = of_readable(
            samples, lambda known: self.ensemble.predict(known.data, **how)
        )
        if left_out:
            reasons = listed([*left_out.values()])
            warn(f"images that cannot be read are left out:{reasons}")
        return replace(made, named=samples.named)

    def write_predictions(
        self,
        out: str | Path,
        inputs: str | Path | None = None,
        *,
        data: Source | None = None,
        carry: str | Sequence[str] = (),
        level: float = LEVEL,
        overwrite: bool = False,
        device: str | torch.device | None = None,
        **how: Any,
    ) -> Written:
        """Write what the ensemble says of new samples into a file.

        Args:
            out: The file: ``.csv``, ``.parquet`` or ``.safetensors``.
            inputs: A file or folder.
            data: What makes a data set instead; by default the test part of the run's.
            carry: Columns of a table to carry over, beside the row of each sample.
            level: As that of :meth:`tepui.Prediction.unfamiliar`.
            overwrite: Replace the file.
            device: Where to compute; a GPU if there is one.
            **how: ``probabilities``, ``rule``, ``batch_size``, ``workers`` and
                ``precision`` as :func:`tepui.evaluation.write_predictions` takes them.

        Returns:
            What was written, and which images were left out.
        """
        file = Path(out)
        check_new(file, level, overwrite)
        same = inputs is not None and file.resolve() == Path(inputs).resolve()
        require(not same, "out", "be another file than the inputs", str(file))
        samples = self.samples(inputs, data, carry)
        how["precision"] = how.get("precision") or self.exam_precision
        how |= {"level": level, "overwrite": overwrite}
        ensemble = self._placed(device)
        said, samples, left_out = of_readable(
            samples,
            lambda known: write_predictions(
                ensemble, known.data, file, named=known.named, **how
            ),
        )
        said = [*samples.said, *said]
        return Written(file, length(samples.data), left_out, said)

    def measure(
        self, measures: Any = None, *, data: Source | None = None, seed: int = 0
    ) -> dict[str, EnsembleMeasurement]:
        """Measure the members' sharpness on what they learned from.

        Args:
            measures: As those of :func:`tepui.measure`.
            data: What the run was trained on.
            seed: What random draws derive from.
        """
        train = self.part(data, train=True)
        return measure(self.ensemble, train, measures, seed=seed)

    def resume(
        self,
        data: Source | None = None,
        *,
        validation: Dataset[Any] | float | None = None,
        unlabeled: Dataset[Any] | None = None,
        callbacks: Sequence[Told] = (),
        progress: Style = "auto",
        **execution: Any,
    ) -> "Run":
        """Go on to the end of the run, to the bits of one that was never interrupted.

        Args:
            data: What the run is trained on.
            validation: What it is validated on, if its command did not name it.
            unlabeled: Data for members to disagree on, for methods that need them.
            callbacks: As those of :func:`tepui.fit`.
            progress: As that of :func:`tepui.fit`.
            **execution: Fields of :class:`tepui.training.ExecutionSpec`, such as
                ``stop_after``.

        Returns:
            The run as it stands then.

        Raises:
            ValueError: If data or models are others than those it began with.
        """
        alone = self._folder.path == self.path
        rule = "train members, not heads, which tepui train --resume goes on with"
        require(alone, str(self.path), rule, HEADS)
        learned = sources.part(self._source(data), train=True)
        config = self.config
        held = config.get("validation")
        if held is not None and validation is None:
            other = self._named("validation")
            validation = held["samples"] / length(learned)
            if other is not None:
                found = sources.validation_data(other, self._source(data), learned)
                validation = found
        models, seeds = config["models"], config["seeds"]
        makers = self._factory or [maker_of(each, self._there) for each in models]
        ensemble = Ensemble.build(makers, len(seeds), seed=seeds)
        names = ("device", "runner", "compile", "deterministic")
        how = {name: config[name] for name in names} | {"progress": progress}
        return self.trained_by(
            ensemble,
            learned,
            self.spec,
            ExecutionSpec(**how | execution),
            validation=validation,
            unlabeled=unlabeled,
            callbacks=callbacks,
            out=self._there,
            resume=True,
        )

    # What a person is shown.

    def __str__(self) -> str:
        asked, task = self.config, None  # a model of one's own cannot be built here
        if asked and (self._there / FILE).is_file():
            task, _ = meaning_in(self._there)
        elif not asked:
            task = self.ensemble.task
        members = len(asked["seeds"]) if asked else len(self.ensemble)
        title = (
            f"{counted(members, 'member')} trained for "
            f"{counted(len(self.history), 'epoch')}"
            + ("" if self.stopped_by is None else f", stopped by {self.stopped_by}")
            + ("" if task is None else f" ({task})")
        )
        lines = (f"  {name:15}  {fact}" for name, fact in self.facts().items())
        return "\n".join([title, *lines])

    def facts(self) -> dict[str, str]:
        """Return what a person wants to know first, a line of text by its name."""
        facts: dict[str, str] = {}
        if self.history:
            last: EpochRecord = self.history[-1]
            for name, values in {
                "training loss": last.loss,
                "validation loss": last.validation_loss,
                "its accuracy": last.validation_accuracy,
                "its RMSE": last.validation_rmse,
            }.items():
                if values:
                    facts[name] = _per_member(values)
            if self.kept:
                epochs = " ".join(map(str, self.kept))
                facts["weights kept"] = f"after epochs {epochs}"
            seconds = sum(record.seconds for record in self.history)
            facts["time in steps"] = f"{seconds:.4g} s"
        if self.path is not None:
            facts["folder"] = str(self.path)
        return facts


def _said_of(ensemble: Ensemble) -> list[str]:
    """Return what held-out data said of an ensemble."""
    said = {
        "calibration": ensemble.calibration,
        "conformal sets or intervals": ensemble.conformity,
        "detectors": ensemble.detectors,
    }
    return [name for name, each in said.items() if each is not None]


def _per_member(losses: Sequence[float | None]) -> str:
    """Return the members' losses as text; a dash for one that sat out."""
    return " ".join("-" if loss is None else f"{loss:.4g}" for loss in losses)
