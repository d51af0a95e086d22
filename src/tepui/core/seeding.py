"""Random numbers derived from (seed, purpose, counter), never from global state.

A draw depends only on its key: adding a member, resuming in the middle of an epoch or
changing the number of workers moves no other draw. Checkpoints therefore store
counters, not generator states.
"""

import hashlib
import operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

Key = int | str

# Where nobody names a seed, in Python and on the command line.
SEED = 13


def derive(*key: Key) -> int:
    """Return a 63-bit seed that depends on every part of the key.

    Args:
        key: Integers and words, such as a member's seed, a purpose and a counter.

    Returns:
        The seed.

    Example:
        >>> derive(13, "order", 0) == derive(13, "order", 0)
        True
        >>> derive(13, "order", 0) == derive(13, "order", 1)
        False
    """
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in key)
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def generator(*key: Key, device: str | torch.device = "cpu") -> torch.Generator:
    """Return a fresh generator seeded by :func:`derive`.

    Args:
        key: What the draws depend on.
        device: Where they are made.

    Returns:
        The generator.
    """
    try:
        stream = torch.Generator(device)
    except RuntimeError as error:
        rule = "be a device of torch that is here, such as 'cpu'"
        raise ValueError(f"device must {rule}, got {device!r}") from error
    return stream.manual_seed(derive(*key))


def member_seeds(seed: int | Sequence[int], members: int) -> tuple[int, ...]:
    """Return one seed per member.

    Example:
        >>> member_seeds([13, 17, 27], 3)
        (13, 17, 27)
        >>> member_seeds(13, 2) == member_seeds(13, 5)[:2]
        True
    """
    if not isinstance(seed, Sequence):
        number = _integer(seed)
        return tuple(derive(number, "member", index) for index in range(members))
    seeds = tuple(_integer(value) for value in seed)
    if len(seeds) != members:
        raise ValueError(f"seed must name one seed per member ({members}), got {seeds}")
    if len(set(seeds)) != members:
        raise ValueError(
            f"seed must differ between members, or they train identically, got {seeds}"
        )
    return seeds


def _integer(value: object) -> int:
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ValueError(
            f"seed must be an integer, or one integer per member, got {value!r}"
        ) from None


@contextmanager
def seeded(*key: Key) -> Iterator[None]:
    """Seed torch's global CPU generator inside the block and restore it after.

    For code that can draw only from global state: initializers and dropout.

    Args:
        key: What the draws depend on.

    Yields:
        Nothing.
    """
    state = torch.random.get_rng_state()
    torch.default_generator.manual_seed(derive(*key))
    try:
        yield
    finally:
        torch.random.set_rng_state(state)
