"""Models without the weights that were published, to learn what they are like."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_untrained = ContextVar("untrained", default=False)


@contextmanager
def untrained() -> Iterator[None]:
    """Build models inside as they are, whatever weights they would be given."""
    token = _untrained.set(True)
    try:
        yield
    finally:
        _untrained.reset(token)


def are_weights_wanted() -> bool:
    """Return whether a model that is built now shall have its published weights."""
    return not _untrained.get()
