"""Training several methods on one data set and evaluating them side by side.

Every ensemble has a run folder of its own below the comparison's folder, so that an
interrupted comparison continues where it stopped. All methods share seeds: ensemble
``r`` starts from the same weights and sees the same data order under each of them.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import torch
from torch import nn
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.core.seeding import member_seeds
from tepui.core.storage import read_json, write_json
from tepui.data import Corrupted, prepared_like
from tepui.ensembles.ensemble import Ensemble
from tepui.evaluation.custom_metrics import Metric, check_metrics
from tepui.evaluation.evaluate import evaluate
from tepui.evaluation.measure import measure
from tepui.evaluation.ood import check_ood
from tepui.evaluation.scores import TAKEN_NAMES
from tepui.losses import cross_entropy
from tepui.methods import Method
from tepui.models.split import frozen
from tepui.modules.features import cached_features
from tepui.modules.running import device_of
from tepui.modules.state import description
from tepui.sharpness import worst_case
from tepui.studies.gallery import write_gallery
from tepui.studies.statistics import Estimate, estimate
from tepui.training import fit
from tepui.training.inputs import check_labels, classes_of
from tepui.training.run_folder import environment_of, fingerprint, to_jsonable

FORMAT = 2
FILE = "comparison.json"
EVALUATION = "evaluation.json"
SHARPNESS = "sharpness.json"
FEATURES = "features"


@dataclass(frozen=True)
class Trained:
    """One trained and evaluated ensemble.

    Attributes:
        folder: Its run folder, relative to the comparison's.
        seeds: Seeds of its members.
        seconds: How long training took.
        evaluation: Its scores, as JSON holds them.
        summary: What the method has to show of it, such as SharpBalance's sets.
        sharpness: Adaptive worst-case sharpness of its members on training data, as
            JSON holds it; None where it was not measured.
    """

    folder: str
    seeds: tuple[int, ...]
    seconds: float
    evaluation: Mapping[str, Any]
    summary: Mapping[str, Any]
    sharpness: Mapping[str, Any] | None


@dataclass(frozen=True)
class MethodResult:
    """What one method gave.

    Attributes:
        label: Its name in tables.
        hyperparameters: Its fields.
        ensembles: One entry per repetition.
    """

    label: str
    hyperparameters: Mapping[str, Any]
    ensembles: tuple[Trained, ...]

    def score(self, data: str, name: str) -> Estimate:
        """Return a score over all ensembles.

        Args:
            data: ``"clean"`` or ``"shifted"``.
            name: A score of :class:`tepui.Scores`, or a metric given to
                :func:`compare`.

        Returns:
            Mean and standard error.
        """
        rows = [trained.evaluation[data] or {} for trained in self.ensembles]
        return estimate(row.get(name) for row in rows)

    @property
    def sharpness(self) -> Estimate:
        """Mean sharpness of the members, over all ensembles."""
        return estimate(
            None if trained.sharpness is None else trained.sharpness["mean"]
            for trained in self.ensembles
        )

    def detection(self, data: str, score: str, measure: str = "auroc") -> Estimate:
        """Return how well unfamiliar samples are found, over all ensembles.

        Args:
            data: The name of an unfamiliar set.
            score: A score of :func:`tepui.metrics.ood_scores`.
            measure: A field of :class:`tepui.Detection`.

        Returns:
            Mean and standard error.
        """
        return estimate(
            trained.evaluation["ood"][data][score][measure]
            for trained in self.ensembles
        )

    def severity(self, level: str, name: str) -> Estimate:
        """Return a score at one severity, over all ensembles."""
        return estimate(
            trained.evaluation["severities"][level][name] for trained in self.ensembles
        )


@dataclass(frozen=True)
class Comparison:
    """Several methods on one data set.

    Attributes:
        title: What was compared on what.
        settings: How all methods were trained and evaluated.
        environment: Versions, hardware and the command.
        methods: One entry per method.
    """

    title: str
    settings: Mapping[str, Any]
    environment: Mapping[str, Any]
    methods: tuple[MethodResult, ...]

    @property
    def has_shift(self) -> bool:
        """Whether shifted data were evaluated."""
        return all(
            trained.evaluation["shifted"] is not None
            for method in self.methods
            for trained in method.ensembles
        )

    @property
    def ood_sets(self) -> tuple[str, ...]:
        """Names of the unfamiliar sets on which all ensembles were evaluated."""
        ensembles = [trained for method in self.methods for trained in method.ensembles]
        names = ensembles[0].evaluation.get("ood", {})
        return tuple(
            name
            for name in names
            if all(name in trained.evaluation.get("ood", {}) for trained in ensembles)
        )

    @property
    def custom_metrics(self) -> tuple[str, ...]:
        """Names of the caller's own metrics by which all ensembles were evaluated."""
        ensembles = [trained for method in self.methods for trained in method.ensembles]
        return tuple(
            name
            for name in ensembles[0].evaluation.get("metrics", [])
            if all(name in trained.evaluation["clean"] for trained in ensembles)
        )

    @property
    def has_sharpness(self) -> bool:
        """Whether the sharpness of any members was measured."""
        return any(
            trained.sharpness is not None
            for method in self.methods
            for trained in method.ensembles
        )

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Rebuild a comparison from its JSON form."""
        methods = tuple(
            MethodResult(
                row["label"],
                row["hyperparameters"],
                tuple(
                    Trained(**{**item, "seeds": tuple(item["seeds"])})
                    for item in row["ensembles"]
                ),
            )
            for row in document["methods"]
        )
        return cls(
            document["title"], document["settings"], document["environment"], methods
        )


def compare(
    methods: Sequence[Method],
    factory: Callable[[], nn.Module],
    train: Dataset[Any],
    test: Dataset[Any],
    *,
    shifted: Mapping[tuple[str, int], Dataset[Any]] | None = None,
    ood: Mapping[str, Dataset[Any]] | None = None,
    metrics: Mapping[str, Metric] | None = None,
    sharpness: Mapping[str, Any] | None = None,
    unlabeled: Dataset[Any] | None = None,
    extractor: nn.Module | None = None,
    title: str = "comparison",
    members: int = 3,
    ensembles: int = 1,
    seed: int | Sequence[int] = 13,
    out: str | Path,
    resume: bool = False,
    device: str | torch.device | None = None,
    announce: Callable[[str], None] = lambda line: None,
    **training: Any,
) -> Comparison:
    """Train and evaluate several methods, each with the same seeds.

    Args:
        methods: What to compare.
        factory: Returns a new member, or a new head where there is an extractor.
        train: Training data.
        test: Clean test data.
        shifted: Shifted test data by (type, severity).
        ood: Unfamiliar data by name; images are brought to the form of the test data
            by :func:`tepui.data.prepared_like`.
        metrics: Metrics of your own by name, as for :func:`tepui.evaluate`; the table
            and the report show them beside the other scores.
        sharpness: Options of :func:`tepui.sharpness.worst_case`, such as
            ``{"num_samples": 100}``, to measure members on training data; None does
            not.
        unlabeled: Data without labels, for the methods that need them.
        extractor: Frozen, for :meth:`Ensemble.on_features`; heads are trained on
            :func:`tepui.cached_features`, kept in ``out``, and tested on raw inputs.
        title: What is compared on what.
        members: Members per ensemble.
        ensembles: Ensembles per method, for standard errors.
        seed: One integer, or one per member of all ensembles.
        out: The comparison's folder.
        resume: Continue the comparison in ``out``.
        device: Where to train and evaluate.
        announce: Told what begins.
        training: Further arguments of :func:`tepui.fit`.

    Returns:
        The comparison, also written to ``out``.

    Raises:
        FileExistsError: If ``out`` holds something and ``resume`` is false.
        ValueError: If an argument breaks its rule.
    """
    require(len(methods) > 0, "methods", "hold at least one method", list(methods))
    require(members > 0, "members", "be positive", members)
    require(ensembles > 0, "ensembles", "be positive", ensembles)
    require(
        unlabeled is None or any(method.needs_unlabeled for method in methods),
        "unlabeled",
        "be None where no method uses such data",
        type(unlabeled).__name__,
    )
    folder = Path(out)
    if folder.exists() and any(folder.iterdir()) and not resume:
        raise FileExistsError(
            f"{folder} is not empty; pass resume=True (--resume) to continue it, or "
            "choose another folder"
        )
    seeds = member_seeds(seed, members * ensembles)
    groups = [
        seeds[first * members : (first + 1) * members] for first in range(ensembles)
    ]
    if isinstance(ood, Mapping):
        ood = {name: prepared_like(data, test) for name, data in ood.items()}
    check_ood({} if ood is None else ood, test)
    check_metrics({} if metrics is None else metrics, TAKEN_NAMES)
    make: Callable[..., Ensemble] = Ensemble.build
    learned, beside = train, unlabeled
    if extractor is not None:
        augment = training.get("augment")
        require(not augment, "augment", "be left out beside an extractor", augment)
        extractor = frozen(extractor).to(device or _default_device())
        make = partial(Ensemble.on_features, extractor)
        read = partial(cached_features, extractor, folder=folder / FEATURES)
        learned, beside = read(train), None if unlabeled is None else read(unlabeled)
    results = []
    for label, method in zip(labels(methods), methods, strict=True):
        trained = []
        for number, group in enumerate(groups):
            announce(f"{label}, ensemble {number + 1} of {ensembles}")
            name = f"{_slug(label)}/{number}"
            ensemble = make(factory, members, group)
            _check_test(ensemble.heads, learned, test, training)
            run = fit(
                ensemble.heads,
                learned,
                method=method,
                unlabeled=beside if method.needs_unlabeled else None,
                out=folder / name,
                resume=True,
                device=device,
                **training,
            )
            model = type(run.ensemble.members[0]).__qualname__
            ensemble.to(device_of(run.ensemble))
            document = _evaluation(ensemble, test, shifted, ood, metrics, folder / name)
            seconds = sum(record.seconds for record in run.history)
            flat = _sharpness(run.ensemble, learned, sharpness, folder / name)
            trained.append(Trained(name, group, seconds, document, run.summary, flat))
        results.append(MethodResult(label, to_jsonable(method), tuple(trained)))
    settings = {
        "members": members,
        "ensembles": ensembles,
        "model": model,
        "extractor": None if extractor is None else description(extractor),
        "train": fingerprint(train),
        "unlabeled": None if unlabeled is None else fingerprint(unlabeled),
        **tested_on(test, shifted, ood),
        "sharpness": None if sharpness is None else dict(sharpness),
        "seeds": list(seeds),
        "threads": torch.get_num_threads(),
        **{name: to_jsonable(value) for name, value in training.items()},
    }
    where = torch.device(device or _default_device())
    comparison = Comparison(title, settings, environment_of(where), tuple(results))
    write_json(folder / FILE, {"format": FORMAT, **asdict(comparison)})
    return comparison


def read_comparison(path: str | Path) -> Comparison:
    """Read a comparison from its folder.

    Args:
        path: The folder.

    Returns:
        The comparison.

    Raises:
        FileNotFoundError: If no comparison ended there.
        ValueError: If it was written in another format.
    """
    file = Path(path) / FILE
    if not file.is_file():
        raise FileNotFoundError(
            f"{path} holds no finished comparison (no {FILE}); "
            "finish one with: tepui compare --out PATH --resume"
        )
    document = read_json(file)
    require(
        isinstance(document, dict) and document.get("format") == FORMAT,
        f"format of {file}",
        f"be {FORMAT}",
        document.get("format") if isinstance(document, dict) else document,
    )
    return Comparison.of(document)


def labels(methods: Sequence[Method]) -> list[str]:
    """Return a name for each method, with hyperparameters where names repeat.

    Example:
        >>> from tepui.methods import SAM, DeepEnsemble
        >>> labels([DeepEnsemble(), SAM(rho=0.1)])
        ['DeepEnsemble', 'SAM']
    """
    names = [type(method).__name__ for method in methods]
    counts = Counter(names)
    shown = [
        repr(method) if counts[name] > 1 else name
        for name, method in zip(names, methods, strict=True)
    ]
    for label, times in Counter(shown).items():
        require(times == 1, "methods", "differ from each other", f"{label} twice")
    return shown


def _default_device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def _check_test(
    ensemble: Ensemble,
    train: Dataset[Any],
    test: Dataset[Any],
    training: Mapping[str, Any],
) -> None:
    """Refuse test labels that the members cannot give, before they are trained."""
    loss = training.get("loss", cross_entropy)
    classes = classes_of(ensemble, train, loss)
    check_labels("test", test, classes, train)


def tested_on(
    test: Dataset[Any],
    shifted: Mapping[tuple[str, int], Dataset[Any]] | None,
    ood: Mapping[str, Dataset[Any]] | None,
) -> dict[str, Any]:
    """Return what tells this test from another, as JSON holds it."""
    about: dict[str, Any] = {"test": fingerprint(test)}
    about["cells"] = [list(cell) for cell in shifted or {}]
    if isinstance(shifted, Corrupted):
        about |= {"strength": shifted.strength, "seed": shifted.seed}
    elif shifted:
        about["copies"] = [fingerprint(copy) for copy in shifted.values()]
    if ood:
        about["ood"] = {name: fingerprint(data) for name, data in ood.items()}
    return about


def _evaluation(
    ensemble: Ensemble,
    test: Dataset[Any],
    shifted: Mapping[tuple[str, int], Dataset[Any]] | None,
    ood: Mapping[str, Dataset[Any]] | None,
    metrics: Mapping[str, Metric] | None,
    folder: Path,
) -> dict[str, Any]:
    """Evaluate once; a resumed comparison reads what was measured on the same data."""
    file = folder / EVALUATION
    about = tested_on(test, shifted, ood)
    if file.exists():
        stored: dict[str, Any] = read_json(file)
        same_metrics = stored.get("metrics") == list(metrics or {})
        if stored.get("about") == about and same_metrics:
            return stored
    evaluation = evaluate(
        ensemble,
        test,
        shifted=shifted,
        ood=ood,
        metrics=metrics,
        out=folder,
        overwrite=True,
    )
    write_gallery(folder, test, ood or {})
    document = {"about": about, **evaluation.document()}
    write_json(file, document)
    return document


def _sharpness(
    ensemble: Ensemble,
    train: Dataset[Any],
    options: Mapping[str, Any] | None,
    folder: Path,
) -> dict[str, Any] | None:
    """Measure once; a resumed comparison reads what was measured the same way."""
    if options is None:
        return None
    file = folder / SHARPNESS
    about = {"train": fingerprint(train), "options": dict(options)}
    if file.exists():
        known: dict[str, Any] = read_json(file)
        if known.get("about") == about:
            return known
    found = measure(ensemble, train, partial(worst_case, **options))
    document = {"about": about, **found["worst_case"].document()}
    write_json(file, document)
    return document


def _slug(label: str) -> str:
    return re.sub(r"[^A-Za-z0-9.=]+", "-", label).strip("-")
