"""The frozen extractor that ``--extractor`` names, for heads of their own."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from torch import nn

from tepui.ensembles.ensemble import load
from tepui.models import split_last_layers
from tepui.models.split import Frozen


def extractor_and_head(
    run: Path, model: Callable[[], nn.Module] | None
) -> tuple[Frozen, Callable[[], nn.Module]]:
    """Cut the first member of a run before its last layer."""
    split = split_last_layers(load(run).members[0])
    return split.extractor, model or partial(split.tail, fresh=True)
