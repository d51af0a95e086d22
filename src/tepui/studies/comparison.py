"""What a comparison of several methods gave, and its document."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tepui.core.agreement import differences
from tepui.core.checks import require
from tepui.core.notebooks import ShownInNotebooks
from tepui.core.storage import read_document
from tepui.studies.contrasts import contrast, one_prediction
from tepui.studies.method_result import MethodResult, natural_in, scores_on
from tepui.studies.significance import Difference
from tepui.studies.trained import Trained

FILE = "comparison.json"
KIND = "comparison"
# Settings that change no result.
_OF_NO_CONSEQUENCE = {"threads", "progress", "workers", "checkpoint_every"}


@dataclass(frozen=True)
class Comparison(ShownInNotebooks):
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

    def __str__(self) -> str:
        return "\n".join([self.title, *_lines(self)])

    @property
    def has_shift(self) -> bool:
        """Whether corrupted data were evaluated."""
        return all(
            ensemble.evaluation["shifted"] is not None for ensemble in self.ensembles()
        )

    @property
    def natural_shifts(self) -> tuple[str, ...]:
        """Names of the natural shifts on which all ensembles were evaluated."""
        first, *others = (natural_in(item.evaluation) for item in self.ensembles())
        return tuple(name for name in first if all(name in sets for sets in others))

    @property
    def ood_sets(self) -> tuple[str, ...]:
        """Names of the unfamiliar sets on which all ensembles were evaluated."""
        first, *others = (
            ensemble.evaluation.get("ood", {}) for ensemble in self.ensembles()
        )
        return tuple(name for name in first if all(name in sets for sets in others))

    @property
    def score_names(self) -> frozenset[str]:
        """Names of the scores by which all ensembles were evaluated on clean data."""
        rows = [ensemble.evaluation["clean"] for ensemble in self.ensembles()]
        return frozenset.intersection(*(frozenset(row) for row in rows))

    @property
    def has_mistakes(self) -> bool:
        """Whether it was evaluated how well all ensembles' mistakes are found."""
        return all(ensemble.evaluation.get("mistakes") for ensemble in self.ensembles())

    @property
    def detecting_scores(self) -> tuple[str, ...]:
        """The scores that find mistakes or unfamiliar samples, of all ensembles."""
        names = []
        for ensemble in self.ensembles():
            found = ensemble.evaluation.get("ood", {})
            tables = [*found.values(), ensemble.evaluation.get("mistakes", {})]
            names += [dict.fromkeys(by_score) for by_score in tables if by_score]
        return tuple(
            n for n in (names[0] if names else ()) if all(n in x for x in names)
        )

    @property
    def custom_metrics(self) -> tuple[str, ...]:
        """Names of the caller's own metrics by which all ensembles were evaluated."""
        first, *others = (ensemble.evaluation for ensemble in self.ensembles())
        names = first.get("metrics", [])
        return tuple(
            n for n in names if all(n in evaluation["clean"] for evaluation in others)
        )

    @property
    def has_sharpness(self) -> bool:
        """Whether the sharpness of any members was measured."""
        return any(ensemble.sharpness is not None for ensemble in self.ensembles())

    def ensembles(self) -> Iterator[Trained]:
        """Yield all ensembles, method after method."""
        return (ensemble for method in self.methods for ensemble in method.ensembles)

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


