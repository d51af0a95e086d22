"""Words among features, which networks do not read: a hint at what turns them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

HINT = (
    "words become numbers in a Pipeline before the estimator, by OneHotEncoder, or by "
    "OrdinalEncoder where they have an order (make_column_transformer for columns of "
    "words alone); tepui.data.Table reads a file with both"
)


@contextmanager
def words_named(X: Any) -> Iterator[None]:
    """Say of features that are words what makes numbers of them.

    Args:
        X: What the block checks.

    Example:
        >>> with words_named([["red"]]):
        ...     float("red")
        Traceback (most recent call last):
        ValueError: X must hold numbers, but could not convert string to float: 'red'; words become numbers in a Pipeline before the estimator, by OneHotEncoder, or by OrdinalEncoder where they have an order (make_column_transformer for columns of words alone); tepui.data.Table reads a file with both
    """  # noqa: E501 - a doctest must show the whole message
    try:
        yield
    except ValueError as error:
        if "could not convert string" not in str(error) or not _holds_words(X):
            raise
        raise ValueError(f"X must hold numbers, but {error}; {HINT}") from error


def _holds_words(X: Any) -> bool:
    try:
        np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        return True
    return False
