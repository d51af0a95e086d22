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
from tepui.data.shifts import NATURAL
from tepui.ensembles.loading import check_ended
from tepui.evaluation.evaluations import CLEAN, file_of, is_evaluated
from tepui.report.comparison import (
    Comparison,
    MethodResult,
    comparison_of,
    read_trained,
    shared,
)
from tepui.studies.comparison_records import contrast_records
from tepui.studies.results import FILE as RESULTS
from tepui.studies.results import Record, Results, read_results
from tepui.training.history import Outcome
from tepui.training.run_folder import RunFolder, recorded_options


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
class Entry:
    """One method in a group."""

    # its ensembles and their scores; their folders are those on disk
    result: MethodResult
    sources: tuple[Path, ...]  # where it comes from; several for repetitions
    # model, members, epochs, passes, data and training samples, where they are known
    training: Mapping[str, Any]
    outcomes: tuple[Outcome, ...]  # of each ensemble's training; empty if not known


@dataclass(frozen=True)
class Group:
    """Methods tested on the same data."""

    # what they were tested on; None where the evaluation does not say
    tested: Mapping[str, Any] | None
    entries: tuple[Entry, ...]  # the methods; no two have the same label
    records: tuple[Record, ...] = ()  # of the one comparison that is shown

    @property
    def comparison(self) -> Comparison:
        """The methods, in the form that tables and plots take."""
        methods = tuple(entry.result for entry in self.entries)
        return Comparison(self.title, {}, {}, methods, self.records)

    @property
    def title(self) -> str:
        """The test data in words."""
        first = self.entries[0].result.ensembles[0].evaluation
        tested = self.tested or {}
        name = tested.get("test", {}).get("class", "unnamed test data")
        cells, sets = first.get("cells", []), list(first.get("ood", {}))
        natural = [cell["type"] for cell in cells if cell["severity"] == NATURAL]
        copies = len(cells) - len(natural)
        words = [f"{name}, {first['samples']} test samples"]
        words += [f"{copies} corrupted copies"] if copies else []
        words += [f"natural shifts: {', '.join(natural)}"] if natural else []
        words += [f"unfamiliar: {', '.join(sets)}"] if sets else []
        return ", ".join(words)


@dataclass(frozen=True)
class LoadedReports:
    """All that a report shows.

    Attributes:
        title: In a line.
        group: Ensembles; None if only studies are shown.
        studies: Results of figures and tables.
        sources: Every folder, as it was named.
    """

    title: str
    group: Group | None
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
    entries: list[tuple[str, Entry]] = []
    records: tuple[Record, ...] = ()
    studies, sources = [], []
    for folder in folders:
        if (folder / RESULTS).is_file():
            found = read_results(folder)
            if "runs" in found.settings:
                source, methods = _of_comparison(folder, found)
                entries += methods
                records = found.records if len(folders) == 1 else ()
            else:
                source = ReportSource(folder, found.title, {}, found.environment)
                studies.append(Study(folder, found, _picture(folder)))
        elif is_evaluated(folder):
            with reading(folder, "evaluations with all of their fields"):
                source, one = _of_run(folder)
            entries.append(one)
        else:
            raise FileNotFoundError(_remedy(folder))
        sources.append(source)
    single = len(sources) == 1
    title = sources[0].title if single else f"{len(sources)} runs side by side"
    return LoadedReports(
        title, _group(entries, records), tuple(studies), tuple(sources)
    )


def _of_comparison(
    folder: Path, found: Results
) -> tuple[ReportSource, list[tuple[str, Entry]]]:
    comparison, options = comparison_of(found, folder), recorded_options(folder)
    settings = comparison.settings
    training = {
        "model": settings.get("model"),
        "members": settings.get("members"),
        "epochs": settings.get("epochs"),
        "equal": settings.get("equal"),
        "data": options.get("data"),
        "samples": settings.get("train", {}).get("samples"),
    }
    spent: dict[str, dict[str, float]] = {}
    for record in found.records:
        if record.dataset == "training" and record.metric in ("epochs", "passes"):
            own = spent.setdefault(record.method, {})
            own[record.metric] = round(record.value or 0)
    entries = []
    for method in comparison.methods:
        ensembles = tuple(
            replace(trained, folder=str(folder / trained.folder))
            for trained in method.ensembles
        )
        runs = [RunFolder(ensemble.folder) for ensemble in ensembles]
        entry = Entry(
            replace(method, ensembles=ensembles),
            (folder,),
            {**training, **spent.get(method.label, {})},
            tuple(run.outcome() for run in runs),
        )
        # A comparison's method is whole: nothing is added to its repetitions.
        entries.append((f"{folder.resolve()}/{method.label}", entry))
    methods = {method.label: method.hyperparameters for method in comparison.methods}
    shown = {"methods": methods, **settings}
    source = ReportSource(folder, comparison.title, shown, comparison.environment)
    return source, entries


