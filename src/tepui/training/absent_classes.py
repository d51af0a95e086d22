"""Classes that labels number, but no sample has."""

from collections.abc import Sequence

import torch
from torch import Tensor

# So many are named; of data with hundreds of classes more tell nothing.
MOST = 10


def absent_remark(
    targets: Tensor | None, classes: int | None, names: Sequence[str] = ()
) -> str | None:
    """Return which classes up to the last label have no sample, in words.

    Args:
        targets: Labels of the training data; None if they are not known beforehand.
        classes: How many classes there are; None where targets are no classes.
        names: Of the classes, if they have some.

    Returns:
        A remark with what to do; None where there is nothing to say.

    Example:
        >>> absent_remark(torch.tensor([0, 2]), 3, ("cat", "dog", "cow"))
        "no training sample has class 1 ('dog'): members cannot learn it"
    """
    if targets is None or classes is None or targets.ndim != 1 or len(targets) == 0:
        return None
    if int(targets.min()) < 0:  # which is refused where labels are read
        return None
    counts = torch.bincount(targets.long().cpu())
    absent = (counts == 0).nonzero().flatten().tolist()
    if not absent:
        return None
    if absent[0] == 0 and not names:
        first, last = int(targets.min()), len(counts) - 1
        seen = f"labels are {first} to {last}"
        return (
            f"no training sample has class 0, since {seen}, but labels count from 0: "
            f"subtract {first} from all of them, or one output stands for nothing"
        )
    shown = [f"{n} ({names[n]!r})" if names else str(n) for n in absent[:MOST]]
    more = f" and {len(absent) - MOST} more" if absent[MOST:] else ""
    word, it = ("class", "it") if len(absent) == 1 else ("classes", "them")
    listed = f"{word} {', '.join(shown)}{more}"
    return f"no training sample has {listed}: members cannot learn {it}"
