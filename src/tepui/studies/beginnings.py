"""What trials have in common at first, so that it is trained once.

SAM and SharpBalance after SAM (``before="sam"``) with its radius are one run until the
switch, and so are a deep ensemble, SharpBalance by default and all methods that begin
late (:meth:`tepui.methods.Method.prefix`). Members that are pruned are those that are
not, until then.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from tepui.studies.specifications import Trial
from tepui.training.branching import first_part


def common_part(trial: Trial) -> tuple[Trial, int]:
    """Return the simpler trial that a trial is at first, and for how many epochs."""
    training, epochs = first_part(trial.training)
    return replace(trial, training=training), epochs


def shared_beginnings(trials: Iterable[Trial]) -> dict[str, tuple[int, ...]]:
    """Return the epochs until which each trial shares its run with others.

    Args:
        trials: All of a study.

    Returns:
        By the trial's digest, ascending; nothing for a trial that shares nothing.
    """
    lengths: dict[str, dict[str, int]] = defaultdict(dict)
    for trial in trials:
        begins, epochs = common_part(trial)
        lengths[begins.digest][trial.digest] = epochs
    shared = {}
    for group in lengths.values():
        ascending = sorted(group.values())
        # The longest is not shared, unless by two.
        ends = sorted(set(ascending[:-1]) - {0})
        for name, epochs in group.items():
            shared[name] = tuple(end for end in ends if end <= epochs)
    return {name: ends for name, ends in shared.items() if ends}


class Piece(NamedTuple):
    """A part of the training of one trial, or of several that share it."""

    trial: Trial  # the simpler one, as long as it is like this one
    epochs: int


def pieces(trials: Sequence[Trial]) -> list[Piece]:
    """Return all that there is to train, with what trials share once."""
    shared = shared_beginnings(trials)
    together: dict[str, Piece] = {}
    alone: list[Piece] = []
    for trial in trials:
        begins, like = common_part(trial)
        last = max(shared.get(trial.digest, (0,)))
        before = together.get(begins.digest, Piece(begins, 0))
        together[begins.digest] = Piece(begins, max(before.epochs, last))
        alone.append(Piece(begins, like - last))
        alone.append(Piece(trial, trial.training.epochs - like))
    return [piece for piece in (*together.values(), *alone) if piece.epochs]


def member_epochs(trials: Sequence[Trial]) -> int:
    """Return what trials cost, members times epochs, with what they share once."""
    return sum(len(trial.seeds) * epochs for trial, epochs in pieces(trials))