def _of_run(folder: Path) -> tuple[ReportSource, tuple[str, Entry]]:
    run = RunFolder(folder)
    recorded = run.recorded() if run.started else {"config": {}, "environment": {}}
    config, environment = recorded["config"], recorded["environment"]
    trained, options = read_trained(folder), recorded_options(folder)
    method = config.get("method", {})
    label = method["class"].rpartition(".")[2] if method else folder.name
    models = [model.get("model") for model in config.get("models", [])]
    result = MethodResult(label, method, (trained,))
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
    return source, (key, Entry(result, (folder,), training, (run.outcome(),)))


def _picture(folder: Path) -> str | None:
    file = folder / "figure.svg"
    return read_text(file) if file.is_file() else None


def _group(
    entries: Sequence[tuple[str, Entry]], records: tuple[Record, ...]
) -> Group | None:
    """Join repetitions of one method; refuse ensembles that were tested otherwise."""
    if not entries:
        return None
    methods: dict[str, Entry] = {}
    first = entries[0][1]
    for key, entry in entries:
        found = differences(_tested(first, entry), _tested(entry, first))
        where = f"the evaluation in {entry.sources[0]}"
        rule = f"be on the same data as that in {first.sources[0]}; what differs"
        require(not found, where, rule, ", ".join(found))
        before = methods.get(key)
        methods[key] = entry if before is None else _joined(before, entry)
    measured = [
        trained.sharpness.get("about")
        for entry in methods.values()
        for trained in entry.result.ensembles
        if trained.sharpness is not None
    ]
    alike = all(about == measured[0] for about in measured)
    distinct = _distinct([*methods.values()])
    shown = tuple(each if alike else _without_sharpness(each) for each in distinct)
    about = first.result.ensembles[0].evaluation.get("about")
    return Group(about, shown, records or tuple(_contrasts(shown)))


def _contrasts(entries: Sequence[Entry]) -> Iterator[Record]:
    """Yield gains, and differences over the seeds that all methods share."""
    labels = [entry.result.label for entry in entries]
    folders = [
        {each.seeds: Path(each.folder) for each in entry.result.ensembles}
        for entry in entries
    ]
    seeds = [each for each in shared(folders) if each]
    names = {"item": "", "architecture": ""}
    if len(entries) > 1 and len(seeds) > 1:
        runs = [[own[each] for each in seeds] for own in folders]
        yield from contrast_records(dict(zip(labels, runs, strict=True)), names)
        return
    for label, own in zip(labels, folders, strict=True):
        yield from contrast_records({label: [*own.values()]}, names)


def _tested(entry: Entry, other: Entry) -> dict[str, Any]:
    """Return on what an entry was tested, of unfamiliar data those of another, too."""
    one, two = (each.result.ensembles[0].evaluation for each in (entry, other))
    about = dict(one.get("about", {}))
    far = two.get("about", {}).get("ood", {})
    about["ood"] = {n: v for n, v in about.pop("ood", {}).items() if n in far}
    names = sorted(one["clean"].keys() - {*one.get("metrics", [])})
    return {"rule": one["rule"], "scores": names, **about}


def _without_sharpness(entry: Entry) -> Entry:
    plain = (replace(trained, sharpness=None) for trained in entry.result.ensembles)
    return replace(entry, result=replace(entry.result, ensembles=tuple(plain)))


def _joined(first: Entry, second: Entry) -> Entry:
    """Return two repetitions as one method; the same seeds are no repetition."""
    seeds = {trained.seeds for trained in first.result.ensembles}
    again = second.result.ensembles[0].seeds
    require(
        again not in seeds,
        str(second.sources[0]),
        f"differ in its seeds from {first.sources[0]}, whose settings it repeats",
        list(again),
    )
    ensembles = first.result.ensembles + second.result.ensembles
    return Entry(
        replace(first.result, ensembles=ensembles),
        first.sources + second.sources,
        first.training,
        first.outcomes + second.outcomes,
    )


def _distinct(entries: list[Entry]) -> list[Entry]:
    """Add folders to labels that repeat; their names, if these tell them apart."""
    plain = [entry.result.label for entry in entries]
    labels = plain
    for whole in (False, True):
        counts = Counter(labels)
        labels = [
            label if counts[label] == 1 else f"{own} ({_place(entry, whole)})"
            for entry, own, label in zip(entries, plain, labels, strict=True)
        ]
    return [
        replace(entry, result=replace(entry.result, label=label))
        for entry, label in zip(entries, labels, strict=True)
    ]


def _place(entry: Entry, whole: bool) -> str:
    """Return where an entry comes from, and how many others it has."""
    first, *others = entry.sources
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
