"""Where a study stands, in one line: which piece begins, how long the rest takes."""

from collections.abc import Mapping, Sequence

from tepui.studies.job import Job, cost_left
from tepui.training.time_left import expected_seconds, in_words


def where_it_stands(jobs: Sequence[Job], place: int, took: Mapping[int, float]) -> str:
    """Return which job begins, and the time left from how long others took."""
    done = f"{place + 1} of {len(jobs)} in all"
    if not took:
        is_last = place + 1 == len(jobs)
        return done if is_last else f"{done}; the time left is told once one is trained"
    costs = [cost_left(job.trial) for job in jobs]
    left = sum(expected_seconds(costs, took)[place:])
    return f"{done}, about {in_words(left)} left"
