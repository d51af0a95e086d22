"""What trials have in common at first, so that it is trained once.

SAM and SharpBalance after SAM (``before="sam"``) with its radius are one run until the
switch, and so are a deep ensemble, SharpBalance by default and all methods that begin
late (:meth:`tepui.methods.Method.prefix`). Members that will be pruned are, until then,
those that will not.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tepui.studies.specifications import Trial


class Piece(NamedTuple):
    """A part of the training of one trial, or of several that share it."""

    trial: Trial  # the simpler one, as long as it is like this one
    epochs: int
    first: int = 0  # the epoch with which it begins

    @property
    def member_epochs(self) -> int:
        """For how many epochs members train in it, all of them together."""
        course = self.trial.training.course(len(self.trial.seeds))
        return course.member_epochs(self.first, self.first + self.epochs)

    @property
    def passes(self) -> float:
        """What it costs all members, in passes of a member's data."""
        costs = self.trial.training.costs(len(self.trial.seeds))
        return sum(costs[self.first : self.first + self.epochs])


class Stage(NamedTuple):
    """What a trial is until an epoch."""

    trial: Trial  # simpler, if it does something later that it does not do yet
    until: int


def stages(trial: Trial) -> list[Stage]:
    """Return the simpler trials that a trial is at first, in their order.

    A method may begin as a simpler one, and members may be pruned before or after it
    does: the first stage is not pruned, the second one is.
    """
    training = trial.training
    method, until = training.method.prefix(training.epochs)
    simpler = trial.trained_with(method=method)
    whole = until
    if training.prune is not None:
        whole = min(until, training.prune.epoch(training.epochs))
    at_first = [Stage(simpler.trained_with(prune=None), whole)] if whole else []
    return at_first if whole == until else [*at_first, Stage(simpler, until)]


def beginning(trial: Trial, epochs: int) -> Trial:
    """Return the simplest trial that a trial is for so many epochs."""
    return next((each for each, until in stages(trial) if epochs <= until), trial)


def shared_beginnings(trials: Iterable[Trial]) -> dict[str, tuple[int, ...]]:
    """Return the epochs until which each trial shares its run with others.

    Args:
        trials: All of a study.

    Returns:
        By the trial's digest, ascending; nothing for a trial that shares nothing.
    """
    lengths: dict[str, dict[str, int]] = defaultdict(dict)
    for trial in trials:
        for begins, until in stages(trial):
            lengths[begins.digest][trial.digest] = until
    shared: dict[str, set[int]] = defaultdict(set)
    for group in lengths.values():
        ascending = sorted(group.values())
        ends = ascending[:-1]  # the longest is not shared, unless by two
        for name, until in group.items():
            shared[name].update(end for end in ends if end <= until)
    return {name: tuple(sorted(ends)) for name, ends in shared.items() if ends}


def pieces(trials: Sequence[Trial]) -> list[Piece]:
    """Return all that there is to train, with what trials share once."""
    shared = shared_beginnings(trials)
    together: dict[str, Piece] = {}
    alone: list[Piece] = []
    for trial in trials:
        done = 0
        for begins, until in stages(trial):
            ends = [end for end in shared.get(trial.digest, ()) if done < end <= until]
            if ends:
                piece = Piece(begins, ends[-1] - done, done)
                before = together.get(begins.digest, piece)
                longest = max(piece, before, key=lambda each: each.epochs)
                together[begins.digest] = longest
                done = ends[-1]
        for begins, until in (*stages(trial), Stage(trial, trial.training.epochs)):
            alone.append(Piece(begins, max(0, until - done), done))
            done = max(done, until)
    return [piece for piece in (*together.values(), *alone) if piece.epochs]
