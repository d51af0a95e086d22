"""What trials have in common at first, so that it is trained once.

SAM and SharpBalance after SAM (``before="sam"``) with its radius are one run until the
switch, and so are a deep ensemble, SharpBalance by default and all methods that begin
late (:meth:`tepui.methods.Method.prefix`). Members that will be pruned are, until then,
those that will not.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from tepui.studies.specifications import Trial


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


def distinct_epochs(trials: Iterable[Trial]) -> list[tuple[int, float]]:
    """Return all epochs that there are to train, those that trials share once.

    Args:
        trials: What is to be trained.

    Returns:
        How many members train in each, and what it costs them all in passes of a
        member's data.
    """
    found: dict[tuple[str, int], tuple[int, float]] = {}
    for trial in trials:
        first, members = 0, len(trial.seeds)
        for same, until in (*stages(trial), Stage(trial, trial.training.epochs)):
            course, costs = same.training.course(members), same.training.costs(members)
            for epoch in range(first, until):
                found[same.digest, epoch] = len(course.active(epoch)), costs[epoch]
            first = max(first, until)
    return [*found.values()]
