"""Predictions of a whole data set in one file that other programs read: row by row.

Batches are written as they come, so that data may be larger than memory. A folder of
Parquet files is one table: many machines write one each, of some of the rows.

A row of a table is called by its place in the file and by columns that are carried
over, an image by its file. Images that cannot be read are left out, and named.
"""

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.checks import not_among, one_of, require
from tepui.core.extras import extra
from tepui.core.precision import Precision
from tepui.core.replacing import replacing
from tepui.core.storage import write_tensors
from tepui.core.text import printable
from tepui.core.types import check_types
from tepui.data import ImageFiles, Table
from tepui.data.image_files import UnreadableImageError, unreadable
from tepui.data.labels import NO_LABEL
from tepui.data.loading import length, targets_of
from tepui.ensembles.ensemble import Ensemble
from tepui.ensembles.feature_detectors import scoring
from tepui.ensembles.outputs import logit_batches
from tepui.metrics import Rule
from tepui.metrics.held_out_scores import (
    LEVEL,
    check_level,
    in_words,
    objections,
    too_few,
    unfamiliar_at,
)
from tepui.tasks.prediction import Prediction

KIND = "predictions"
# What comes first in a table; all else follows in the order of names.
FIRST = ("target", "prediction", "confidence", "mean", "std", "lower", "upper")
# What is left out where no sample has a target.
OF_TARGETS = ("target", "label_probability")
# What a spreadsheet executes; a number with a sign is none.
FORMULA = re.compile(r"\s*(?![+-][\d.]+$)[=@+-]")
FORMATS = (".csv", ".parquet", ".safetensors")

Columns = dict[str, list[Any]]
Made = TypeVar("Made")


def write_predictions(
    ensemble: Ensemble,
    dataset: Dataset[Any],
    file: str | Path,
    *,
    named: Mapping[str, Sequence[Any]] | None = None,
    probabilities: bool = False,
    level: float = LEVEL,
    rule: Rule = "probability",
    batch_size: int = 1024,
    workers: int = 0,
    precision: Precision = "tf32",
    overwrite: bool = False,
) -> list[str]:
    """Write what an ensemble predicts for every sample of a data set into one file.

    Column ``sample`` is a sample's position, from 0 as in Python. Where only some
    samples have a label, ``target`` is -1 and ``label_probability`` NaN for the others;
    where none has, there are no such columns. Columns of quantiles and of bounds are
    named by their levels: ``quantile_0.05``, ``lower_0.9``, ``conformal_upper_0.8``.
    ``objections`` names the scores by which a sample is unfamiliar; safetensors has a
    truth value for each of the scores that its document names.

    Args:
        ensemble: Any ensemble.
        dataset: A map-style data set, any targets.
        file: Where to; its ending says how: ``.csv``, ``.parquet`` (with the extra
            ``tables``) or ``.safetensors``, which holds answers of pixels too.
        named: What each sample is called, by column, such as ``{"name": files}``.
        probabilities: Write the probability of every class too.
        level: Call a sample ``unfamiliar`` if this share of the held-out samples looks
            more familiar; of samples like those about ``1 - level`` are called so too.
        rule: How members are combined.
        batch_size: How many samples go through a member at once.
        workers: Processes that load a data set not held in tensors.
        precision: What members compute in on a GPU.
        overwrite: Replace a file that is there.

    Returns:
        How many samples look unfamiliar, in words; empty if that is not known.

    Raises:
        FileExistsError: If the file exists and ``overwrite`` is false.
        ImportError: If Parquet is asked for and pyarrow is not installed.
        ValueError: If the ending is unknown, a column of ``named`` is called like
            another, or there are outputs for every pixel, which no row can hold.

    Example:
        >>> import tempfile, tepui
        >>> data = tepui.data.Arrays(torch.randn(9, 4), torch.arange(9) % 3)
        >>> ensemble = tepui.Ensemble.build(lambda: torch.nn.Linear(4, 3), members=2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "out.csv")
        ...     _ = write_predictions(ensemble, data, file)
        ...     print(file.read_text().splitlines()[0])
        sample,target,prediction,confidence,epistemic,label_probability,pds,total_uncertainty
    """
    check_types(write_predictions, locals())
    path, called, samples = Path(file), named or {}, length(dataset)
    check_new(path, level, overwrite)
    for title, names in called.items():
        rule_of_names = f"be one per sample ({samples})"
        require(len(names) == samples, f"named {title}", rule_of_names, len(names))
    targets, judge = targets_of(dataset), ensemble.judged_by
    shares: list[Tensor] = []
    counts: list[Tensor] = []

    def answers() -> Iterator[tuple[Prediction, dict[str, Tensor]]]:
        how: Any = {"batch_size": batch_size, "workers": workers}
        batches = logit_batches(ensemble, dataset, precision=precision, **how)
        labeled = None if targets is None else _has_labels(targets)
        with scoring(ensemble, ensemble.detectors) as scores:
            for outputs, given in batches:
                labeled = _has_labels(given) if labeled is None else labeled
                out = ensemble.predicted(outputs, rule, scores())
                found = _numbers(out, given, labeled, probabilities, level)
                if judge is not None:
                    shares.append(found["unfamiliarity"])
                    counts.append(found["objections"].sum(0))
                yield out, found

    if path.suffix == ".safetensors":
        _write_tensors(path, answers(), called)
    else:
        write = _write_csv if path.suffix == ".csv" else _write_parquet
        with replacing(path) as temporary:
            write(temporary, _tables(answers(), called))
    if judge is None:
        return []
    objecting = dict(zip(judge.names, sum(counts).tolist(), strict=True))  # type: ignore[union-attr]
    few = too_few(level, judge.samples)
    said = in_words(level, torch.cat(shares), objecting, judge.samples)
    return said if few is None else [*said, few]


