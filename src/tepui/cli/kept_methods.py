"""The methods of a comparison that goes on, as its options name them.

A command that resumes a comparison with other methods leaves those in the table that
are there already: its options, which repeat it, name all of them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tepui.core.provenance import masked
from tepui.methods import Method
from tepui.studies.comparison import FILE, read_comparison
from tepui.studies.comparison_plan import labels
from tepui.studies.method_result import MethodResult
from tepui.training.described import to_jsonable


def with_earlier(text: str, folder: Path, asked: Sequence[Method]) -> str:
    """Return options to be kept, with the methods that a folder's table has already.

    Args:
        text: The options, as :func:`tepui.cli.kept_options.kept_text` returns them.
        folder: The comparison's.
        asked: The methods that the command names.
    """
    if not (folder / FILE).is_file():
        return text
    known = {each.label: each for each in read_comparison(folder).methods}
    return with_methods(text, known, asked)


def with_methods(
    text: str, known: Mapping[str, MethodResult], asked: Sequence[Method]
) -> str:
    """Return options with the methods of a table, in its order, and those asked for.

    The text stays as it is where a table has no others, and where the methods would
    not keep their names side by side: resumed by such options, a study trained anew
    what it has by another name.
    """
    now = dict(zip(labels(asked), map(to_jsonable, asked), strict=True))
    before = {label: each.hyperparameters for label, each in known.items()}
    every = {**before, **now}
    bare = [label.partition("(")[0] for label in every]
    if every.keys() == now.keys() or len({*bare}) < len(bare):
        return text
    first, _, rest = text.partition("\n")
    options: dict[str, Any] = yaml.safe_load(rest)
    options["methods"] = masked([_written(each) for each in every.values()])
    return f"{first}\n{yaml.safe_dump(options, sort_keys=False)}"


def _written(described: Any) -> Any:
    """Return a described value as a configuration writes it."""
    if isinstance(described, Mapping) and "class" in described:
        rest = {n: _written(value) for n, value in described.items() if n != "class"}
        own = {"init_args": rest} if rest else {}
        return {"class_path": described["class"], **own}
    if isinstance(described, list | tuple):
        return [_written(value) for value in described]
    return described
