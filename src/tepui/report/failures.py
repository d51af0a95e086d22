"""What a page says first: which ensembles guess, and which members did not learn."""

from collections.abc import Iterator, Sequence
from math import log

from tepui.evaluation.by_class import guess_on
from tepui.evaluation.dead_members import dead_members
from tepui.report.comparison import Comparison, MethodResult
from tepui.report.wording import listed, number, opening, some, word
from tepui.tasks.base import Losses

MOST = 3  # members, or shifts, of a sentence


def failures(comparison: Comparison) -> str:
    """Return sentences on ensembles, shifts and members; empty where all learned."""
    every = (_worse, _guessing, _worse_shifted, _dead)
    return " ".join(filter(None, (each(comparison) for each in every)))


def _guessing(comparison: Comparison) -> str:
    """Return which methods a guess of the most frequent class could well equal."""
    methods = comparison.methods
    found = [m.label for m in methods if _guesses(m) and not _is_worse(m)]
    if not found:
        return ""
    every = len(found) == len(methods)
    who = "Nothing here can" if every else f"{listed(found)} cannot"
    return (
        f"{who} be told from {_a_guess(comparison)}: train longer, or check labels and "
        "learning rate."
    )


def _worse(comparison: Comparison) -> str:
    """Return which methods do clearly worse than a guess of the most frequent class."""
    found = [method.label for method in comparison.methods if _is_worse(method)]
    if not found:
        return ""
    verb = "is" if len(found) == 1 else "are"
    return (
        f"{listed(found)} {verb} worse than {_a_guess(comparison)}: these may have "
        "shifted from the training data (another place, device or time), or their "
        "labels mean something else."
    )


def _worse_shifted(comparison: Comparison) -> str:
    """Return on which natural shifts methods do clearly worse than such a guess."""
    methods = comparison.methods
    shifts: dict[tuple[str, ...], list[str]] = {}
    for shift in comparison.natural_shifts:
        found = tuple(method.label for method in methods if _is_worse(method, shift))
        if found:
            shifts.setdefault(found, []).append(shift)
    return " ".join(
        f"On {_where(names)} {_who(found, len(methods))} worse than always naming the "
        "most frequent class."
        for found, names in shifts.items()
    )


def _where(shifts: list[str]) -> str:
    many = len(shifts) > MOST
    return f"{word(len(shifts))} natural shifts" if many else f"{listed(shifts)} data"


def _who(labels: Sequence[str], methods: int) -> str:
    if len(labels) == methods > 1:
        return "every method is"
    return f"{listed(labels)} {'is' if len(labels) == 1 else 'are'}"


def _a_guess(comparison: Comparison) -> str:
    share = comparison.methods[0].ensembles[0].evaluation["majority"]
    return (
        "always naming the most frequent class, which is right for "
        f"{number(100 * share)} % of the clean data"
    )


def _is_worse(method: MethodResult, shift: str | None = None) -> bool:
    guesses = (guess_on(trained.evaluation, shift) for trained in method.ensembles)
    return all(guess is not None and guess.wins for guess in guesses)


def _guesses(method: MethodResult) -> bool:
    guesses = (guess_on(trained.evaluation) for trained in method.ensembles)
    return all(guess is not None and guess.ties for guess in guesses)


def _dead(comparison: Comparison) -> str:
    found = [name for method in comparison.methods for name in _dead_in(method)]
    if not found:
        return ""
    return (
        f"{opening(some(found, MOST))} may not have learned: the loss on clean data "
        "lies far above that of the other members."
    )


def _dead_in(method: MethodResult) -> Iterator[str]:
    for place, trained in enumerate(method.ensembles, 1):
        losses = trained.evaluation["clean"].get("member_nlls")
        if not losses or None in losses or "classes" not in trained.evaluation:
            continue
        guess = log(trained.evaluation["classes"])
        for member in dead_members(Losses(losses, guess)):
            yield f"member {member} of {method.label}'s ensemble {place}"
