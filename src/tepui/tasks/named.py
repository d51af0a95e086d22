"""The task of a loss, of a text, and of outputs of which nobody has said it."""

from collections.abc import Iterator
from typing import Any

from torch import nn

from tepui.core.checks import require
from tepui.core.spec import read
from tepui.losses import Loss
from tepui.tasks.base import Task
from tepui.tasks.classes import Classes
from tepui.tasks.gaussians import Gaussians
from tepui.tasks.labels import Labels
from tepui.tasks.numbers import Numbers
from tepui.tasks.quantiles import Quantiles
from tepui.tasks.unknown import Unknown

TASKS: tuple[type[Task], ...] = (Classes, Labels, Numbers, Gaussians, Quantiles)


def read_task(text: str | None) -> Task:
    """Return the task that a file names; where it names none, a choice of classes.

    One of one's own must be known to the process: import its module before.

    Example:
        >>> read_task("Quantiles(levels=[0.1, 0.9])")
        Quantiles(levels=(0.1, 0.9))
    """
    found = read(text or Classes().written(), "task", also=[*_derived(Task)])
    assert isinstance(found, Task)
    return found


def _derived(kind: type) -> Iterator[type]:
    found: list[type] = type.__subclasses__(kind)
    for each in found:
        yield each
        yield from _derived(each)


def settled(task: Task | None, shape: tuple[int, ...]) -> Task:
    """Return a task; of an ensemble that names none, what its outputs can only be.

    Two outputs or more per sample are taken for logits of classes. One output is no
    choice between classes: whether it is a number or the logit of a yes is for the
    user to say.
    """
    if task is not None:
        return task
    rule = (
        "name its task, such as Ensemble(..., task=tepui.tasks.Numbers()), where "
        "outputs are not logits of two classes or more"
    )
    several = len(shape) > 2 and shape[2] > 1
    require(several, "ensemble", rule, f"outputs of shape {shape}")
    return Classes()


def task_of(loss: Loss, otherwise: Task | None = None) -> Task:
    """Return what outputs mean that a loss was computed of.

    Args:
        loss: One of :mod:`tepui.losses` or its functions, torch's of the same kinds, a
            partial of one, or any callable with a ``task``.
        otherwise: The task of any other callable; by default :class:`Unknown`.

    Example:
        >>> from tepui.losses import MSE
        >>> task_of(MSE()), task_of(lambda outputs, targets: outputs[:, 0])
        (Numbers(), Unknown())
    """
    named = getattr(loss, "task", None)
    if isinstance(named, Task):
        return named
    inner: Any = getattr(loss, "func", loss)
    if inner is not loss:
        return task_of(inner, otherwise)
    kind = type(loss) if isinstance(loss, nn.Module) else loss
    owned = (task.of_loss(kind) for task in TASKS)
    return next((task for task in owned if task is not None), otherwise or Unknown())
