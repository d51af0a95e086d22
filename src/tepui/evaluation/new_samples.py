"""New samples, what they are called, and predictions of all that can be read.

A row of a table is called by its place in the file and by columns that are carried
over, an image by its file. Images that cannot be read are left out, and named.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from torch.utils.data import Dataset

from tepui.core.checks import not_among, require
from tepui.data import ImageFiles, Table
from tepui.data.image_files import UnreadableImageError, unreadable

Made = TypeVar("Made")


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
