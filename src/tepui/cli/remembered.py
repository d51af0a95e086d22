"""What a run remembers of the command that made it: data, model and extractor.

They are kept in their written form. Of what is read there only tepui's own classes are
built; code of one's own is never imported for a folder's sake.
"""

import shlex
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset

from tepui.cli.values import Text
from tepui.core.spec import read
from tepui.studies.recorded_options import recorded_options


def remembered(run: Path, option: str) -> Callable[..., Dataset[Any]] | None:
    """Return the data set that an option of a run's command named, if it did.

    Raises:
        ValueError: If it is of the user's own.
    """
    text = recorded_options(run).get(option)
    if text is None or isinstance(text, float | int):
        return None
    if not Text(text, "data", typed=True).is_known():
        raise ValueError(
            f"{option} must be given, since {run} belongs to a data set of your own: "
            f"--{option} {shlex.quote(text)}"
        )
    made_by: Callable[..., Dataset[Any]] = read(text, "data")
    return made_by


def said_again(**options: Text | Sequence[Text] | None) -> str:
    """Return those options that the next command about a run needs as well.

    They name code of one's own, which no folder brings; each begins with a blank.
    """
    words = []
    for option, given in options.items():
        texts = [given] if isinstance(given, Text) else given or ()
        if not all(text.is_known() for text in texts):
            words.append(f" --{option} {' '.join(map(shlex.quote, texts))}")
    return "".join(words)


def in_options(error: ValueError, run: Path) -> ValueError:
    """Return an error of loading a run in words of the command line.

    Another one is returned as it is.
    """
    asked, _, rest = str(error).partition(" must be given: ")
    option = {"factory": "model", "extractor": "extractor"}.get(asked)
    if option is None or not rest:
        return error
    named = recorded_options(run).get(option, "mypackage.make_net")
    named = shlex.join(named if isinstance(named, list) else [named])
    return ValueError(f"--{option} must be given, such as --{option} {named}: {rest}")


def kind_of(made_by: Callable[..., Any] | None) -> Any:
    """Return the class or function that makes an object."""
    return made_by.func if isinstance(made_by, partial) else made_by


def options_given(made_by: Callable[..., Any] | None) -> dict[str, Any]:
    """Return the arguments that were written of what makes an object."""
    return made_by.keywords if isinstance(made_by, partial) else {}