def check_new(path: Path, level: float, overwrite: bool) -> None:
    """Check that a file can be written, and how samples are called unfamiliar."""
    one_of("ending of the file", path.suffix, FORMATS)
    if path.suffix == ".parquet":
        extra("pyarrow", "tables")
    check_level(level)
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists; choose another file, or overwrite it")


def _has_labels(targets: Tensor) -> bool:
    return targets.is_floating_point() or bool((targets != NO_LABEL).any())


def _numbers(
    out: Prediction, targets: Tensor, labeled: bool, probabilities: bool, level: float
) -> dict[str, Tensor]:
    """Return the numbers about each sample of a batch, in the order of columns."""
    found = {**out.statistics(targets), **out.promised(), **out.feature_scores}
    if probabilities and "probs" in out.fields:
        found["probability"] = out.probs
    if "quantiles" in found:
        found["quantiles"] = found["quantiles"].flatten(1)
    for name in () if labeled else OF_TARGETS:
        found.pop(name, None)
    judged = {}
    if (held := out.held_out_scores) is not None:
        scores = out.judged
        share = found["unfamiliarity"] = held.unfamiliarity(scores)
        called = found["unfamiliar"] = unfamiliar_at(level, share, held.samples)
        judged["objections"] = objections(level, held.surprises(scores), called)
    order = [name for name in FIRST if name in found]
    order += sorted(found.keys() - {*FIRST})
    return {name: found[name].cpu() for name in order} | judged


def _tables(
    answers: Iterable[tuple[Prediction, Mapping[str, Tensor]]],
    named: Mapping[str, Sequence[Any]],
) -> Iterator[Columns]:
    """Yield the columns of one batch after the other."""
    start = 0
    for out, found in answers:
        rows = range(start, start + len(out))
        own = _columns(found, out)
        twice = {*named} & {"sample", *own}
        require(not twice, "named", "have names of its own", sorted(twice))
        called = {n: [each[row] for row in rows] for n, each in named.items()}
        yield {"sample": [*rows], **called, **own}
        start = rows.stop


def _columns(found: Mapping[str, Tensor], out: Prediction) -> Columns:
    """Return the columns of a batch: one for every number of a sample."""
    columns: Columns = {}
    levels = dict(out.task.levels_of)
    if out.conformity is not None:
        bounds = ("conformal_lower", "conformal_upper")
        levels |= dict.fromkeys(bounds, (out.conformity.coverage,))
    for name, tensor in found.items():
        if name == "objections" and out.held_out_scores is not None:
            by = out.held_out_scores.names
            columns[name] = [" ".join(compress(by, row)) for row in tensor.tolist()]
            continue
        rule = "be written to .safetensors where every pixel has an answer"
        require(tensor.ndim <= 2, "predictions", rule, tuple(tensor.shape))
        numbers = (tensor if tensor.ndim == 2 else tensor.unsqueeze(1)).T
        of_classes = out.classes if name in ("probability", "in_set") else ()
        titles = _titles(name, len(numbers), of_classes, levels.get(name, ()))
        columns |= zip(titles, map(_values, numbers), strict=True)
        called = out.task.called(out.classes, len(numbers))
        if name == "prediction" and called:
            columns["class"] = [called[answer] for answer in numbers[0].tolist()]
    return columns


