"""Which of how many processes this is, as torchrun says in the environment."""

import os
from typing import NamedTuple

from tepui.core.checks import require


class Place(NamedTuple):
    """Which of how many processes this is."""

    rank: int
    size: int


def place_of_environment() -> Place:
    """Return the rank and the number of ranks that the environment names."""
    given = {name: os.environ.get(name) for name in ("RANK", "WORLD_SIZE")}
    if all(value is None for value in given.values()):
        return Place(0, 1)
    for name, value in given.items():
        rule = "be a number, and RANK and WORLD_SIZE both set or neither (by torchrun)"
        require(value is not None and value.isdecimal(), name, rule, value)
    place = Place(*(int(value or 0) for value in given.values()))
    rule = f"be below WORLD_SIZE ({place.size})"
    require(place.rank < place.size, "RANK", rule, place.rank)
    return place
