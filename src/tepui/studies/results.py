"""The one result of every study: records that join those of a paper by their names.

A record says what was measured of which method on which data, the value of every
repetition and of every member, and what follows from them. They are written as JSON,
sealed, and as two tables: ``results.csv`` has a line per record, ``records.csv`` a line
per value, which ``pandas.read_csv`` reads. Where a stand-in was used for a paper's data
or model, the results' settings and the record's note say so.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

import torch

from tepui.core.checks import require
from tepui.core.provenance import with_short_paths
from tepui.core.replacing import write_bytes
from tepui.core.storage import read_document, write_document
from tepui.core.text import ShownInNotebooks
from tepui.studies.specifications import Trial, digest
from tepui.studies.statistics import estimate, t_interval
from tepui.training.run_folder import environment_of

FILE = "results.json"
KIND = "results"
STAND_INS = "stand-ins"  # of settings: what was used, by the paper's names
TRAINED_ON = "trained on"
CORRUPTED = "_c"  # ends the names of corrupted copies
TABLE, LONG_TABLE = "results.csv", "records.csv"
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # how cells that spreadsheets run begin


@dataclass(frozen=True, kw_only=True)
class Record:
    """One number of a study.

    Attributes:
        item: The panel, figure or table, such as ``"sharpbalance/figure7a"``.
        dataset: Name of the paper's data set, lower case.
        architecture: Name of the paper's network.
        method: Name of the method.
        metric: What was measured.
        value: The number: the mean of ``values``, or what was fitted to them.
        unit: ``"percent"``, ``"percentage points"``, ``"fraction"``, ``"ratio"``,
            ``"count"``, ``"epochs"``, ``"minutes"`` or ``"none"``.
        n: Repetitions, or points of a fit.
        sem: Standard error of the mean; None for one repetition or a fit.
        interval: 95 % confidence interval; None where there is none.
        values: One per repetition, in the order of their seeds.
        members: One per member of all repetitions; empty where none were kept.
        seeds: One per member of all repetitions, in their order.
        at: Where else the number stands: severity, ensemble size, width and so on.
        config_hash: Name of all trials it rests on together.
        note: What differs from the paper, or how to read the number.
    """

    item: str
    dataset: str
    architecture: str
    method: str
    metric: str
    value: float | None
    unit: str
    n: int
    sem: float | None = None
    interval: tuple[float, float] | None = None
    values: tuple[float | None, ...] = ()
    members: tuple[float | None, ...] = ()
    seeds: tuple[int, ...] = ()
    at: Mapping[str, Any] = field(default_factory=dict)
    config_hash: str = ""
    note: str = ""

    @property
    def names(self) -> dict[str, Any]:
        """What names the number, in a paper and here."""
        fixed = ("item", "dataset", "architecture", "method", "metric")
        return {**{name: getattr(self, name) for name in fixed}, **self.at}

    def document(self) -> dict[str, Any]:
        """Return the record ready for JSON, with coordinates among its names."""
        named = {name: getattr(self, name) for name in FIELDS if name != "at"}
        empty = [name for name in ("members", "seeds") if not named[name]]
        return {n: v for n, v in named.items() if n not in empty} | {**self.at}

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a line for each value, of an ensemble or of a member, with its seed.

        An ensemble has the seed of its first member, a fit none.
        """
        always = {**self.names, "unit": self.unit, "config_hash": self.config_hash}
        told = {"ensemble": self.values, "member": self.members}
        if not any(told.values()):
            told = {"fit": (self.value,)}
        for of, values in told.items():
            step, rest = divmod(len(self.seeds), len(values) or 1)
            for number, value in enumerate(values):
                seed = self.seeds[number * step] if step and not rest else None
                about = {"of": of, "number": number, "seed": seed, "value": value}
                yield {**always, **about}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Rebuild a record from its JSON form."""
        always = {*FIELDS} - {"at", "members", "seeds"}
        named = {name: document[name] for name in FIELDS if name in always}
        named["values"] = tuple(named["values"])
        for name in ("members", "seeds"):
            named[name] = tuple(document.get(name, ()))
        named["interval"] = (
            None if named["interval"] is None else tuple(named["interval"])
        )
        named["at"] = {k: v for k, v in document.items() if k not in FIELDS}
        return cls(**named)


FIELDS = tuple(field_of_record.name for field_of_record in fields(Record))


def averaged(
    values: Iterable[float | None], trials: Sequence[Trial], **names: Any
) -> Record:
    """Return a record of a mean over repetitions.

    Args:
        values: One per repetition; None where it is not defined.
        trials: What they rest on.
        names: Fields of the record.

    Returns:
        The mean with its standard error and interval.

    Example:
        >>> record = averaged(
        ...     [0.5, 0.7], [], item="x/table1", dataset="digits", architecture="mlp",
        ...     method="sam", metric="accuracy", unit="fraction",
        ... )
        >>> round(record.value, 3), round(record.sem, 3), record.n
        (0.6, 0.1, 2)
    """
    kept = tuple(values)
    mean = estimate(kept)
    if len(trials) == len(kept):
        names.setdefault("seeds", tuple(s for trial in trials for s in trial.seeds))
    defined = [value for value in kept if value is not None]
    return Record(
        value=mean.mean if mean.count else None,
        n=mean.count,
        sem=mean.error if mean.count > 1 else None,
        interval=t_interval(defined) if mean.count > 1 else None,
        values=kept,
        config_hash=config_hash(trials),
        **names,
    )


def config_hash(trials: Sequence[Trial]) -> str:
    """Return a name for several trials together; empty for none."""
    return digest(sorted(trial.digest for trial in trials)) if trials else ""


# The scores that a printed table has, of whatever task they are.
SHOWN = (
    *("individual_accuracy", "accuracy", "mean_iou", "mean_average_precision"),
    *("mean_auroc", "rmse", "crps", "quantile_loss", "nll", "ece"),
    *("epochs", "passes", "seconds", "parameters"),  # what it cost
)


@dataclass(frozen=True)
class Results(ShownInNotebooks):
    """All numbers of a comparison, a figure, or a table.

    Attributes:
        item: Its name, ``"comparison"`` or such as ``"sharpbalance/figure7"``.
        title: What it shows.
        size: ``"paper"``, ``"small"`` or ``"smoke"``, and what was overridden, such as
            ``"paper+epochs=80"``.
        settings: Data, model and training, in words and numbers.
        environment: Versions, hardware and the command; a run folder has those of its
            training.
        records: The numbers.
    """

    item: str
    title: str
    size: str
    settings: Mapping[str, Any]
    environment: Mapping[str, Any]
    records: tuple[Record, ...]

    def __str__(self) -> str:
        """Return the means of the most telling scores, data by data."""
        lines, names = [self.title], [*SHOWN, *self.settings.get("metrics", ())]
        whole = [r for r in self.records if not r.at and r.metric in names]
        first = max([9, *(len(record.method) for record in whole)])
        for data in dict.fromkeys(record.dataset for record in whole):
            here = [record for record in whole if record.dataset == data]
            there = [name for name in names if any(r.metric == name for r in here)]
            heads = "".join(f"  {name.replace('_', ' '):>8}" for name in there)
            lines.append(f"  {data:{first}}{heads}")
            for method in dict.fromkeys(record.method for record in here):
                means = {r.metric: r.value for r in here if r.method == method}
                found = [means.get(name) for name in there]
                shown = ["-" if v is None else f"{v:.4g}" for v in found]
                pairs = zip(there, shown, strict=True)
                cells = "".join(f"  {text:>{max(8, len(n))}}" for n, text in pairs)
                lines.append(f"  {method:{first}}{cells}")
        counts = " or ".join(str(n) for n in sorted({record.n for record in whole}))
        return "\n".join([*lines, f"  means over ensembles ({counts} per method)"])

    @property
    def name(self) -> str:
        """The item's name, with the panel where all numbers are of one."""
        first, *others = {record.item for record in self.records} or {self.item}
        return self.item if others or not first.startswith(self.item) else first

    def find(self, **names: Any) -> list[Record]:
        """Return the records with the given fields or coordinates.

        Args:
            names: Fields or coordinates with their values.

        Returns:
            The records, possibly none.
        """
        wanted = names.items()
        return [record for record in self.records if wanted <= record.names.items()]

    def by(self, field: str, **names: Any) -> dict[Any, list[Record]]:
        """Group the records with the given fields or coordinates by another.

        Args:
            field: What to group by.
            names: Fields or coordinates with their values.

        Returns:
            Records by the value of the field, in the order of the results.
        """
        parts: dict[Any, list[Record]] = {}
        for record in self.find(**names):
            parts.setdefault(record.names[field], []).append(record)
        return parts

    def one(self, **names: Any) -> Record:
        """Return the only record with the given fields or coordinates.

        Args:
            names: Fields or coordinates with their values.

        Returns:
            The record.

        Raises:
            ValueError: If there is none, or more than one.
        """
        matching = self.find(**names)
        rule = f"name one record of {self.item}, not {len(matching)}"
        require(len(matching) == 1, "names", rule, names)
        return matching[0]


