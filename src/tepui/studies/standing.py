"""Where a study stands, in one line: which piece begins, how long the rest takes."""

from collections.abc import Mapping, Sequence

from tepui.studies.job import Job
from tepui.studies.specifications import Trial
from tepui.training.time_left import expected_seconds, in_words


def where_it_stands(jobs: Sequence[Job], place: int, took: Mapping[int, float]) -> str:
    """Return which job begins, and the time left from how long others took."""
    done = f"{place + 1} of {len(jobs)}"
    if not took:
        return done
    left = sum(expected_seconds([_cost(job.trial) for job in jobs], took)[place:])
    return f"{done}, about {in_words(left)} left"


def _cost(trial: Trial) -> float:
    """Return what a trial costs beside others of the same model and data."""
    method, epochs = trial.training.method, trial.training.epochs
    return sum(method.relative_cost(epoch, epochs) for epoch in range(epochs))
