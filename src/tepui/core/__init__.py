"""Foundations: checks, random numbers, files, values that differ between members.

What is listed here is what methods, metrics, measures and data sets in a package of
one's own need.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from tepui.core.checks import one_of, require
from tepui.core.extras import late as _late

if _TYPE_CHECKING:
    from tepui.core.members import (
        for_member,
        hyperparameter_grid,
        per_member,
        values_of,
    )
    from tepui.core.seeding import derive, generator, seeded
else:
    __getattr__ = _late(
        __name__,
        {
            "tepui.core.members": "for_member hyperparameter_grid per_member values_of",
            "tepui.core.seeding": "derive generator seeded",
        },
    )

__all__ = [
    "derive",
    "for_member",
    "generator",
    "hyperparameter_grid",
    "one_of",
    "per_member",
    "require",
    "seeded",
    "values_of",
]
