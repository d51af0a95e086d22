"""What a model's outputs mean, as a small value that losses name and files keep."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, Self, final, get_args

from tepui.core.checks import one_of, require

TaskName = Literal[
    "classification", "multi_label", "regression", "gaussian", "quantiles", "unknown"
]


@final
@dataclass(frozen=True)
class Task:
    """What the outputs of a model mean.

    Outputs have shape ``(samples, outputs, …)``; further axes are pixels, each of which
    is answered on its own. The loss says what an output is:

    - ``"classification"``: a logit of one of several classes that exclude each other.
    - ``"multi_label"``: a logit of a label that holds or not, whatever the others do;
      one output is a yes or no.
    - ``"regression"``: a number.
    - ``"gaussian"``: the means of all numbers, and after them as many logarithms of
      variances.
    - ``"quantiles"``: the first level of all numbers, then the second, and so on.
    - ``"unknown"``: not known; nothing is done with outputs but to average them.

    Attributes:
        name: One of these.
        levels: The levels of the quantiles, rising within (0, 1); empty for any other
            task.

    Raises:
        ValueError: If the name is unknown, or levels do not fit it.

    Example:
        >>> Task("quantiles", (0.05, 0.5, 0.95)).levels
        (0.05, 0.5, 0.95)
    """

    name: TaskName
    levels: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        one_of("task", self.name, get_args(TaskName))
        levels = tuple(self.levels)
        object.__setattr__(self, "levels", levels)
        if self.name != "quantiles":
            require(not levels, "levels", f"be left out for {self.name}", levels)
            return
        inside = all(0 < level < 1 for level in levels)
        rising = all(low < high for low, high in pairwise(levels))
        rule = "rise within (0, 1), at least one of them"
        require(len(levels) > 0 and inside and rising, "levels", rule, levels)

    def __str__(self) -> str:
        return self.name.replace("_", "-")

    def document(self) -> dict[str, Any]:
        """Return the task for JSON.

        Returns:
            What :meth:`of` reads.
        """
        return {"name": self.name, "levels": list(self.levels)}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Read what :meth:`document` returned.

        Args:
            document: The value, from a file.

        Returns:
            The task.

        Raises:
            ValueError: If it describes none.
        """
        return cls(document["name"], tuple(document["levels"]))


CLASSIFICATION = Task("classification")
MULTI_LABEL = Task("multi_label")
REGRESSION = Task("regression")
GAUSSIAN = Task("gaussian")
UNKNOWN = Task("unknown")
