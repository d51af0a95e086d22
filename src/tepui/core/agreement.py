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
    for rank, document in enumerate(documents):
        for name, (one, value) in differences(documents[0], document).items():
            raise ValueError(
                f"{name} must be the same on all ranks, got {one!r} on rank 0 and "
                f"{value!r} on rank {rank}"
            )


def differences(
    first: Mapping[str, Any], second: Mapping[str, Any]
) -> dict[str, tuple[Any, Any]]:
    """Return what two documents hold that is not the same, by the way to it.

    Example:
        >>> one, other = {"method": {"rho": 1, "p": 2}}, {"method": {"rho": 3, "p": 2}}
        >>> differences(one, other)
        {'method.rho': (1, 3)}
    """
    ones, others = dict(leaves(first)), dict(leaves(second))
    return {
        name: (ones.get(name), others.get(name))
        for name in {**ones, **others}
        if ones.get(name) != others.get(name)
    }


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield what a document holds, named by the way to it."""
    if isinstance(value, list | tuple):
        value = dict(enumerate(value))
    if not isinstance(value, Mapping):
        yield name, value
        return
    for key, item in value.items():
        yield from leaves(item, f"{name}.{key}" if name else str(key))