def results(
    item: str,
    title: str,
    size: str,
    settings: Mapping[str, Any],
    records: Iterable[Record],
    device: torch.device,
) -> Results:
    """Return results with the environment of this process."""
    kept = tuple(records)
    seen: set[str] = set()
    for record in kept:
        taken = {*record.at} & {*FIELDS}
        require(not taken, "at", "use names that are not fields of a record", taken)
        key = repr(sorted(record.names.items()))
        require(key not in seen, "records", "have different names", record.names)
        seen.add(key)
    here = environment_of(device)
    here["command"] = with_short_paths(here["command"])
    return Results(item, title, size, dict(settings), here, kept)


def write_results(folder: str | Path, numbers: Results) -> None:
    """Write results as two tables and, last, as JSON."""
    write_bytes(Path(folder) / TABLE, as_csv(numbers).encode())
    write_bytes(Path(folder) / LONG_TABLE, as_long_csv(numbers).encode())
    document = {
        "source": "ours",
        "item": numbers.item,
        "title": numbers.title,
        "size": numbers.size,
        "settings": numbers.settings,
        "environment": numbers.environment,
        "records": [record.document() for record in numbers.records],
    }
    write_document(Path(folder) / FILE, KIND, document)


def read_results(folder: str | Path) -> Results:
    """Read results.

    Args:
        folder: Where :func:`tepui.papers.reproduce` wrote them.

    Returns:
        The numbers and how they were made.

    Raises:
        ValueError: If the file is damaged or of another format.
    """
    file = Path(folder) / FILE
    again = (
        "make them again with: tepui reproduce ITEM --overwrite, or tepui compare "
        "--resume"
    )
    try:
        document = read_document(file, KIND)
    except ValueError as error:
        raise ValueError(f"{error}; {again}") from error
    try:
        return results_of(document)
    except (KeyError, TypeError) as error:
        raise ValueError(f"{file} is damaged ({error!r}); {again}") from error


