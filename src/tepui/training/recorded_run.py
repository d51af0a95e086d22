"""A run as its folder records it: what it was told, what came of it, and its data."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cached_property, partial
from pathlib import Path
from shlex import quote
from typing import Any, Self

from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.core.grammar import Call, parsed
from tepui.core.names import PLACES
from tepui.core.precision import Precision
from tepui.core.spec import from_document, read
from tepui.data import Digits, Table, sources
from tepui.data.identity import data_identity
from tepui.data.labels import class_names, relabel, same_classes
from tepui.data.loading import length, targets_of
from tepui.data.preparation import Preparation
from tepui.data.sources import Factory, Source, kind_of, named, options_given
from tepui.ensembles.building import Factory as Maker
from tepui.ensembles.ensemble import FILE, Ensemble
from tepui.ensembles.loading import RUN, check_ended, load, meaning_in
from tepui.modules.features import cached_features
from tepui.training.checks import divided
from tepui.training.history import History, Outcome
from tepui.training.run_folder import RunFolder, recorded_options
from tepui.training.spec import TrainingSpec

# Where a run that trains heads alone keeps their run, and what they learn from.
HEADS, FEATURES = "heads", "features"


def _of_outcome(name: str, what: str) -> Any:
    return property(lambda run: getattr(run._outcome, name), doc=what)


class RecordedRun:
    """A run as its folder records it; :class:`tepui.Run` says what is done with it.

    Attributes:
        path: The folder, if there is one.
        loading: Makes the ensemble when it is asked for.
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
            >>> import tempfile, tepui, torch
            >>> data = tepui.data.Arrays(torch.randn(64, 4), torch.arange(64) % 3)
            >>> ensemble = Ensemble.build(lambda: tepui.models.MLP(4, (), 3), members=2)
            >>> how = {"method": tepui.methods.SAM(), "epochs": 2, "progress": "none"}
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     _ = tepui.fit(ensemble, data, out=Path(folder, "run"), **how)
            ...     run = tepui.Run.open(Path(folder, "run"))
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

    best_epochs = _of_outcome("best_epochs", "Epoch of each member's best weights.")
    summary = _of_outcome("summary", "What the method reports of the run.")
    timeline = _of_outcome("timeline", "The seconds of each activity.")
    stopped_by = _of_outcome("stopped_by", "Who ended the run early, if anybody.")
    kept = _of_outcome("kept", "Epochs done by the weights kept; empty if the last.")

    @cached_property
    def preparation(self) -> Preparation | None:
        """How new samples are read; None if only the user's own code knows."""
        if "ensemble" in vars(self):
            return self.ensemble.preparation
        there = (self._there / FILE).is_file()
        return meaning_in(self._there)[1] if there else None

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
        others = "samples" in differ
        rule = f"be what {self.path} learned from ({expected.get('samples')} samples)"
        got = f"{found['samples']} samples" if others else "others, or changed ones"
        require(not {*differ} - {"class"}, argument, rule, got)

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
            seen, found = self._seen(unseen), self._applied(unseen)
        else:
            count, held = length(whole), expected["samples"]
            rule = f"be what {path} was trained on, with what it held out ({held})"
            fits = count == held + self.config["data"]["samples"]
            require(fits, "data", rule, f"{count} samples")
            _, seen = divided(self._seen(whole), held / count)
            _, found = divided(whole, held / count)
        rule = f"be test, since the data that {path} was validated on were changed"
        require(data_identity(seen) == expected, "held_out", rule, "validation")
        return found

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

    def _applied(self, data: Dataset[Any]) -> Dataset[Any]:
        known = self.preparation
        return relabel(data, self._classes) if known is None else known.apply(data)

    @property
    def _classes(self) -> tuple[str, ...]:
        known = self.config.get("data", {}).get("classes", ())
        return tuple(known) or (self.preparation or Preparation()).classes

    def _has_other_classes(self, data: Dataset[Any]) -> bool:
        """Return whether labels number other classes, where both have names."""
        (task, _), names = meaning_in(self._there), class_names(data)
        of_samples = (targets := targets_of(data)) is None or targets.ndim == 1
        choice = (task is None or bool(task.chooses)) and of_samples
        return choice and bool(names and self._classes) and names != self._classes

    def _source(self, source: Source | None) -> Source:
        """Return what makes the data: what is named, the run's own, or digits."""
        if source is not None:
            return source
        if (own := self._named("data")) is not None:
            return own
        started = RunFolder(self._there).started
        name = self.config["data"].get("class") if started else None
        rule = f"be given, since {self.path} was trained on {name or 'unknown data'}"
        require(name == Digits.__name__, "data", rule, None)
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


def _is_known(text: Any) -> bool:
    """Return whether the text of a run is of tepui's own data, or is a share."""
    if text is None or isinstance(text, float | int):
        return text is not None
    tree = parsed(text, "data", own=True)
    return (tree.name if isinstance(tree, Call) else str(tree)) in PLACES["data"]
