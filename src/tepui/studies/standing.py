"""Where a study stands, in one line: which piece begins, how long the rest takes."""

from collections.abc import Mapping, Sequence

from tepui.studies.job import Job, cost_left
from tepui.studies.store import Store
from tepui.training.time_left import expected_seconds, in_words


def costs_left(jobs: Sequence[Job], store: Store) -> list[int]:
    """Return what each job still costs a member, in epochs of one gradient a sample.

    That is 0 where the store has everything, and at least 1 where it has not.
    """
    return [_cost(job, store) for job in jobs]


def _cost(job: Job, store: Store) -> int:
    if not job.steps_left(store):
        return 0
    if store.is_trained(job.trial):
        return 1  # its test, or a measure
    left = cost_left(job.trial, store.epochs_done(job.trial))
    return max(1, round(left / len(job.trial.seeds)))


def where_it_stands(costs: Sequence[int], place: int, took: Mapping[int, float]) -> str:
    """Return which job begins, and the time left from how long others took.

    Args:
        costs: What every job cost when the study began or went on, 0 where nothing was
            left of it.
        place: Which of them begins.
        took: Seconds of those that were done since.
    """
    done = f"{place + 1} of {len(costs)} in all"
    if not took:
        is_last = not any(costs[place + 1 :])
        return done if is_last else f"{done}; the time left is told once one is trained"
    left = sum(expected_seconds(costs, took)[place:])
    return f"{done}, about {in_words(left)} left"
