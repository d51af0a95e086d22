"""Members named on the command line: architectures, extractors, saved ensembles.

What a model's class takes and the user did not write follows from the data: the number
of classes and the channels and size of the images. What was written stays.

The frozen extractor that ``--extractor`` names is the first member of a run without its
last layer (``RUN``; ``RUN:mypackage.Net`` where members are models of the user's own),
or any module that a class or function of theirs returns, ``mypackage.body``, whose
outputs are the features.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from tepui.cli.asked import in_options
from tepui.cli.folders import check_run
from tepui.cli.values import Text
from tepui.core.checks import class_indices, require
from tepui.core.seeding import seeded
from tepui.core.spec import PATH, read
from tepui.core.task import CLASSIFICATION, UNKNOWN, Task
from tepui.data.arrays import Inputs
from tepui.data.loading import at_rows, targets_of
from tepui.data.prepared_like import image_shape
from tepui.ensembles.ensemble import FILE, Ensemble
from tepui.ensembles.foreign_weights import ensemble_of
from tepui.ensembles.loading import RUN, check_ended, load, task_in
from tepui.models import MLP, ConvNet, split_last_layers, without_classifier
from tepui.models.split import Frozen, frozen
from tepui.modules.running import forward
from tepui.training import Run

Factory = Callable[..., nn.Module]


def fitted(
    model: Factory | None, data: Dataset[Any], task: Task | None = None
) -> Factory:
    """Return a model for a data set and what its outputs are to mean.

    Example:
        >>> import torch, tepui
        >>> images = torch.zeros(4, 3, 8, 8)
        >>> data = tepui.data.Arrays(images, torch.arange(4))
        >>> fitted(None, data)().config["in_channels"]
        3
    """
    facts = facts_of(data, CLASSIFICATION if task is None else task)
    if model is None:
        known = "in_features" in facts and not has_masks(data)
        rule = "be given for what is no image and no row of numbers, and for masks"
        require(known, "--model", rule, None)
        model = ConvNet if "in_channels" in facts else MLP
    return fitted_to(facts, model)


def has_masks(data: Dataset[Any]) -> bool:
    """Return whether the targets of a data set are one for each pixel."""
    targets = targets_of(data)
    return targets is not None and targets.ndim > 2


def fitted_to(facts: Mapping[str, int], model: Callable[..., nn.Module]) -> Factory:
    """Return a model whose arguments that nobody wrote follow from some facts."""
    taken = inspect.signature(model).parameters
    written = model.keywords if isinstance(model, partial) else {}
    free = {n: value for n, value in facts.items() if n in taken and n not in written}
    try:
        inspect.signature(model).bind(**free)
    except TypeError as error:  # which names the argument
        raise ValueError(f"{getattr(model, '__name__', model)}: {error}") from error
    return partial(model, **free)


def facts_of(data: Dataset[Any], task: Task = CLASSIFICATION) -> dict[str, int]:
    """Return the arguments of models that follow from the data."""
    facts: dict[str, int] = {}
    if (outputs := _outputs(data, task)) is not None:
        facts["num_classes"] = outputs
    if (shape := image_shape(data)) is not None:
        channels, height, width = shape
        facts |= {"in_features": prod(shape), "in_channels": channels}
        if height == width:
            facts["image_size"] = width
    elif isinstance(first := data[0][0], Tensor):
        facts["in_features"] = prod(first.shape)
    return facts


def _outputs(data: Dataset[Any], task: Task) -> int | None:
    """Return how many outputs a model has; None if the data do not say."""
    if task == CLASSIFICATION:
        if names := getattr(data, "classes", ()):
            return len(names)
        labels = getattr(data, "targets", None)
        if not isinstance(labels, Tensor) or labels.is_floating_point():
            return None
        if (least := int(labels.min())) > 0:
            class_indices(labels, int(labels.max()) + 1 - least)
        return int(labels.max()) + 1 or None  # data without labels do not say
    targets = targets_of(data)
    if targets is None or task == UNKNOWN:
        return None
    numbers = targets.shape[1] if targets.ndim > 1 else 1
    return numbers * {"gaussian": 2}.get(task.name, len(task.levels) or 1)


def extractor_and_head(
    named: Text, model: Factory | None, data: Dataset[Any], task: Task = CLASSIFICATION
) -> tuple[Frozen, Factory]:
    """Return the extractor, and what makes heads for its features."""
    run, architecture = _run_in(named)
    if run is not None and architecture is None:
        try:
            split = split_last_layers(load(run).members[0])
        except ValueError as error:  # such as members of a class of their own
            rule = f"be {named}:mypackage.Net to name the class of its members"
            raise ValueError(f"--extractor must {rule}, or: {error}") from error
        front, chosen = split.extractor, model or partial(split.tail, fresh=True)
    else:
        front = frozen(front_named(named, data)().eval())
        chosen = model or partial(MLP, hidden=())
    with torch.no_grad():
        features = forward(front, _one(data))
    sizes = {"in_features": features[0].numel()}
    return front, fitted_to(facts_of(data, task) | sizes, chosen)


def front_named(named: Text, data: Dataset[Any]) -> Factory:
    """Return what makes the extractor of one's own that an option names."""
    run, architecture = _run_in(named)
    option = "--extractor"
    if run is None:
        rule = "name a folder with a run, or a model of your own by its path"
        require(PATH.fullmatch(named) is not None, option, rule, named)
        return _seeded(fitted(read(named, "model", own=named.typed), data))
    rule = "be written RUN:mypackage.Net, since that run has no models of its own"
    require(architecture is not None, option, rule, named)
    assert architecture is not None
    own = read(architecture, "model", own=named.typed)
    member = load(run, fitted(own, data)).members[0]
    return partial(without_classifier, member, _one(data))


