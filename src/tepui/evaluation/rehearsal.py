"""Metrics of one's own, computed once before anything is trained for them."""

from collections.abc import Mapping

import torch
from torch import Tensor

from tepui.core.evenly_spaced import evenly_spaced
from tepui.core.seeding import generator
from tepui.core.task import CLASSIFICATION, Task
from tepui.evaluation.custom_metrics import Metric, check_metrics, metric_values
from tepui.evaluation.scores import Scores
from tepui.evaluation.task_examiner import KINDS
from tepui.evaluation.task_scores import taken_names

# So many labels are enough to be of all classes, and few enough for any memory.
MOST = 2000


def rehearse(
    metrics: Mapping[str, Metric],
    task: Task,
    outputs: tuple[int, ...],
    targets: Tensor | None,
) -> None:
    """Raise if a metric could not be computed of what an ensemble will give.

    Args:
        metrics: The metrics by name.
        task: What outputs mean.
        outputs: Their shape, ``(members, classes, ...)``, without samples.
        targets: Of the test data; where they are not known beforehand only names are
            checked.

    Raises:
        ValueError: If a name is that of a score, or a metric fails on random outputs.

    Example:
        >>> labels = torch.tensor([0, 1])
        >>> rehearse({"all": lambda x, y: x}, CLASSIFICATION, (3, 2), labels)
        Traceback (most recent call last):
        ValueError: metrics['all'] must return a scalar, not a tensor of shape, got (3, 2, 2)
    """  # noqa: E501 - a doctest must show the whole message
    choice = task == CLASSIFICATION and len(outputs) == 2
    check_metrics(metrics, taken_names(Scores if choice else KINDS[task.name]))
    if targets is None:
        return
    labels = targets[evenly_spaced(len(targets), MOST)]
    members, *others = outputs
    draws = generator(0, "rehearsal")
    drawn = torch.randn(members, len(labels), *others, generator=draws)
    for name, metric in metrics.items():
        try:
            metric_values({name: metric}, drawn, labels)
        except ValueError:
            raise
        except Exception as error:  # of the user's own code
            given = f"outputs {tuple(drawn.shape)} and labels {tuple(labels.shape)}"
            raise ValueError(
                f"metrics[{name!r}] must be a function of {given}, but it fails: "
                f"{type(error).__name__}: {error}"
            ) from error
