"""Predictions in one file that other programs read: a row per sample.

CSV and Parquet have a column for every number; safetensors holds tensors by name, which
outputs for pixels need. Numbers that were predicted, their ``std`` and their bounds are
in the unit of the target, ``aleatoric_variance`` and ``epistemic_variance`` in its
square.
"""

import csv
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tepui.core.checks import one_of, require
from tepui.core.extras import extra
from tepui.core.replacing import replacing
from tepui.core.storage import write_tensors
from tepui.core.tensor_format import opened
from tepui.core.text import printable
from tepui.data.labels import NO_LABEL
from tepui.evaluation.shards import DIGITS, KIND, ShardedPredictions
from tepui.metrics.held_out_scores import (
    LEVEL,
    check_level,
    objections,
    unfamiliar_at,
)
from tepui.tasks.named import read_task

# What comes first in a table; all else follows in the order of names.
FIRST = ("target", "prediction", "confidence", "mean", "std", "lower", "upper")
# What a column is called that holds one of several levels.
SINGULAR = {"quantiles": "quantile"}
# What is left out where no sample has a target.
OF_TARGETS = ("target", "label_probability")
# What a spreadsheet executes; a number with a sign is none.
FORMULA = re.compile(r"\s*(?![+-][\d.]+$)[=@+-]")
FORMATS = (".csv", ".parquet", ".safetensors")

Columns = dict[str, list[Any]]


def write_predictions(
    predictions: ShardedPredictions,
    file: str | Path,
    *,
    named: Mapping[str, Sequence[Any]] | None = None,
    level: float = LEVEL,
    overwrite: bool = False,
) -> Path:
    """Write predictions from their shards into one file.

    Column ``sample`` is a sample's position, from 0 as in Python. Where only some
    samples have a label, ``target`` is -1 and ``label_probability`` NaN for the others;
    where none has, there are no such columns. Columns of quantiles and of bounds are
    named by their levels: ``quantile_0.05``, ``lower_0.9``, ``conformal_upper_0.8``.
    ``objections`` names the scores by which a sample is unfamiliar; safetensors has a
    truth value for each of the scores that ``unfamiliarity_by`` names.

    Args:
        predictions: Complete predictions, see :func:`predict_shards`.
        file: Where to; its ending says how: ``.csv``, ``.parquet`` (with the extra
            ``tables``) or ``.safetensors``.
        named: What each sample is called, by column, such as ``{"name": files}``.
        level: Call a sample ``unfamiliar`` if this share of the held-out samples looks
            more familiar; of samples like those about ``1 - level`` are called so too.
        overwrite: Replace a file that is there.

    Returns:
        The file.

    Raises:
        FileExistsError: If it exists and ``overwrite`` is false.
        ImportError: If Parquet is asked for and pyarrow is not installed.
        ValueError: If the ending is unknown, shards are missing or unlike the first, a
            column of ``named`` is called like another, or there are outputs for every
            pixel, which no row can hold.

    Example:
        >>> import tempfile, tepui
        >>> from tepui.evaluation import predict_shards
        >>> data = tepui.data.Arrays(torch.randn(9, 4), torch.arange(9) % 3)
        >>> ensemble = tepui.Ensemble.build(lambda: torch.nn.Linear(4, 3), members=2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     shards = predict_shards(ensemble, data, f"{folder}/parts")
        ...     table = write_predictions(shards, f"{folder}/out.csv").read_text()
        >>> table.splitlines()[0]
        'sample,target,prediction,confidence,epistemic,label_probability,pds,total_uncertainty'
    """
    path = Path(file)
    check_new(path, level, overwrite)
    called = named or {}
    for title, names in called.items():
        fits = len(names) == predictions.samples
        rule = f"be one per sample ({predictions.samples})"
        require(fits, f"named {title}", rule, len(names))
    by, left_out = predictions.unfamiliarity_by, {"logits", "surprises"}
    about = {"unfamiliarity_by": " ".join(by), "level": level} if by else {}
    predictions.check_complete()
    files = map(predictions.file, range(predictions.num_shards))
    if not any(map(_has_target, files)):
        left_out |= {*OF_TARGETS}
    shards = (_plain(predictions, left_out, level, s) for s in predictions.shards())
    if path.suffix == ".safetensors":
        _write_tensors(predictions, path, called, [*shards], about)
        return path
    tables = _tables(predictions, called, shards)
    with replacing(path) as temporary:
        if path.suffix == ".csv":
            _write_csv(temporary, tables)
        else:
            _write_parquet(temporary, tables, about)
    return path


def check_new(path: Path, level: float, overwrite: bool) -> None:
    """Check that a file can be written, and how samples are called unfamiliar."""
    one_of("ending of the file", path.suffix, FORMATS)
    if path.suffix == ".parquet":
        extra("pyarrow", "tables")
    check_level(level)
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists; choose another file, or overwrite it")


def _tables(
    predictions: ShardedPredictions,
    named: Mapping[str, Sequence[Any]],
    shards: Iterable[Mapping[str, Tensor]],
) -> Iterator[Columns]:
    """Yield the columns of one shard after the other."""
    levels = _levels(predictions)
    for number, shard in enumerate(shards):
        rows = predictions.rows(number)
        own = _columns(shard, predictions, levels)
        twice = {*named} & {"sample", *own}
        require(not twice, "named", "have names of its own", sorted(twice))
        called = {n: [each[row] for row in rows] for n, each in named.items()}
        yield {"sample": [*rows], **called, **own}