def _lines(comparison: Comparison) -> Iterator[str]:
    """Yield the means of a comparison's most telling scores, data by data."""
    names = [name for name in BETTER if name in comparison.score_names]
    names += comparison.custom_metrics
    first = max(9, *(len(method.label) for method in comparison.methods))
    corrupted = {"shifted": "corrupted"} if comparison.has_shift else {}
    natural = {name: name for name in comparison.natural_shifts}
    kinds = {"clean": "clean", **corrupted, **natural}
    for data, shown in kinds.items():
        cells = "".join(f"  {name.replace('_', ' '):>8}" for name in names)
        yield f"  {shown:{first}}{cells}"
        for method in comparison.methods:
            means = {name: method.score(data, name).mean for name in names}
            cells = "".join(f"  {means[n]:>{max(8, len(n))}.4g}" for n in names)
            yield f"  {method.label:{first}}{cells}"
    counts = sorted({len(method.ensembles) for method in comparison.methods})
    yield f"  means over ensembles ({' or '.join(map(str, counts))} per method)"
    yield from apart_lines(comparison.methods, kinds, names)


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
    document = read_document(file, KIND)
    try:
        comparison = Comparison.of(document)
    except (KeyError, TypeError) as error:
        raise ValueError(f"{file} must hold a comparison, but: {error!r}") from error
    root = file.parent.resolve()
    for trained in comparison.ensembles():
        inside = (root / trained.folder).resolve().is_relative_to(root)
        require(inside, f"folders in {file}", "lie inside its own", trained.folder)
    return comparison


def earlier_methods(
    folder: Path, asked: Sequence[str], settings: Mapping[str, Any]
) -> dict[str, MethodResult]:
    """Return the methods that a resumed comparison has already, by label.

    Raises:
        ValueError: If it has others than are asked for, under other settings: they
            could not stand in one table.
    """
    if not (folder / FILE).is_file():
        return {}
    before = read_comparison(folder)
    known = {method.label: method for method in before.methods}
    if others := [label for label in known if label not in asked]:
        then, now = before.settings, json.loads(json.dumps(settings))
        parts = {name.partition(".")[0] for name in differences(then, now)}
        changed = sorted(parts - _OF_NO_CONSEQUENCE)
        rule = (
            f"hold those of {folder} too ({', '.join(others)}), since these differ: "
            f"{', '.join(changed)}"
        )
        require(not changed, "methods", rule, ", ".join(asked))
    return known


# What a printed comparison shows, of whatever task it is, and which sign is better.
BETTER = {
    "individual_accuracy": 1,
    "accuracy": 1,
    "mean_iou": 1,
    "mean_average_precision": 1,
    "mean_auroc": 1,
    "rmse": -1,
    "crps": -1,
    "quantile_loss": -1,
    "nll": -1,
    "ece": -1,
}


def apart_lines(
    methods: Sequence[MethodResult], kinds: Mapping[str, str], names: Sequence[str]
) -> Iterator[str]:
    """Yield which scores are apart from the first method's, by their paired intervals.

    Args:
        methods: The methods; the first is what the others are compared to.
        kinds: Kinds of data, with what they are called.
        names: Scores.

    Yields:
        Lines of text; none where no two methods share the seeds of two ensembles.
    """
    base, *others = methods
    known, lines = False, []
    for method in others:
        for data, shown in kinds.items():
            found = {name: _difference(method, base, data, name) for name in names}
            known |= any(found.values())
            said = [_said(n, each) for n, each in found.items() if each and each.apart]
            if said:
                lines.append(f"  {method.label} on {shown} data: {', '.join(said)}")
    if known:
        beside = "; hints, as chance alone brings one in twenty" if lines else ""
        yield (
            f"  {'apart' if lines else 'nothing is apart'} from {base.label} "
            f"(95 % intervals over ensembles of the same seeds{beside})"
        )
    yield from lines


def _difference(
    method: MethodResult, base: MethodResult, data: str, name: str
) -> Difference | None:
    def read(trained: Trained) -> float | None:
        return scores_on(data, trained.evaluation).get(name)

    return contrast(method, base, read, one_prediction(name, data, method))


def _said(name: str, found: Difference) -> str:
    worth = BETTER.get(name, 0) * found.mean  # of one's own metric not known
    judged = " (better)" if worth > 0 else " (worse)" if worth < 0 else ""
    return f"{name.replace('_', ' ')} {found.mean:+.2g}{judged}"
