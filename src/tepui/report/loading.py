"""Runs of any kind, gathered for one report: what may stand beside what.

A comparison, a run that was evaluated, and the results of a study lie in folders of
their own. Ensembles come into one group, and so into one table, only where they were
tested on the same data and joined by the same rule; others form another group. Of
unfamiliar data a group shows those that all of it were tested on. Runs that differ in
nothing but their seeds are repetitions of one method.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tepui.core.checks import require
from tepui.core.grammar import Call, parsed
from tepui.core.storage import read_text
from tepui.data.shifts import NATURAL
from tepui.ensembles.loading import check_ended
from tepui.evaluation.evaluations import CLEAN, file_of, is_evaluated
from tepui.report.comparison import (
    Comparison,
    MethodResult,
    Trained,
    comparison_of,
    read_trained,
)
from tepui.studies.results import FILE as RESULTS
from tepui.studies.results import Results, read_results
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
    # model, members, epochs, data (the file and the class), training samples and
    # hardware, where they are known
    training: Mapping[str, Any]
    outcomes: tuple[Outcome, ...]  # of each ensemble's training; empty if not known


@dataclass(frozen=True)
class Group:
    """Methods tested on the same data."""

    # what they were tested on; None where the evaluation does not say
    tested: Mapping[str, Any] | None
    entries: tuple[Entry, ...]  # the methods; no two have the same label
    # what was left out since it could not stand in one column
    notes: tuple[str, ...] = ()

    @property
    def comparison(self) -> Comparison:
        """The methods, in the form that tables and plots take."""
        methods = tuple(entry.result for entry in self.entries)
        return Comparison(self.title, {}, {}, methods)

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
        return ", ".join([*words, f"{first['rule']} rule"])


@dataclass(frozen=True)
class LoadedReports:
    """All that a report shows.

    Attributes:
        title: In a line.
        groups: Ensembles, by what they were tested on.
        studies: Results of figures and tables.
        sources: Every folder, as it was named.
    """

    title: str
    groups: tuple[Group, ...]
    studies: tuple[Study, ...]
    sources: tuple[ReportSource, ...]


def load_reports(paths: Sequence[str | Path]) -> LoadedReports:
    """Read folders of comparisons, of evaluated runs and of results.

    Args:
        paths: The folders, in the order in which they are shown.

    Returns:
        What they hold, grouped.

    Raises:
        FileNotFoundError: If a folder holds nothing to show; says what to do.
        ValueError: If none is named, one twice, or a file is foreign or damaged.
    """
    folders = [Path(path) for path in paths]
    require(len(folders) > 0, "runs", "name at least one folder", [])
    for path, times in Counter(path.resolve() for path in folders).items():
        require(times == 1, "runs", "name each folder once", str(path))
    entries: list[tuple[str, Entry]] = []
    studies, sources = [], []
    for folder in folders:
        if (folder / RESULTS).is_file():
            found = read_results(folder)
            if "runs" in found.settings:
                source, methods = _of_comparison(folder, found)
                entries += methods
            else:
                source = ReportSource(folder, found.title, {}, found.environment)
                studies.append(Study(folder, found, _picture(folder)))
        elif is_evaluated(folder):
            source, one = _of_run(folder)
            entries.append(one)
        else:
            raise FileNotFoundError(_remedy(folder))
        sources.append(source)
    single = len(sources) == 1
    title = sources[0].title if single else f"{len(sources)} runs side by side"
    return LoadedReports(title, _groups(entries), tuple(studies), tuple(sources))


def _of_comparison(
    folder: Path, found: Results
) -> tuple[ReportSource, list[tuple[str, Entry]]]:
    comparison, options = comparison_of(found, folder), recorded_options(folder)
    settings = comparison.settings
    training = {
        "model": settings.get("model"),
        "members": settings.get("members"),
        "epochs": settings.get("epochs"),
        "data": data_in_words(options),
        "samples": settings.get("train", {}).get("samples"),
        "hardware": comparison.environment.get("hardware"),
    }
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
            {**training, "data_class": _data_class(options, method)},
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
        "data": data_in_words(options),
        "data_class": _data_class(options, result),
        "samples": config.get("data", {}).get("samples"),
        "hardware": environment.get("hardware"),
    }
    same = {name: config[name] for name in config.keys() - {"seeds", "threads"}}
    key = json.dumps(same, sort_keys=True) if config else str(folder.resolve())
    title = f"{label if method else 'Evaluation'} in {folder.name}"
    share = options.get("validation")  # or other data, which the configuration has
    known = isinstance(share, float)
    asked = {**config, "validation_share": share} if known else config
    source = ReportSource(folder, title, asked, environment)
    return source, (key, Entry(result, (folder,), training, (run.outcome(),)))


def _data_class(options: Mapping[str, Any], result: MethodResult) -> str | None:
    """Return the name of a data set; where none is recorded that of the test."""
    about = result.ensembles[0].evaluation.get("about", {})
    tested = about.get("test", {}).get("class")
    given = str(options.get("data") or tested or "").partition("(")[0]
    return given.rpartition(".")[2] or None


def _picture(folder: Path) -> str | None:
    file = folder / "figure.svg"
    return read_text(file) if file.is_file() else None


def _groups(entries: Iterable[tuple[str, Entry]]) -> tuple[Group, ...]:
    """Part methods by what they were tested on, and join repetitions of one."""
    parted: dict[str, dict[str, Entry]] = {}
    for key, entry in entries:
        methods = parted.setdefault(_tested(entry), {})
        before = methods.get(key)
        methods[key] = entry if before is None else _joined(before, entry)
    return tuple(_group(list(methods.values())) for methods in parted.values())


def _tested(entry: Entry) -> str:
    """Return a text that is the same only for the same test."""
    evaluation = entry.result.ensembles[0].evaluation
    if "about" not in evaluation:
        return str(entry.sources[0].resolve())
    about = {n: part for n, part in evaluation["about"].items() if n != "ood"}
    test = [evaluation["rule"], about]
    names = sorted(evaluation["clean"].keys() - {*evaluation.get("metrics", [])})
    return json.dumps([*test, names], sort_keys=True)


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


def _group(entries: list[Entry]) -> Group:
    entries, left_out = _with_shared_sets(_distinct(entries))
    tested = entries[0].result.ensembles[0].evaluation.get("about")
    notes: tuple[str, ...] = ()
    if left_out:
        notes = (f"unfamiliar {', '.join(left_out)}, which not all were tested on",)
    measured = {
        json.dumps(trained.sharpness.get("about"), sort_keys=True)
        for entry in entries
        for trained in entry.result.ensembles
        if trained.sharpness is not None
    }
    if len(measured) < 2:
        return Group(tested, tuple(entries), notes)
    note = "sharpness, which was measured in different ways or on different data"
    plain = [
        _with(entry, [replace(t, sharpness=None) for t in entry.result.ensembles])
        for entry in entries
    ]
    return Group(tested, tuple(plain), (*notes, note))


def _with_shared_sets(entries: list[Entry]) -> tuple[list[Entry], list[str]]:
    """Leave out the unfamiliar data that some were not tested on; name them."""
    ensembles = [trained for entry in entries for trained in entry.result.ensembles]
    known = [
        trained.evaluation.get("about", {}).get("ood", {}) for trained in ensembles
    ]
    names = dict.fromkeys(name for sets in known for name in sets)
    left_out = [n for n in names if any(s.get(n) != known[0].get(n) for s in known)]
    if not left_out:
        return entries, []
    return [_without_sets(entry, left_out) for entry in entries], left_out


def _without_sets(entry: Entry, names: list[str]) -> Entry:
    def kept(sets: Mapping[str, Any]) -> dict[str, Any]:
        return {name: found for name, found in sets.items() if name not in names}

    def without(evaluation: Mapping[str, Any]) -> dict[str, Any]:
        about = evaluation["about"]
        about = {**about, "ood": kept(about.get("ood", {}))}
        return {**evaluation, "about": about, "ood": kept(evaluation.get("ood", {}))}

    ensembles = entry.result.ensembles
    return _with(
        entry, [replace(t, evaluation=without(t.evaluation)) for t in ensembles]
    )


def _with(entry: Entry, ensembles: Iterable[Trained]) -> Entry:
    return replace(entry, result=replace(entry.result, ensembles=tuple(ensembles)))


def _distinct(entries: list[Entry]) -> list[Entry]:
    """Add folders to labels that repeat, no more of a path than tells them apart."""
    plain = [entry.result.label for entry in entries]
    labels = plain
    for parts in (1, 2, None):
        counts = Counter(labels)
        labels = [
            label if counts[label] == 1 else f"{own} ({_place(entry, parts)})"
            for entry, own, label in zip(entries, plain, labels, strict=True)
        ]
    return [
        replace(entry, result=replace(entry.result, label=label))
        for entry, label in zip(entries, labels, strict=True)
    ]


def _place(entry: Entry, parts: int | None) -> str:
    """Return the last parts of an entry's path, and how many others there are."""
    first, *others = entry.sources
    place = "/".join(first.parts[-parts:]) if parts else str(first)
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


def data_in_words(options: Mapping[str, Any]) -> str | None:
    """Return the file or folder of the data, and the column that is predicted.

    Of a path no more than its name is told; None where data have none.

    Example:
        >>> data_in_words({"data": "Table(path='/home/me/flats.csv', target='sold')"})
        'flats.csv, to predict sold'
    """
    tree = parsed(options.get("data") or "None", "data", own=True)
    given = tree.keywords if isinstance(tree, Call) else {}
    path, target = given.get("path"), given.get("target")
    if not isinstance(path, str):  # data of one's own may mean anything by it
        return None
    name = Path(path).name
    return name if target is None else f"{name}, to predict {target}"
