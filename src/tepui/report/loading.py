"""Runs of any kind, gathered for one page.

A comparison, a run that was evaluated, and the results of a study lie in folders of
their own. Ensembles stand on one page only if they were tested on the same data and
joined by the same rule. Of unfamiliar data it shows those that all were tested on. Runs
that differ in nothing but their seeds are repetitions of one method.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tepui.core.checks import require
from tepui.core.spec import differences
from tepui.core.storage import read_text, reading
from tepui.ensembles.loading import check_ended
from tepui.evaluation.evaluations import CLEAN, file_of, is_evaluated
from tepui.report.comparison import Comparison, MethodResult, read_trained, shared
from tepui.studies.contrasts import contrast_records
from tepui.studies.results import FILE as RESULTS
from tepui.studies.results import Record, Results, read_results
from tepui.training.run_folder import RunFolder, recorded_options

SHARED = ("model", "members", "epochs", "equal")  # settings of all methods


@dataclass(frozen=True)
class ReportSource:
    """A folder that numbers come from."""

    path: Path
    title: str
    settings: Mapping[str, Any]  # how its ensembles were trained
    environment: Mapping[str, Any]  # versions, hardware and the command


@dataclass(frozen=True)
class Study:
    """The results of a figure or table, with the picture drawn of them."""

    path: Path
    results: Results
    picture: str | None  # an SVG document; None where there is none


@dataclass(frozen=True)
class LoadedReports:
    """All that a report shows.

    Attributes:
        title: In a line.
        comparison: Methods and their ensembles; None if only studies are shown.
        studies: Results of figures and tables.
        sources: Every folder, as it was named.
    """

    title: str
    comparison: Comparison | None
    studies: tuple[Study, ...]
    sources: tuple[ReportSource, ...]


def load_reports(paths: Sequence[str | Path]) -> LoadedReports:
    """Read folders of comparisons, of evaluated runs and of results.

    Args:
        paths: The folders, in the order in which they are shown.

    Returns:
        What they hold.

    Raises:
        FileNotFoundError: If a folder holds nothing to show; says what to do.
        ValueError: If none is named, one twice, ensembles were not tested alike, or a
            file is foreign or damaged.
    """
    folders = [Path(path) for path in paths]
    require(len(folders) > 0, "runs", "name at least one folder", [])
    for path, times in Counter(path.resolve() for path in folders).items():
        require(times == 1, "runs", "name each folder once", str(path))
    methods: list[tuple[str, MethodResult]] = []
    records: tuple[Record, ...] = ()
    studies, sources = [], []
    for folder in folders:
        if (folder / RESULTS).is_file():
            found = read_results(folder)
            if "runs" in found.settings:
                source, several = _of_comparison(folder, found)
                methods += several
                records = found.records if len(folders) == 1 else ()
            else:
                source = ReportSource(folder, found.title, {}, found.environment)
                studies.append(Study(folder, found, _picture(folder)))
        elif is_evaluated(folder):
            with reading(folder, "evaluations with all of their fields"):
                source, one = _of_run(folder)
            methods.append(one)
        else:
            raise FileNotFoundError(_remedy(folder))
        sources.append(source)
    single = len(sources) == 1
    title = sources[0].title if single else f"{len(sources)} runs side by side"
    return LoadedReports(
        title, _joint(methods, records), tuple(studies), tuple(sources)
    )


def _of_comparison(
    folder: Path, found: Results
) -> tuple[ReportSource, list[tuple[str, MethodResult]]]:
    settings = {n: value for n, value in found.settings.items() if n != "runs"}
    source = ReportSource(folder, found.title, settings, found.environment)
    # A comparison's method is whole: nothing is added to its repetitions.
    methods = methods_of(folder, found)
    return source, [(f"{folder.resolve()}/{each.label}", each) for each in methods]


def methods_of(folder: Path, found: Results) -> list[MethodResult]:
    """Return what each method of a comparison gave; the runs lie in its folder."""
    settings, root = found.settings, folder.resolve()
    for name in (name for names in settings["runs"].values() for name in names):
        inside = (root / name).resolve().is_relative_to(root)
        require(inside, f"folders in {folder / RESULTS}", "lie inside its own", name)
    training = {name: settings.get(name) for name in SHARED}
    training["data"] = recorded_options(folder).get("data")
    training["samples"] = settings.get("train", {}).get("samples")
    spent: dict[str, dict[str, float]] = {}
    for record in found.records:
        if record.dataset == "training" and record.metric in ("epochs", "passes"):
            own = spent.setdefault(record.method, {})
            own[record.metric] = round(record.value or 0)
    return [
        MethodResult(
            label,
            tuple(read_trained(folder / name) for name in names),
            {**training, **spent.get(label, {})},
            (folder,),
        )
        for label, names in settings["runs"].items()
    ]


def _of_run(folder: Path) -> tuple[ReportSource, tuple[str, MethodResult]]:
    run = RunFolder(folder)
    recorded = run.recorded() if run.started else {"config": {}, "environment": {}}
    config, environment = recorded["config"], recorded["environment"]
    trained, options = read_trained(folder), recorded_options(folder)
    method = config.get("method", {})
    label = method["class"].rpartition(".")[2] if method else folder.name
    models = [model.get("model") for model in config.get("models", [])]
    training = {
        "model": ", ".join(dict.fromkeys(map(str, models))) or None,
        "members": trained.evaluation["members"],
        "epochs": config.get("epochs"),
        "data": options.get("data"),
        "samples": config.get("data", {}).get("samples"),
    }
    same = {name: config[name] for name in config.keys() - {"seeds", "threads"}}
    key = json.dumps(same, sort_keys=True) if config else str(folder.resolve())
    title = f"{label if method else 'Evaluation'} in {folder.name}"
    source = ReportSource(folder, title, config, environment)
    return source, (key, MethodResult(label, (trained,), training, (folder,)))


def _picture(folder: Path) -> str | None:
    file = folder / "figure.svg"
    return read_text(file) if file.is_file() else None


def _joint(
    found: Sequence[tuple[str, MethodResult]], records: tuple[Record, ...]
) -> Comparison | None:
    """Join repetitions of one method; refuse ensembles that were tested otherwise."""
    if not found:
        return None
    methods: dict[str, MethodResult] = {}
    first = found[0][1]
    for key, method in found:
        apart = differences(_tested(first, method), _tested(method, first))
        where = f"the evaluation in {method.sources[0]}"
        rule = f"be on the same data as that in {first.sources[0]}; what differs"
        require(not apart, where, rule, ", ".join(apart))
        before = methods.get(key)
        methods[key] = method if before is None else _joined(before, method)
    shown = tuple(_distinct([*methods.values()]))
    return Comparison(shown, records or tuple(_contrasts(shown)))


def _contrasts(methods: Sequence[MethodResult]) -> Iterator[Record]:
    """Yield gains, and differences over the seeds that all methods share."""
    folders = {
        method.label: {each.seeds: Path(each.folder) for each in method.ensembles}
        for method in methods
    }
    seeds = [each for each in shared(folders.values()) if each]
    names = {"item": "", "architecture": ""}
    if len(methods) > 1 and len(seeds) > 1:
        runs = {label: [own[each] for each in seeds] for label, own in folders.items()}
        yield from contrast_records(runs, names)
        return
    for label, own in folders.items():
        yield from contrast_records({label: [*own.values()]}, names)


def _tested(method: MethodResult, other: MethodResult) -> dict[str, Any]:
    """Return on what a method was tested, of unfamiliar data those of another, too."""
    one, two = (each.ensembles[0].evaluation for each in (method, other))
    about = dict(one.get("about", {}))
    far = two.get("about", {}).get("ood", {})
    about["ood"] = {n: v for n, v in about.pop("ood", {}).items() if n in far}
    names = sorted(one["clean"].keys() - {*one.get("metrics", [])})
    return {"rule": one["rule"], "scores": names, **about}


def _joined(first: MethodResult, second: MethodResult) -> MethodResult:
    """Return two repetitions as one method; the same seeds are no repetition."""
    again = second.ensembles[0].seeds
    require(
        again not in {trained.seeds for trained in first.ensembles},
        str(second.sources[0]),
        f"differ in its seeds from {first.sources[0]}, whose settings it repeats",
        list(again),
    )
    several = first.ensembles + second.ensembles
    return replace(first, ensembles=several, sources=first.sources + second.sources)


def _distinct(methods: Sequence[MethodResult]) -> list[MethodResult]:
    """Add folders to labels that repeat; their names, if these tell them apart."""
    labels = [method.label for method in methods]
    for whole in (False, True):
        counts = Counter(labels)
        labels = [
            label if counts[label] == 1 else f"{own.label} ({_place(own, whole)})"
            for own, label in zip(methods, labels, strict=True)
        ]
    pairs = zip(methods, labels, strict=True)
    return [replace(method, label=label) for method, label in pairs]


def _place(method: MethodResult, whole: bool) -> str:
    """Return where a method comes from, and how many others it has."""
    first, *others = method.sources
    place = str(first) if whole else first.name
    return f"{place} and {len(others)} more" if others else place


def _remedy(folder: Path) -> str:
    if RunFolder(folder).started:
        check_ended(folder)  # else there is nothing to evaluate
        return (
            f"{folder} holds a run that was not evaluated (no {file_of('', CLEAN)}); "
            f"evaluate it with: tepui evaluate {folder}"
        )
    return (
        f"{folder} holds nothing to report: no finished comparison or results of a "
        f"study ({RESULTS}) and no evaluated run ({file_of('', CLEAN)})"
    )
