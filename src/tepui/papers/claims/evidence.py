"""The numbers that claims are judged by: ours, and those that the papers print."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from tepui.core.storage import read_lines
from tepui.papers.published import AXES, published
from tepui.studies import Record, Results, read_results
from tepui.studies.results import FILE, KIND, results_of

PRINTED = "printed"
SIZES = ("paper", "medium", "small")  # from the paper's own to the smallest
# Numbers of this size show that the code runs, and nothing else.
NO_EVIDENCE = "smoke"


@dataclass(frozen=True)
class Datum:
    """A number and where it comes from."""

    record: Record
    size: str  # of its study; "printed" for a paper's own number
    epochs: int | None = None  # length of the runs it rests on, where that is known
    rho: float | None = None  # their radius, where that is known

    @cached_property
    def names(self) -> dict[str, Any]:
        """What names the number, with the size of its study."""
        return {**self.record.names, "size": self.size}


Group = Mapping[str, Any]


@dataclass(frozen=True)
class Evidence:
    """All numbers that claims are judged by."""

    data: tuple[Datum, ...]

    def sizes(self, items: Iterable[str]) -> list[str]:
        """Return the sizes at which there are numbers, the paper's first."""
        wanted = tuple(items)
        found = {
            datum.size
            for datum in self.data
            if any(_belongs(datum.record.item, item) for item in wanted)
        }
        return sorted(found, key=lambda size: (_rank(size), size))

    def at(self, size: str) -> "Evidence":
        """Return the numbers of one size."""
        return Evidence(tuple(datum for datum in self.data if datum.size == size))

    def has(self, item: str) -> bool:
        """Return whether there is a number of a figure, table or panel."""
        return any(_belongs(datum.record.item, item) for datum in self.data)

    def find(self, items: Iterable[str], **names: Any) -> list[Datum]:
        """Return the numbers of some figures and tables."""
        wanted, wanted_items = names.items(), tuple(items)
        return [
            datum
            for datum in self.data
            if datum.record.value is not None
            and wanted <= datum.names.items()
            and any(_belongs(datum.record.item, item) for item in wanted_items)
        ]

    def groups(
        self, items: Iterable[str], inside: Sequence[str], **names: Any
    ) -> Iterator[tuple[Group, dict[Any, Datum]]]:
        """Yield numbers that agree in all of their names but some."""
        groups: dict[str, tuple[Group, dict[Any, Datum]]] = {}
        for datum in self.find(items, **names):
            if not {*inside} <= {*datum.names}:
                continue
            shared = {k: v for k, v in datum.names.items() if k not in inside}
            place = tuple(datum.names[name] for name in inside)
            key = repr(sorted(shared.items()))
            _, members = groups.setdefault(key, (shared, {}))
            members[place if len(inside) > 1 else place[0]] = datum
        yield from groups.values()


def read_evidence(path: str | Path) -> Evidence:
    """Read all results below a folder, or in a file of JSON lines."""
    seen: dict[str, tuple[Datum, str]] = {}
    for where, results in _stored(Path(path)):
        # No paper claims anything of a recipe of someone's own.
        if "/" not in results.item or results.size.split("+")[0] == NO_EVIDENCE:
            continue
        for datum in _data(results):
            key = repr(sorted(datum.names.items()))
            first, there = seen.setdefault(key, (datum, where))
            if first.record != datum.record:
                raise ValueError(
                    f"{there} and {where} hold different numbers of {datum.names}; "
                    "remove one of them, or make both again with: tepui reproduce ITEM "
                    "--overwrite"
                )
    return Evidence(tuple(datum for datum, _ in seen.values()))


def _stored(path: Path) -> Iterator[tuple[str, Results]]:
    """Yield where results lie, and what they are."""
    if path.is_file():
        for number, document in enumerate(read_lines(path, KIND), 1):
            yield f"line {number} of {path}", results_of(document)
        return
    if not path.is_dir():
        raise FileNotFoundError(
            f"no file or folder {path}; make one with: tepui reproduce (tepui's own "
            "results are in its repository: --from research/papers.jsonl)"
        )
    for file in sorted(path.rglob(FILE)):
        yield str(file), read_results(file.parent)


@cache
def printed_evidence() -> Evidence:
    """Return the numbers that the papers print; ranges are left out."""
    rows = [row for row in published() if isinstance(row["value"], int | float)]
    return Evidence(tuple(Datum(_printed(row), PRINTED) for row in rows))


def label(group: Group) -> str:
    """Return the names that numbers share, in words."""
    rest = {
        name: value
        for name, value in group.items()
        if name not in ("item", "dataset", "architecture", "method", "metric", "size")
    }
    parts = [group["item"].split("/")[1], group["dataset"], group["architecture"]]
    parts += [
        f"{name.replace('_', ' ')} {_short(value)}" for name, value in rest.items()
    ]
    return ", ".join(map(str, parts))


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _data(results: Results) -> Iterator[Datum]:
    size = protocol_of(results.size)
    for record in results.records:
        study = results.settings.get(plain_name(record.dataset))
        how = study if isinstance(study, Mapping) else {}
        rho = how.get("rho")  # or in words, such as "searched"
        radius = float(rho) if isinstance(rho, int | float) else None
        yield Datum(record, size, how.get("epochs"), radius)


def protocol_of(size: str) -> str:
    """Return a size with all that was overridden but the choice of methods.

    A run that is shorter than its size says, or has fewer ensembles, is another study;
    one of fewer methods is the same.

    Example:
        >>> protocol_of("paper+epochs=80+methods=sam,eoa")
        'paper+epochs=80'
    """
    words = size.split("+")
    return "+".join(word for word in words if not word.startswith("methods="))


def plain_name(dataset: str) -> str:
    """Return what a data set is called without corruptions.

    Example:
        >>> plain_name("cifar10_c")
        'cifar10'
    """
    return dataset.removesuffix("_c")


def _rank(size: str) -> int:
    base = size.split("+", maxsplit=1)[0]
    return SIZES.index(base) if base in SIZES else len(SIZES)


def _belongs(item: str, whole: str) -> bool:
    """Return whether an item is a figure or table, or a panel of it."""
    return re.fullmatch(rf"{re.escape(whole)}[a-z]?", item) is not None


def _printed(row: Mapping[str, Any]) -> Record:
    return Record(
        **{name: row[name] for name in ("item", "dataset", "architecture", "method")},
        metric=row["metric"],
        value=float(row["value"]),
        unit=row["unit"],
        n=0,
        at={axis: row[axis] for axis in AXES if axis in row},
    )
