"""What is named on the command line: members, extractors, saved ensembles, a loss.

What a model's class takes and the user did not write follows from the data: the number
of classes and the channels and size of the images. What was written stays.

The frozen extractor that ``--extractor`` names is the first member of a run without its
last layer (``RUN``), or any module that a class or function of the user's own returns,
``mypackage.body``, whose outputs are the features.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from tepui.cli.folders import check_run
from tepui.cli.values import Text
from tepui.core.checks import one_of, require
from tepui.core.seeding import SEED, seeded
from tepui.core.spec import PATH, read
from tepui.data.arrays import Inputs
from tepui.data.image_files import image_shape
from tepui.data.loading import at_rows, targets_of
from tepui.data.sources import part, validation_data
from tepui.ensembles.ensemble import FILE, Ensemble
from tepui.ensembles.foreign_weights import ensemble_of
from tepui.ensembles.loading import RUN, check_ended, load, meaning_in
from tepui.losses import CrossEntropy, Loss
from tepui.models import MLP, ConvNet, split_last_layers
from tepui.models.split import Frozen, frozen
from tepui.modules.running import forward
from tepui.tasks import Task, task_of
from tepui.tasks.named import settled
from tepui.training import Callback, Run

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
    facts = facts_of(data, task)
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


def facts_of(data: Dataset[Any], task: Task | None = None) -> dict[str, int]:
    """Return the arguments of models that follow from the data."""
    facts: dict[str, int] = {}
    meant = settled(task, (1, 1, 2))  # classes, if nobody has said
    held = getattr(data, "targets", None)
    targets = held if isinstance(held, Tensor) else targets_of(data)
    answers = meant.answers_in(targets, getattr(data, "classes", ()))
    if answers is not None and (outputs := meant.outputs(answers)) is not None:
        facts["num_classes"] = outputs
    if (shape := image_shape(data)) is not None:
        channels, height, width = shape
        facts |= {"in_features": prod(shape), "in_channels": channels}
        if height == width:
            facts["image_size"] = width
    elif isinstance(first := data[0][0], Tensor):
        facts["in_features"] = prod(first.shape)
    return facts


def extractor_and_head(
    named: Text, model: Factory | None, data: Dataset[Any], task: Task | None
) -> tuple[Frozen, Factory]:
    """Return the extractor, and what makes heads for its features."""
    if Path(named).is_dir():
        split = split_last_layers(load(named).members[0])
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
    rule = "name a folder with a run, or a model of your own by its path"
    require(PATH.fullmatch(named) is not None, "extractor", rule, named)
    body = fitted(read(named, "model", own=named.typed), data)

    def make() -> nn.Module:
        with seeded("load"):  # a body without weights is the same at every call
            return body()

    return make


def _one(data: Dataset[Any]) -> Inputs:
    """Return a batch of one sample, as a model sees it."""
    (batch,) = at_rows(data, [torch.arange(1)], device=torch.device("cpu"))
    return batch.inputs


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
        check_run(place, weights=models is not None)
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
    task = meaning_in(places[0])[0] if saved else None
    seen = data() if models or extractor else None
    chosen = [text.read() for text in models or ()]
    made = [one if seen is None else fitted(one, seen, task) for one in chosen]
    factories = made[0] if len(made) == 1 else made or None
    if saved:
        front = None
        if extractor is not None and seen is not None:
            front = front_named(extractor, seen)
        return load(places[0], factories, front)
    rule = "be left out for files of weights"
    require(extractor is None, "--extractor", rule, extractor)
    rule = "be given to read files of weights, once or one per member"
    require(factories is not None, "--model", rule, None)
    assert factories is not None
    return ensemble_of(places, factories)


class Materials(NamedTuple):
    """What members are trained with."""

    data: Dataset[Any]
    loss: Loss
    task: Task  # what outputs mean
    extractor: Frozen | None  # whose features members are heads on
    factory: Factory  # what makes a member
    validation: Any  # a share, other data, or nothing
    unlabeled: Dataset[Any] | None
    seed: int | list[int]


def materials(
    data: Text,
    model: Text | None,
    loss: Text | None,
    validation: float | Text | None,
    extractor: Text | None,
    unlabeled: Any,
    seeds: list[int] | None,
    task: Task | None = None,
) -> Materials:
    """Return what members are trained with, of what was asked for."""
    made_by = data.read()
    learned = part(made_by, train=True)
    own = None if task is None else task.loss
    minimized = loss.read() if loss is not None else own or CrossEntropy()
    task = task_of(minimized, task)
    architecture = None if model is None else model.read()
    front = None
    if extractor is None:
        factory = fitted(architecture, learned, task)
    else:
        front, factory = extractor_and_head(extractor, architecture, learned, task)
    unseen = validation_data(validation, made_by, learned)
    beside = None if unlabeled is None else unlabeled()
    drawn = seeds or [SEED]
    seed = drawn[0] if len(drawn) == 1 else drawn
    return Materials(learned, minimized, task, front, factory, unseen, beside, seed)


def trackers_named(names: str | Sequence[str] | None) -> list[Callback]:
    """Return the trackers of some names, set by their own environment variables."""
    from tepui.tracking import MLflow, TensorBoard, WandB

    kinds: dict[str, type[Callback]] = {
        "tensorboard": TensorBoard,
        "mlflow": MLflow,
        "wandb": WandB,
    }
    named = [names] if isinstance(names, str) else names or ()
    for name in named:
        one_of("track", name, kinds)
    return [kinds[name]() for name in named]
