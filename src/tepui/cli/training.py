"""What members are trained with: data, a loss, a model or heads, and who watches."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch.utils.data import Dataset

from tepui.cli.members import Factory, extractor_and_head, fitted
from tepui.cli.values import Text
from tepui.core.checks import one_of, require
from tepui.core.seeding import SEED
from tepui.data.loading import targets_of
from tepui.data.sources import part, validation_data
from tepui.losses import CrossEntropy, Loss
from tepui.models.split import Frozen
from tepui.tasks import Task, task_of
from tepui.training import Callback


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
    own = None if task is None or loss is not None else task.loss
    minimized = own or loss_for(loss, learned)
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


def loss_for(loss: Text | None, data: Dataset[Any]) -> Loss:
    """Return the loss that was named; a cross-entropy if targets are classes.

    Raises:
        ValueError: If no loss was named though targets are no classes.
    """
    if loss is not None:
        named: Loss = loss.read()
        return named
    targets = targets_of(data)
    kinds: dict[Any, str] = {
        (1, True): "numbers to predict, such as MSE or GaussianNLL",
        (2, False): "several labels of a sample: BinaryCrossEntropy",
    }
    kind = None if targets is None else (targets.ndim, targets.is_floating_point())
    require(kind not in kinds, "--loss", f"be given for {kinds.get(kind)}", None)
    return CrossEntropy()


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
