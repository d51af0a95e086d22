"""What a study does otherwise than its paper, each with the reason.

Settings of results hold them under ``"differs"``, as documents.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

DIFFERS = "differs"


class Departure(NamedTuple):
    """One thing that is not as published.

    Attributes:
        what: What is done, and what the paper does.
        why: The reason.
    """

    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.what} ({self.why})" if self.why else self.what

    def document(self) -> dict[str, str]:
        """Return it ready for JSON."""
        return self._asdict()


def departures(settings: Mapping[str, Any]) -> list[Departure]:
    """Return the departures that the settings of results hold.

    Example:
        >>> held = {"differs": [{"what": "40 epochs for 200", "why": "one hour"}]}
        >>> [*map(str, departures(held))]
        ['40 epochs for 200 (one hour)']
    """
    return [Departure(**document) for document in settings.get(DIFFERS, ())]


def once(several: Iterable[Departure]) -> list[Departure]:
    """Return departures in their order, each once."""
    return [*dict.fromkeys(several)]
