"""Whether several processes were told the same."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

# What decides which other names a document has.
KINDS = ("class", "model")


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
        for name in [*ones, *(others.keys() - ones.keys())]
        if ones.get(name) != others.get(name)
    }


def apart(first: Any, second: Any) -> tuple[Any, Any]:
    """Return two values without what they have in common.

    Example:
        >>> apart({"class": "SAM", "rho": 1}, {"class": "SAM", "rho": 3})
        ({'rho': 1}, {'rho': 3})
        >>> apart({"class": "SAM", "rho": 1}, {"class": "SGD", "lr": 3})
        ({'class': 'SAM'}, {'class': 'SGD'})
        >>> apart([{"x": 1}, {"x": 2}], [{"x": 1}, {"x": 3}])
        ({'x': 2}, {'x': 3})
    """
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        names = [n for n in {**first, **second} if first.get(n) != second.get(n)]
        names = [n for n in names if n in KINDS] or names
        return {n: first.get(n) for n in names}, {n: second.get(n) for n in names}
    if _of_mappings(first) and _of_mappings(second) and len(first) == len(second):
        pairs = zip(first, second, strict=True)
        return next(
            (apart(*pair) for pair in pairs if pair[0] != pair[1]), (None, None)
        )
    return first, second


def _of_mappings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, Mapping) for v in value)


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield what a document holds, named by the way to it."""
    if isinstance(value, list | tuple):
        value = dict(enumerate(value))
    if not isinstance(value, Mapping):
        yield name, value
        return
    for key, item in value.items():
        yield from leaves(item, f"{name}.{key}" if name else str(key))
