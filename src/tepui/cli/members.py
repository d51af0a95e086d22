"""The ensemble that a command is about: a folder, or files of weights."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch import nn
from torch.utils.data import Dataset

from tepui.cli.architecture import member_factories
from tepui.cli.extractor import front_named
from tepui.cli.remembered import in_options
from tepui.cli.runs_named import check_run
from tepui.cli.values import Text
from tepui.core.checks import require
from tepui.ensembles.ensemble import FILE, Ensemble
from tepui.ensembles.foreign_weights import ensemble_of
from tepui.ensembles.loading import RUN, check_ended, load, task_in


def is_saved(places: Sequence[Path]) -> bool:
    """Return whether a run or a saved ensemble is named, rather than weights."""
    return len(places) == 1 and any((places[0] / f).is_file() for f in (FILE, RUN))


def check_places(places: Sequence[Path]) -> None:
    """Raise unless a run that ended, or all folders or files of weights, are there."""
    for place in places:
        check_run(place)
    if is_saved(places):
        check_ended(places[0])


def extractor_of(
    named: Text | None, data: Dataset[Any] | None
) -> Callable[[], nn.Module] | None:
    """Return what makes the extractor of one's own that members share, if one does."""
    return None if named is None or data is None else front_named(named, data)


def named_ensemble(
    places: Sequence[Path],
    models: Sequence[Text] | None,
    data: Dataset[Any] | None,
    extractor: Text | None = None,
) -> Ensemble:
    """Load a saved ensemble, or make one of weights, a file or folder per member."""
    check_places(places)
    task = task_in(places[0]) if is_saved(places) else None
    factories = member_factories([text.read() for text in models or ()], data, task)
    if is_saved(places):
        try:
            return load(places[0], factories, extractor_of(extractor, data))
        except ValueError as error:
            raise in_options(error, places[0]) from error
    rule = "be left out for files of weights"
    require(extractor is None, "--extractor", rule, extractor)
    rule = "be given to read files of weights, once or one per member"
    require(factories is not None, "--model", rule, None)
    assert factories is not None
    return ensemble_of(places, factories)