def _levels(predictions: ShardedPredictions) -> dict[str, Sequence[float]]:
    """Return the levels of quantiles and bounds, which their columns are named by."""
    promised = () if predictions.coverage is None else (predictions.coverage,)
    return {
        **read_task(predictions.task).levels_of,
        **dict.fromkeys(("conformal_lower", "conformal_upper"), promised),
    }


def _columns(
    found: Mapping[str, Tensor],
    predictions: ShardedPredictions,
    levels: Mapping[str, Sequence[float]],
) -> Columns:
    """Return the columns of a shard: one for every number of a sample."""
    columns: Columns = {}
    task, classes = read_task(predictions.task), predictions.classes
    for name, tensor in found.items():
        if name == "objections":
            by, objecting = predictions.unfamiliarity_by, tensor.tolist()
            columns[name] = [" ".join(compress(by, row)) for row in objecting]
            continue
        rule = "be written to .safetensors where every pixel has an answer"
        require(tensor.ndim <= 2, "predictions", rule, tuple(tensor.shape))
        numbers = (tensor if tensor.ndim == 2 else tensor.unsqueeze(1)).T
        of_classes = classes if name in ("probability", "in_set") else ()
        titles = _titles(name, len(numbers), of_classes, levels.get(name, ()))
        spread = name == "std" or name.endswith("_variance")
        digits = DIGITS if spread else predictions.digits
        values = (_values(each, digits) for each in numbers)
        columns |= zip(titles, values, strict=True)
        called = task.called(classes, len(numbers)) if name == "prediction" else ()
        if called:
            columns["class"] = [called[answer] for answer in numbers[0].tolist()]
    return columns


def _titles(
    name: str, count: int, classes: Sequence[str], levels: Sequence[float]
) -> list[str]:
    """Return the names of as many columns.

    Example:
        >>> _titles("quantiles", 2, (), (0.1, 0.9)), _titles("mean", 1, (), ())
        (['quantile_0.1', 'quantile_0.9'], ['mean'])
        >>> _titles("lower", 2, (), (0.9,)), _titles("in_set", 2, ("cat", "dog"), ())
        (['lower_0.9_0', 'lower_0.9_1'], ['in_set_cat', 'in_set_dog'])
    """
    titles = [f"{SINGULAR.get(name, name)}_{level}" for level in levels] or [name]
    if count == len(titles):
        return titles
    if len(classes) == count:
        return [f"{name}_{each}" for each in classes]
    numbers = range(count // len(titles))
    return [f"{title}_{number}" for number in numbers for title in titles]


def _values(tensor: Tensor, digits: int) -> list[Any]:
    """Return numbers with no more digits than are known of them.

    Example:
        >>> _values(torch.tensor([0.1, 2.0]), 9), torch.tensor([0.1]).tolist()
        ([0.1, 2.0], [0.10000000149011612])
    """
    if tensor.dtype == torch.float64:
        return [float(f"{number:.{digits}g}") for number in tensor.tolist()]
    if tensor.dtype == torch.float32:
        return [float(str(number)) for number in tensor.numpy()]
    return tensor.tolist()


def _plain(
    predictions: ShardedPredictions,
    left_out: Container[str],
    level: float,
    shard: Mapping[str, Tensor],
) -> dict[str, Tensor]:
    """Return what a shard holds for a file, in the order of its columns."""
    found = {name: part for name, part in shard.items() if name not in left_out}
    if "quantiles" in found:
        found["quantiles"] = found["quantiles"].flatten(1)
    judged = {}
    if "surprises" in shard:
        called = unfamiliar_at(level, found["unfamiliarity"], predictions.held_out)
        found["unfamiliar"] = called
        judged["objections"] = objections(level, shard["surprises"], called)
    order = [name for name in FIRST if name in found]
    order += sorted(found.keys() - {*FIRST})
    return {name: found[name] for name in order} | judged


def _has_target(file: Path) -> bool:
    """Return whether a shard has targets; what is wrong with it is found later."""
    with opened(file) as shard:
        if "target" not in [*shard.keys()]:
            return False
        targets = shard.get_tensor("target")
        return targets.is_floating_point() or bool((targets != NO_LABEL).any())


def _write_tensors(
    predictions: ShardedPredictions,
    path: Path,
    named: Mapping[str, Sequence[Any]],
    parts: Sequence[Mapping[str, Tensor]],
    about: Mapping[str, Any],
) -> None:
    tensors = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    levels = _levels(predictions).items()
    document = {
        "task": predictions.task,
        "members": predictions.members,
        "named": {title: list(names) for title, names in named.items()},
        "classes": list(predictions.classes),
        "levels": {name: list(each) for name, each in levels if name in tensors},
        **about,
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


def _write_parquet(
    path: Path, tables: Iterable[Columns], about: Mapping[str, Any]
) -> None:
    arrow, parquet = extra("pyarrow", "tables"), extra("pyarrow.parquet", "tables")
    metadata = {name: str(value) for name, value in about.items()}
    parts = (arrow.table(each).replace_schema_metadata(metadata) for each in tables)
    first = next(parts)
    with parquet.ParquetWriter(path, first.schema) as writer:
        for part in chain([first], parts):
            writer.write_table(part)