def _titles(
    name: str, count: int, classes: Sequence[str], levels: Sequence[float]
) -> list[str]:
    """Return the names of as many columns.

    Example:
        >>> _titles("quantiles", 4, (), (0.1, 0.9))
        ['quantile_0.1_0', 'quantile_0.9_0', 'quantile_0.1_1', 'quantile_0.9_1']
        >>> _titles("probability", 2, ("cat", "dog"), ())
        ['probability_cat', 'probability_dog']
    """
    one = "quantile" if name == "quantiles" else name
    titles = [f"{one}_{level}" for level in levels] or [name]
    if count == len(titles):
        return titles
    if len(classes) == count:
        return [f"{name}_{each}" for each in classes]
    numbers = range(count // len(titles))
    return [f"{title}_{number}" for number in numbers for title in titles]


def _values(tensor: Tensor) -> list[Any]:
    """Return numbers with no more digits than float32 has of them.

    Example:
        >>> _values(torch.tensor([0.1])), _values(torch.tensor([3]))
        ([0.1], [3])
    """
    if tensor.dtype == torch.float32:
        return [float(str(number)) for number in tensor.numpy()]
    return tensor.tolist()


def _write_tensors(
    path: Path,
    answers: Iterable[tuple[Prediction, Mapping[str, Tensor]]],
    named: Mapping[str, Sequence[Any]],
) -> None:
    parts = []
    for out, found in answers:  # noqa: B007 - the last one says what all are
        parts.append(found)
    tensors = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    document = {
        "task": out.task.written(),
        "named": {title: list(names) for title, names in named.items()},
        "classes": list(out.classes),
        "objections": list(out.held_out_scores.names) if out.held_out_scores else [],
    }
    write_tensors(path, KIND, tensors, document)


def _shown(cell: Any) -> Any:
    r"""Return a cell that a spreadsheet shows and does not execute.

    Example:
        >>> _shown("=1+1"), _shown("-1"), _shown("a\x1b[2J"), _shown(-1)
        ("'=1+1", '-1', 'a [2J', -1)
    """
    if not isinstance(cell, str):
        return cell
    text = printable(cell)
    return f"'{text}" if FORMULA.match(text) else text


def _write_csv(path: Path, tables: Iterable[Columns]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        for number, table in enumerate(tables):
            if number == 0:
                writer.writerow(map(_shown, table))
            for row in zip(*table.values(), strict=True):
                writer.writerow(map(_shown, row))


def _write_parquet(path: Path, tables: Iterable[Columns]) -> None:
    arrow, parquet = extra("pyarrow", "tables"), extra("pyarrow.parquet", "tables")
    parts = map(arrow.table, tables)
    first = next(parts)
    with parquet.ParquetWriter(path, first.schema) as writer:
        for part in chain([first], parts):
            writer.write_table(part)


@dataclass(frozen=True)
class NewSamples:
    """Samples to predict.

    Attributes:
        data: The samples.
        named: What each is called, by column.
        said: What is missing of them, in words.
    """

    data: Dataset[Any]
    named: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    said: Sequence[str] = ()


class Written(NamedTuple):
    """Predictions in a file.

    Attributes:
        path: The file.
        samples: How many samples are predicted.
        left_out: Why images could not be read, by their files.
        said: What there is to know of the samples, in words.
    """

    path: Path
    samples: int
    left_out: dict[Path, str]
    said: list[str]


def names_in(
    data: Dataset[Any], carry: str | Sequence[str] = ()
) -> dict[str, list[Any]]:
    """Return what samples are called, by column.

    Args:
        data: The samples.
        carry: Columns of the table to carry over.

    Raises:
        ValueError: If there is no such column.
    """
    carried = [carry] if isinstance(carry, str) else [*carry]
    if not isinstance(data, Table) or len(data.frame) != len(data):
        require(not carried, "carry", "be left out for what is no table", carried)
        files = data.files if isinstance(data, ImageFiles) else ()
        return {"name": [*map(str, files)]} if files else {}
    if unknown := [name for name in carried if name not in data.frame]:
        raise ValueError(not_among("carry", unknown, data.frame))
    cells = data.frame[carried].astype(object)
    named: dict[str, list[Any]] = cells.where(cells.notna(), None).to_dict("list")
    return {"row": data.frame.index.tolist()} | named


def of_readable(
    samples: NewSamples, predict: Callable[[NewSamples], Made]
) -> tuple[Made, NewSamples, dict[Path, str]]:
    """Predict all samples; if images among them cannot be read, the others.

    All images are looked through only once one could not be read.

    Returns:
        What was predicted, for which samples, and why the others were left out.
    """
    data = samples.data
    try:
        return predict(samples), samples, {}
    except UnreadableImageError:
        if not isinstance(data, ImageFiles):
            raise
        found = unreadable(data.files, data.frame, data.gray)
        left_out = {file: found[file] for file in data.files if file in found}
        if len(left_out) in (0, len(data)):
            raise
    rows = [row for row, file in enumerate(data.files) if file not in left_out]
    named = {title: [each[n] for n in rows] for title, each in samples.named.items()}
    rest = NewSamples(data.subset(rows), named, samples.said)
    return predict(rest), rest, left_out
