"""A run: what it learned from, with what, what came of it, and what is done with it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal, Self, final

import torch
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.core.counted import counted
from tepui.core.grammar import Call, parsed
from tepui.core.listed import listed
from tepui.core.names import PLACES
from tepui.core.notebooks import ShownInNotebooks
from tepui.core.precision import Precision
from tepui.core.spec import from_document, read
from tepui.core.storage import read_document, write_document
from tepui.core.warning import warn
from tepui.data import Digits, ImageFiles, Table, sources, split
from tepui.data.class_names import class_names, same_classes
from tepui.data.files.table_rows import read_table
from tepui.data.identity import data_identity, fingerprint
from tepui.data.loading import length, targets_of
from tepui.data.numbered_as import numbered_as
from tepui.data.preparation import Preparation
from tepui.data.shifts import NATURAL
from tepui.data.sources import Factory, Source, kind_of, named, options_given
from tepui.data.unlabeled import unlabeled
from tepui.ensembles.building import Factory as Maker
from tepui.ensembles.ensemble import FILE, Ensemble
from tepui.ensembles.feature_detectors import FeatureDetectors
from tepui.ensembles.loading import RUN, check_ended, load, preparation_in, task_in
from tepui.evaluation.adding import calibrated_since, without_applied
from tepui.evaluation.custom_metrics import Metric
from tepui.evaluation.ensemble_digest import calibration_digest
from tepui.evaluation.examination import EVALUATION, EVALUATION_KIND, Examination
from tepui.evaluation.measure import EnsembleMeasurement, measure
from tepui.evaluation.new_samples import (
    NewSamples,
    Written,
    names_in,
    of_readable,
    write_predicted,
)
from tepui.evaluation.prediction_file import check_new
from tepui.evaluation.results import Evaluation
from tepui.metrics.held_out_scores import LEVEL
from tepui.modules.features import cached_features
from tepui.modules.state import maker_of
from tepui.tasks import Prediction
from tepui.training.checks import divided
from tepui.training.history import EpochRecord, History, Outcome
from tepui.training.prepare import place_of, to_device
from tepui.training.progress import Style
from tepui.training.run_folder import (
    RunFolder,
    extractor_of_comparison,
    recorded_options,
)
from tepui.training.spec import ExecutionSpec, TrainingSpec
from tepui.training.timeline import Timeline

if TYPE_CHECKING:
    from tepui.training.callbacks import Told

Held = Literal["validation", "test"]
Score = Literal["threshold", "aps", "raps", "residual", "normalized", "quantile"]
# Where a run that trains heads alone keeps their run, and what they learn from.
HEADS, FEATURES = "heads", "features"
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
class Run(ShownInNotebooks):
    """A run, in memory or in its folder; what lies there is read when it is asked for.

    The folder of an ensemble that was saved without a run is one too, which does not
    say what its members learned from. Data are named by a data set, by what makes one
    (``CIFAR10``, ``partial(ImageFolder, path="photos")``), or as on the command line
    (``"ImageFolder(path=photos)"``); without a name they are those of the run.

    Attributes:
        path: The folder, if there is one.
        loading: Makes the ensemble when it is asked for; by default :func:`tepui.load`.
    """

    def __init__(
        self,
        path: str | Path | None,
        ensemble: Ensemble | None = None,
        outcome: Outcome | None = None,
        *,
        factory: Maker | Sequence[Maker] | None = None,
        loading: Callable[[], Ensemble] | None = None,
    ) -> None:
        self.path = None if path is None else Path(path)
        self._factory, self.loading = factory, loading
        self._parts: dict[Any, Dataset[Any]] = {}
        if ensemble is not None:
            self.ensemble = ensemble
        if outcome is not None:
            self._outcome = outcome

    @classmethod
    def open(
        cls,
        path: str | Path,
        factory: Maker | Sequence[Maker] | None = None,
        extractor: Maker | None = None,
    ) -> Self:
        """Return the run in a folder.

        Args:
            path: The folder of a run, or of a saved ensemble.
            factory: As that of :func:`tepui.load`.
            extractor: As that of :func:`tepui.load`.

        Raises:
            FileNotFoundError: If there is none.

        Example:
            >>> import tempfile, tepui
            >>> data = tepui.data.Arrays(torch.randn(64, 4), torch.arange(64) % 3)
            >>> ensemble = Ensemble.build(lambda: tepui.models.MLP(4, (), 3), members=2)
            >>> how = {"method": tepui.methods.SAM(), "epochs": 2, "progress": "none"}
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     _ = tepui.fit(ensemble, data, out=Path(folder, "run"), **how)
            ...     run = Run.open(Path(folder, "run"))
            ...     len(run.history), len(run.ensemble), run.spec.method.rho
            (2, 2, 0.02)
        """
        folder = Path(path)
        if not any((folder / name).is_file() for name in (FILE, RUN)):
            check_ended(folder)
        loading = partial(load, folder, factory, extractor)
        return cls(folder, factory=factory, loading=loading)

    def __fspath__(self) -> str:
        return str(self._there)

    @property
    def _there(self) -> Path:
        require(self.path is not None, "out", "be given to fit to keep a run", None)
        assert self.path is not None
        return self.path

    @cached_property
    def _folder(self) -> RunFolder:
        """The folder that members, or heads on features, were trained in."""
        heads = RunFolder(self._there / HEADS)
        return heads if heads.started else RunFolder(self._there)

    @cached_property
    def config(self) -> dict[str, Any]:
        """What was asked for, as the folder records it; empty without a run."""
        started = self.path is not None and self._folder.started
        return self._folder.recorded()["config"] if started else {}

    @cached_property
    def environment(self) -> dict[str, Any]:
        """Versions, hardware and the command; empty without a run."""
        return self._folder.recorded()["environment"] if self.config else {}

    @cached_property
    def spec(self) -> TrainingSpec:
        """What members were trained with."""
        names = [each.name for each in fields(TrainingSpec) if each.name in self.config]
        rule = "hold a run, whose members say what they were trained with"
        require(bool(names), str(self.path), rule, "an ensemble only")
        return TrainingSpec(**{n: from_document(self.config[n]) for n in names})

    @cached_property
    def ensemble(self) -> Ensemble:
        """The trained ensemble."""
        return load(self._there) if self.loading is None else self.loading()

    @cached_property
    def _outcome(self) -> Outcome:
        return self._folder.outcome()

    @property
    def history(self) -> History:
        """One record per epoch."""
        return self._outcome.history

    @property
    def best_epochs(self) -> tuple[int, ...]:
        """Epoch of each member's best weights, empty if none were kept."""
        return self._outcome.best_epochs

    @property
    def summary(self) -> Mapping[str, Any]:
        """What the method reports of the run, such as SharpBalance's sets."""
        return self._outcome.summary

    @property
    def timeline(self) -> Timeline:
        """Where the time went: the seconds of each activity."""
        return self._outcome.timeline

    @property
    def stopped_by(self) -> str | None:
        """Who ended the run before all epochs were done; None if nobody did."""
        return self._outcome.stopped_by

    @property
    def kept(self) -> tuple[int, ...]:
        """After how many epochs members had the weights they kept; () if their last."""
        return self._outcome.kept

    @property
    def evaluations(self) -> dict[str, Any]:
        """The scores that are kept, by the name of the data; empty without any."""
        file = self._there / EVALUATION
        if not file.exists():
            return {}
        found = read_document(file, EVALUATION_KIND)
        scores = {"clean": found["clean"], "corrupted": found["shifted"]}
        cells = [cell for cell in found["cells"] if cell["severity"] == NATURAL]
        scores |= {cell["type"]: cell for cell in cells} | found["ood"]
        return {name: each for name, each in scores.items() if each}

    @cached_property
    def preparation(self) -> Preparation | None:
        """How new samples are read; None if only the user's own code knows."""
        if "ensemble" in vars(self):
            return self.ensemble.preparation
        there = (self._there / FILE).is_file()
        return preparation_in(self._there) if there else None

    @property
    def exam_precision(self) -> Precision:
        """What its ensemble is examined in: TF32, unless trained in float32."""
        return RunFolder(self._there).exam_precision()

    # What it learned from, and what it is tested on.

    def data(self, source: Source | None = None) -> Dataset[Any]:
        """Return what members learned from, without what was held out of it.

        Args:
            source: What the run was trained on.

        Raises:
            ValueError: If the folder does not say, or the data were changed since.
        """
        found = self._learned(self.part(source, train=True))
        if source is None and self._folder.path == self.path:
            self._check_same("data", found, self.config.get("data", {}))
        return found

    def _learned(self, whole: Dataset[Any]) -> Dataset[Any]:
        held, count = self.config.get("validation"), length(whole)
        if held is None or count != held["samples"] + self.config["data"]["samples"]:
            return whole
        return divided(whole, held["samples"] / count)[0]

    def _check_same(
        self, argument: str, data: Dataset[Any], expected: Mapping[str, Any]
    ) -> None:
        """Raise unless data are those that the run recorded."""
        found = data_identity(data)
        differ = [n for n in found if n in expected and found[n] != expected[n]]
        differ = [name for name in differ if name != "class"]
        rule = f"be what {self.path} learned from ({expected.get('samples')} samples)"
        count = f"{found['samples']} samples"
        require("samples" not in differ, argument, rule, count)
        require(not differ, argument, rule, "others, or changed ones")

    def held_out(self, source: Source | None = None) -> Dataset[Any]:
        """Return what the run was validated on: other data, or a share of its own.

        Args:
            source: What the run was trained on.

        Raises:
            ValueError: If nothing was held out, or the data were changed since.
        """
        whole = self.part(source, train=True)
        expected, path = self.config.get("validation"), self.path
        rule = f"be test, since {path} has held out nothing (tepui train --validation"
        require(expected is not None, "held_out", f"{rule} 0.2)", "validation")
        assert expected is not None
        if (other := self._named("validation")) is not None:
            made_by = self._source(source)
            unseen: Any = sources.validation_data(other, made_by, whole)
            same = data_identity(self._seen(unseen)) == expected
            rule = f"be test, since the data that {path} was validated on were changed"
            require(same, "held_out", rule, "validation")
            return self._applied(unseen)
        count, held = length(whole), expected["samples"]
        learned = self.config["data"]["samples"]
        rule = (
            f"be test, since {path} was validated on data that it does not name (give "
            f"data with these {held} samples as its test part)"
        )
        require(count != learned, "held_out", rule, "validation")
        rule = f"be the data set that {path} was trained on"
        require(count == held + learned, "data", rule, f"{count} samples")
        same = data_identity(divided(self._seen(whole), held / count)[1]) == expected
        require(same, "data", rule, "others, or changed ones")
        return divided(whole, held / count)[1]

    def _seen(self, data: Dataset[Any]) -> Dataset[Any]:
        """Return what members saw of some data: of heads the features."""
        if self._folder.path == self.path or self.ensemble.extractor is None:
            return data
        return cached_features(self.ensemble.extractor, data, self._there / FEATURES)

    def tested(self, source: Source | None = None) -> Dataset[Any]:
        """Return the test part of some data, or all of them if asked for and unseen.

        Args:
            source: What to test on; of another table all rows are taken.

        Raises:
            ValueError: If all of the data that the run learned from are asked for, or
                of data of which that is not known.
        """
        made_by: Any = None if source is None else named(source)
        whole, told = options_given(made_by).get("part") == "all", self._says_its_data
        rule = (
            f"be left out, since {self.path} does not say what members learned from; "
            "all of another folder is tested on as shifted data: --shifted "
            "NAME=ImageFolder(path=PATH)"
        )
        require(not whole or told, "part", rule, "all")
        every = whole or kind_of(made_by) is Table
        if every and self._is_other(made_by):
            found = sources.read_like(made_by, self.preparation, "data")
            same_classes("data", class_names(found), self._classes, str(self.path))
            return found
        return self.part(source, train=False)

    def part(self, source: Source | None, *, train: bool) -> Dataset[Any]:
        """Return one part of a data set, as the run reads it.

        Args:
            source: What makes the data set.
            train: The training part if true, else the test part.
        """
        key = source, train
        if isinstance(source, str | None) and key in self._parts:
            return self._parts[key]
        found = self._applied(sources.part(self._source(source), train=train))
        same_classes("data", class_names(found), self._classes, str(self.path))
        if isinstance(source, str | None):  # which are named again and again
            self._parts[key] = found
        return found

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
        known, rows = self.preparation, None
        made_by = None if source is None else named(source)
        if inputs is not None:
            rule = f"be left out, since {self.path} does not say how its training data "
            rule += "were prepared: name a data set that prepares them, --data "
            require(known is not None, "inputs", f"{rule}mypackage.MyData", str(inputs))
            assert known is not None
            rows = None if known.columns is None else read_table(Path(inputs))
            data = known.apply(inputs if rows is None else rows, targets=False)
        elif made_by is None:
            data = self.tested()
        elif kind_of(made_by) is Table and self._is_other(made_by):
            data = sources.read_like(made_by, known, "data", targets=False)
            rows = read_table(Path(options_given(made_by)["path"]))
        else:
            data = self._applied(sources.built(made_by))
        said = [*data.gaps.words] if isinstance(data, Table) else []
        if rows is not None and known is not None:
            said = [*known.gaps(rows).words]
        data = data.in_batches() if isinstance(data, ImageFiles) else data
        names = names_in(data, rows, carry)
        if not self._has_other_classes(data):
            return NewSamples(data, names, said)
        return NewSamples(unlabeled(data), names, [*said, OTHER_CLASSES])

    def _applied(self, data: Dataset[Any]) -> Dataset[Any]:
        known = self.preparation
        return numbered_as(data, self._classes) if known is None else known.apply(data)

    @property
    def _classes(self) -> tuple[str, ...]:
        known = self.config.get("data", {}).get("classes", ())
        return tuple(known) or (self.preparation or Preparation()).classes

    def _has_other_classes(self, data: Dataset[Any]) -> bool:
        """Return whether labels number other classes, where both have names."""
        names, targets, task = class_names(data), targets_of(data), task_in(self._there)
        of_samples = targets is None or targets.ndim == 1
        choice = (task is None or bool(task.chooses)) and of_samples
        return choice and bool(names and self._classes) and names != self._classes

    def _source(self, source: Source | None) -> Source:
        """Return what makes the data: what is named, the run's own, or digits."""
        if (front := extractor_of_comparison(self._there)) is not None:
            raise ValueError(
                f"RUN must be a whole ensemble, got {self.path}, whose members are "
                "heads alone: train what to use by tepui train --extractor "
                + quote(front)
            )
        if source is not None:
            return source
        if (own := self._named("data")) is not None:
            return own
        started = RunFolder(self._there).started
        name = self.config["data"].get("class") if started else None
        why = f"{self.path} was trained on {name}"
        why = why if name else "nothing says what members were trained on"
        require(name == Digits.__name__, "data", f"be given, since {why}", None)
        return Digits

    def _named(self, option: str) -> Factory | None:
        """Return the data set that an option of the run's command named, if it did."""
        text = recorded_options(self._there).get(option)
        if text is None or isinstance(text, float | int):
            return None
        if not _is_known(text):
            raise ValueError(
                f"{option} must be given, since {self.path} belongs to a data set of "
                f"your own: --{option} {quote(text)}"
            )
        made_by: Factory = read(text, "data")
        return made_by

    @property
    def _says_its_data(self) -> bool:
        """Whether the run says what it learned, and chose, by, in known classes."""
        told = recorded_options(self._there)
        named = [told[name] for name in ("data", "validation") if name in told]
        return bool(named) and all(map(_is_known, named))

    def _is_other(self, source: Source) -> bool:
        """Return whether the run is known to have learned by other data."""
        if not self._says_its_data:
            return False
        seen = [sources.training_part(self._named("data")), self._named("validation")]
        return not any(
            sources.same_source(source, each) for each in seen if each is not None
        )

    # What one does with it.

    def _placed(self, device: str | torch.device | None) -> Ensemble:
        """Return the ensemble where it computes: on a GPU if there is one."""
        to_device(self.ensemble, place_of(device))
        return self.ensemble

    def examination(
        self,
        data: Source | None = None,
        *,
        shifted: Mapping[str, Source] | None = None,
        ood: Mapping[str, Source] | None = None,
        corruptions: str | None = None,
        copies: str | None = None,
        metrics: Mapping[str, Metric] | None = None,
        overwrite: bool = False,
        device: str | torch.device | None = None,
        **how: Any,
    ) -> Examination:
        """Return an evaluation that is asked for, as :meth:`evaluate` carries it out.

        Its ``before`` is what stays of the one that is there.
        """
        either = "be left out with copies"
        require(not (corruptions and copies), "corruptions", either, corruptions)
        folder = self._there
        before = None
        if (folder / EVALUATION).exists():
            before = read_document(folder / EVALUATION, EVALUATION_KIND)
        known = before.get("metrics", ()) if before and not overwrite else metrics or ()
        new = {*(metrics or ())} - {*known}
        test = self.tested(data)
        more = shifted or copies or new or (before and ood)
        strength = corruptions or ("none" if more else None)
        root = options_given(None if data is None else named(data)).get("root")
        copied = sources.corrupted_copies(test, strength, copies, root)
        learned = self._named("data") if self._says_its_data else None
        return Examination(
            folder=folder,
            shifts=sources.shifts_of(test, copied, shifted, learned),
            sets=sources.unfamiliar(ood, test),
            ensemble=self._placed(device),
            test=test,
            metrics=metrics or {},
            how={**how, "precision": how.get("precision") or self.exam_precision},
            overwrite=overwrite,
        )

    def evaluate(self, data: Source | None = None, **how: Any) -> Evaluation:
        """Evaluate the ensemble, and keep the scores in the folder.

        Evaluations add up: data sets that are not asked for stay as they were measured.

        Args:
            data: What to test on, by default the test part of the run's data.
            **how: ``shifted`` and ``ood``, data by name; ``corruptions``, whose
                strengths corrupted copies have (``"none"``, ``"cifar"``,
                ``"tiny_imagenet"``, ``"imagenet"``; CIFAR's of images by default at
                first), or ``copies``, a folder or the name of a published set;
                ``metrics``, ``classes``, ``rule``, ``batch_size``, ``workers``,
                ``precision``, ``logits_in``, ``exchange`` and ``overwrite`` as those of
                :func:`tepui.evaluate`; ``device``, by default a GPU if there is one.

        Returns:
            The scores.

        Raises:
            FileExistsError: If there are scores of something else.
            ValueError: If data have other classes, columns or labels than the run's.
        """
        return self.examination(data, **how).evaluate()

    def calibrate(
        self,
        data: Source | None = None,
        *,
        held_out: Held = "validation",
        method: Literal["temperature", "vector", "isotonic", "none"] | None = None,
        coverage: float | None = None,
        score: Score | None = None,
        detectors: bool = False,
        rule: Literal["probability", "logit"] = "probability",
        batch_size: int = 256,
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
            detectors: Fit detectors of unfamiliar features too.
            rule: How members are combined.
            batch_size: Samples that go through a member at once.
            workers: Processes that load data not held in tensors.
            device: Where to compute; a GPU if there is one.

        Returns:
            What was used for what.

        Raises:
            ValueError: If nothing was held out, or data are others.
        """
        learns = method != "none" or coverage is not None or detectors
        rule_of_none = "go with coverage or detectors if it is none"
        require(learns, "method", rule_of_none, method)
        require(not score or coverage is not None, "score", "go with coverage", score)
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
            ensemble.conformal(promised, coverage, score, rule=rule, **how)
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
            self._mark_outdated(),
        )

    def uncalibrate(self) -> list[str]:
        """Take back what held-out data said; return what there was."""
        ensemble, file = self.ensemble, self._there / EVALUATION
        kept = _said_of(ensemble)
        if file.exists():
            document = read_document(file, EVALUATION_KIND)
            write_document(file, EVALUATION_KIND, without_applied(document))
        ensemble.calibration = ensemble.conformity = ensemble.detectors = None
        ensemble.save(self._there, overwrite=True)
        return kept

    def _mark_outdated(self) -> bool:
        """Let the evaluation say that what the ensemble gives has changed, if so."""
        file = self._there / EVALUATION
        document = read_document(file, EVALUATION_KIND) if file.exists() else {}
        if "of" not in document:  # that of a comparison is not made again by evaluate
            return False
        now = calibration_digest(self.ensemble)
        changed: bool = document["of"].get("calibration") != now
        write_document(file, EVALUATION_KIND, calibrated_since(document, changed))
        return changed

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
            carry: Columns of a table to carry over, beside the line of each row, into
                ``prediction.named``.
            **how: As :meth:`tepui.Ensemble.predict` takes it.
        """
        known = self.preparation
        words = isinstance(inputs, str) and known is not None and known.tokenizer
        if inputs is not None and (words or not isinstance(inputs, str | Path)):
            require(not carry, "carry", "be left out for what is no table", carry)
            return self.ensemble.predict(inputs, **how)
        samples = self.samples(inputs, data, carry)
        work = partial(self.ensemble.predict, **how)
        made, samples, left_out = of_readable(samples, work)
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
        """Write what the ensemble says of new samples into a file, part after part.

        Args:
            out: The file: ``.csv``, ``.parquet`` or ``.safetensors``.
            inputs: A file or folder.
            data: What makes a data set instead; by default the test part of the run's.
            carry: Columns of a table to carry over, beside the line of each row.
            level: As that of :meth:`tepui.Prediction.unfamiliar`.
            overwrite: Replace the file.
            device: Where to compute; a GPU if there is one.
            **how: ``probabilities``, ``rule``, ``shard_size``, ``batch_size``,
                ``workers`` and ``precision`` as
                :func:`tepui.evaluation.predict_shards` takes them.

        Returns:
            What was written, and which images were left out.
        """
        file = Path(out)
        check_new(file, level, overwrite)
        same = inputs is not None and file.resolve() == Path(inputs).resolve()
        require(not same, "out", "be another file than the inputs", str(file))
        samples = self.samples(inputs, data, carry)
        how["precision"] = how.get("precision") or self.exam_precision
        ensemble = self._placed(device)
        return write_predicted(
            ensemble, samples, file, level=level, overwrite=overwrite, **how
        )

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
        callbacks: "Sequence[Told]" = (),
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
        from tepui.training.train import train

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
        names = ("device", "runner", "compile", "deterministic", "cpu_kernels")
        how = {name: config[name] for name in names} | {"progress": progress}
        return train(
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

    def kept_losses(self) -> tuple[float | None, ...]:
        """Return each member's training loss in the epoch whose weights it kept."""
        return tuple(
            self.history[epochs - 1].loss[place]
            for place, epochs in enumerate(self.kept)
        )

    def __str__(self) -> str:
        asked, task = self.config, None  # a model of one's own cannot be built here
        if asked and (self._there / FILE).is_file():
            task = task_in(self._there)
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


def _is_known(text: Any) -> bool:
    """Return whether the text of a run is of tepui's own data, or is a share."""
    if text is None or isinstance(text, float | int):
        return text is not None
    tree = parsed(text, "data", own=True)
    return (tree.name if isinstance(tree, Call) else str(tree)) in PLACES["data"]


def _per_member(losses: Sequence[float | None]) -> str:
    """Return the members' losses as text; a dash for one that sat out."""
    return " ".join("-" if loss is None else f"{loss:.4g}" for loss in losses)
