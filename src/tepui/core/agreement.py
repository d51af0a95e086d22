"""Whether several processes were told the same."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def check_same(documents: Sequence[Mapping[str, Any]]) -> None:
    """Raise if the documents of some ranks differ, naming the first difference.

    Example:
        >>> check_same([{"data": {"samples": 9}}, {"data": {"samples": 8}}])
        Traceback (most recent call last):
        ValueError: data.samples must be the same on all ranks, got 9 on rank 0 and 8 on rank 1
    """  # noqa: E501 - a doctest must show the whole message
    first = dict(_leaves(documents[0]))
    for rank, document in enumerate(documents):
        other = dict(_leaves(document))
        for name in [*first, *(other.keys() - first.keys())]:
            one, value = first.get(name), other.get(name)
            if one != value:
                raise ValueError(
                    f"{name} must be the same on all ranks, got {one!r} on rank 0 and "
                    f"{value!r} on rank {rank}"
                )


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield what a document holds, named by the way to it."""
    if isinstance(value, list | tuple):
        value = dict(enumerate(value))
    if not isinstance(value, Mapping):
        yield name, value
        return
    for key, item in value.items():
        yield from _leaves(item, f"{name}.{key}" if name else str(key))