def _one(data: Dataset[Any]) -> Inputs:
    """Return a batch of one sample, as a model sees it."""
    (batch,) = at_rows(data, [torch.arange(1)], device=torch.device("cpu"))
    return batch.inputs


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


def is_saved(places: Sequence[Path]) -> bool:
    """Return whether a run or a saved ensemble is named, rather than weights."""
    return len(places) == 1 and any((places[0] / f).is_file() for f in (FILE, RUN))


def opened(
    places: Sequence[Path],
    models: Sequence[Text] | None,
    extractor: Text | None,
    data: Callable[[Run], Dataset[Any] | None],
    out: Path | None = None,
) -> Run:
    """Return a run that ended, or one to be made of weights in another folder.

    Args:
        places: Its folder, or a file or folder of weights for each member.
        models: The architecture of members, or one for each, which is fitted to data.
        extractor: What made the extractor that members share.
        data: Returns them, when members are asked for.
        out: The folder of one that is made of weights.
    """
    for place in places:
        check_run(place)
    if is_saved(places):
        check_ended(places[0])
    run = Run(places[0] if is_saved(places) or out is None else out)
    run.loading = lambda: members_of(places, models, extractor, lambda: data(run))
    return run


def members_of(
    places: Sequence[Path],
    models: Sequence[Text] | None,
    extractor: Text | None,
    data: Callable[[], Dataset[Any] | None],
) -> Ensemble:
    """Return a saved ensemble, or one of weights."""
    saved = is_saved(places)
    task = task_in(places[0]) if saved else None
    seen = data() if models or extractor else None
    chosen = [text.read() for text in models or ()]
    made = [one if seen is None else fitted(one, seen, task) for one in chosen]
    factories = made[0] if len(made) == 1 else made or None
    if saved:
        front = None
        if extractor is not None and seen is not None:
            front = front_named(extractor, seen)
        try:
            return load(places[0], factories, front)
        except ValueError as error:
            raise in_options(error, places[0]) from error
    rule = "be left out for files of weights"
    require(extractor is None, "--extractor", rule, extractor)
    rule = "be given to read files of weights, once or one per member"
    require(factories is not None, "--model", rule, None)
    assert factories is not None
    return ensemble_of(places, factories)
