"""What results say of a number that the command gave in the place of its size's."""

from collections.abc import Iterator, Mapping
from typing import Any

from tepui.studies.departures import DIFFERS

Settings = Mapping[str, Any]
Path = tuple[str, ...]


def replaced(given: Settings, usual: Settings, sizes: Mapping[str, Settings]) -> str:
    """Return what some sizes have where the command changed a size's settings.

    Args:
        given: The settings with what the command gave.
        usual: Those of the size without it.
        sizes: Settings to say, by the names of their sizes.

    Returns:
        Words to be written after what was given; empty where no setting shows it.

    Example:
        >>> small, paper = {"digits": {"epochs": 30}}, {"digits": {"epochs": 200}}
        >>> given = {"digits": {"epochs": 50}}
        >>> replaced(given, small, {"small": small, "paper": paper})
        'where small size has 30 and paper size has 200'
    """
    places: dict[str, list[str]] = {}
    for path in _changed(given, usual):
        words = " and ".join(
            f"{size} size has {_at(settings, path)}" for size, settings in sizes.items()
        )
        places.setdefault(words, []).append(path[0])
    if len(places) < 2:
        return "".join(f"where {words}" for words in places)
    parts = [f"{words} ({', '.join(names)})" for words, names in places.items()]
    return f"where {'; '.join(parts)}"


def _changed(given: Settings, usual: Settings) -> Iterator[Path]:
    """Yield the ways to settings that are not the same."""
    for name, value in given.items():
        other = usual.get(name)
        if isinstance(value, Mapping) and isinstance(other, Mapping):
            yield from ((name, *path) for path in _changed(value, other))
        elif name != DIFFERS and value != other:
            yield (name,)


def _at(settings: Settings, path: Path) -> str:
    """Return a setting in words; of several, such as seeds, how many they are."""
    value: Any = settings
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    if value is None:
        return "none"
    return str(len(value) if isinstance(value, list) else value)
