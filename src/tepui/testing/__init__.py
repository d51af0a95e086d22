"""Contract suites for what lives in a package of your own.

Each is a plain function that needs no test runner: it returns nothing if all is well,
and raises an ``AssertionError`` that names the thing, the rule and what was seen
otherwise. What tepui brings itself is held to the same rules by the same functions.
"""

from tepui.testing.corruptions import check_corruption
from tepui.testing.datasets import check_dataset
from tepui.testing.measures import check_measure
from tepui.testing.methods import check_method
from tepui.testing.metrics import check_metric
from tepui.testing.tasks import check_task

__all__ = [
    "check_corruption",
    "check_dataset",
    "check_measure",
    "check_method",
    "check_metric",
    "check_task",
]