def results_of(document: Mapping[str, Any]) -> Results:
    """Rebuild results from their JSON form."""
    names = ("item", "title", "size", "settings", "environment")
    records = tuple(Record.of(row) for row in document["records"])
    return Results(**{name: document[name] for name in names}, records=records)


def as_csv(numbers: Results) -> str:
    """Return one line per record, with its coordinates as columns.

    ``dataset`` is the paper's name, ``data`` what was used for it.
    """
    axes = sorted({name for record in numbers.records for name in record.at})
    fixed = ["item", "dataset", "data", "architecture", "method", "metric", "unit"]
    fixed += ["value", "n", "sem", "low", "high", "config_hash", "note"]
    rows = []
    for record in numbers.records:
        low, high = record.interval or (None, None)
        row = {name: getattr(record, name, None) for name in fixed}
        data = real_data(numbers.settings, record.dataset)
        rows.append({**row, "data": data, "low": low, "high": high, **record.at})
    return _csv([*fixed, *axes], rows)


def as_long_csv(numbers: Results) -> str:
    """Return one line per value, of an ensemble or of a member."""
    axes = sorted({name for record in numbers.records for name in record.at})
    fixed = ["item", "dataset", "architecture", "method", "of", "number", "metric"]
    fixed += ["value", "unit", "seed", "config_hash"]
    rows = (row for record in numbers.records for row in record.rows())
    return _csv([*fixed, *axes], rows)


def _csv(headings: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, headings, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _as_text(cell) for name, cell in row.items()})
    return text.getvalue()


def _as_text(cell: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula; numbers stay numbers."""
    formula = isinstance(cell, str) and cell.startswith(_FORMULAS)
    return f"'{cell}" if formula else cell


def real_data(settings: Mapping[str, Any], dataset: str) -> str:
    """Return what was used for a data set of the paper; empty where it is not recorded.

    Example:
        >>> settings = {"cifar10": {"trained on": "Digits"}}
        >>> real_data(settings, "cifar10"), real_data(settings, "cifar10_c")
        ('Digits', 'corrupted Digits')
    """
    known = settings.get(STAND_INS, {})
    if dataset in known:
        return str(known[dataset])
    name, base = _trained_on(settings, dataset), dataset.removesuffix(CORRUPTED)
    return f"corrupted {name}" if name and base != dataset else name


def stand_ins(settings: Mapping[str, Any], datasets: Iterable[str]) -> str:
    """Return in words what was used for data of the paper; empty where nothing was.

    Example:
        >>> settings = {"cifar10": {"trained on": "CIFAR10"}}
        >>> stand_ins(settings, ["cifar10"])
        ''
        >>> stand_ins({"trained on": "Digits"}, ["cifar10", "cifar10_c"])
        'Digits for cifar10, corrupted Digits for cifar10_c'
    """
    names = dict.fromkeys(datasets)
    return ", ".join(
        f"{real_data(settings, name)} for {name}"
        for name in names
        if _is_replaced(settings, name)
    )


def _is_replaced(settings: Mapping[str, Any], dataset: str) -> bool:
    name = _trained_on(settings, dataset)
    plain = dataset.removesuffix(CORRUPTED).replace("_", "")
    return dataset in settings.get(STAND_INS, {}) or name.lower() not in ("", plain)


def _trained_on(settings: Mapping[str, Any], dataset: str) -> str:
    own = settings.get(dataset.removesuffix(CORRUPTED))
    about = own if isinstance(own, Mapping) else settings
    return str(about.get(TRAINED_ON, ""))
