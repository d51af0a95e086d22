"""The frozen extractor that ``--extractor`` names, for heads of their own.

It is the first member of a run without its last layer (``RUN``; ``RUN:mypackage.Net``
where members are models of the user's own), or any module that a class or function
of theirs returns, ``mypackage.body``, whose outputs are the features.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset

from tepui.cli.architecture import facts_of, fitted, fitted_to
from tepui.cli.values import Text
from tepui.core.checks import require
from tepui.core.seeding import seeded
from tepui.core.spec import PATH, read
from tepui.core.task import CLASSIFICATION, Task
from tepui.data.arrays import Inputs
from tepui.data.loading import at_rows
from tepui.ensembles.loading import load
from tepui.models import MLP, split_last_layers, without_classifier
from tepui.models.split import Frozen, frozen
from tepui.modules.running import forward

OPTION = "--extractor"
LINEAR = partial(MLP, hidden=())
Factory = Callable[..., nn.Module]


def extractor_and_head(
    named: Text, model: Factory | None, data: Dataset[Any], task: Task = CLASSIFICATION
) -> tuple[Frozen, Factory]:
    """Return the extractor, and what makes heads for its features."""
    run, architecture = _run_in(named)
    if run is not None and architecture is None:
        split = split_last_layers(_members(run)[0])
        front, chosen = split.extractor, model or partial(split.tail, fresh=True)
    else:
        front, chosen = frozen(front_named(named, data)().eval()), model or LINEAR
    with torch.no_grad():
        features = forward(front, _one(data))
    sizes = {"in_features": features[0].numel()}
    return front, fitted_to(facts_of(data, task) | sizes, chosen)


def front_named(named: Text, data: Dataset[Any]) -> Factory:
    """Return what makes the extractor of one's own that an option names."""
    run, architecture = _run_in(named)
    if run is None:
        rule = "name a folder with a run, or a model of your own by its path"
        require(PATH.fullmatch(named) is not None, OPTION, rule, named)
        return _seeded(fitted(read(named, "model", own=named.typed), data))
    rule = "be written RUN:mypackage.Net, since that run has no models of its own"
    require(architecture is not None, OPTION, rule, named)
    assert architecture is not None
    own = read(architecture, "model", own=named.typed)
    member = load(run, fitted(own, data)).members[0]
    return partial(without_classifier, member, _one(data))


def _one(data: Dataset[Any]) -> Inputs:
    """Return a batch of one sample, as a model sees it."""
    (batch,) = at_rows(data, [torch.arange(1)], device=torch.device("cpu"))
    return batch.inputs


def _members(run: Path) -> nn.ModuleList:
    """Load the members of a run, saying how to name those that tepui does not know."""
    try:
        return load(run).members
    except ValueError as error:
        if not str(error).startswith("factory must be given"):
            raise
        rule = f"{OPTION} must be written {run}:mypackage.Net"
        raise ValueError(f"{rule}, with the class of its members: {error}") from error


def _run_in(named: Text) -> tuple[Path | None, str | None]:
    """Return the folder of a run that an option names, and what its members are."""
    if Path(named).is_dir():
        return Path(named), None
    folder, colon, architecture = named.rpartition(":")
    if colon and Path(folder).is_dir():
        return Path(folder), architecture
    return None, None


def _seeded(factory: Factory) -> Factory:
    """Let a body without weights of its own be the same at every call."""

    def make() -> nn.Module:
        with seeded("load"):
            return factory()

    return make
