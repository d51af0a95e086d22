"""The time left of a study, against ensembles whose times are known."""

from itertools import accumulate

import pytest
from rich.console import Console

from study_cases import TRIAL
from tepui.cli import reproduce
from tepui.methods import GSAM, SAM, SED, DeepEnsemble, SharpBalance
from tepui.studies.job import Job, cost_left
from tepui.studies.standing import costs_left, where_it_stands
from tepui.studies.store import Store

METHODS = [
    DeepEnsemble(),
    SAM(),
    SharpBalance(before="sam"),
    SharpBalance(switch_at=0.75),
    GSAM(),
    SED(active=2),
]
EPOCHS = 40
# What an epoch of one gradient takes, what a test takes, and how much cheaper a second
# gradient is than the first.
EPOCH, TEST, SECOND = 1.5, 4.0, 0.9


def jobs(methods, repetitions=2):
    trials = (TRIAL.trained_with(method=m, epochs=EPOCHS) for m in methods)
    return [Job(trial) for trial in trials for _ in range(repetitions)]


def true_epochs(job):
    """Return how long each epoch really takes."""
    method = job.trial.training.method
    costs = (method.relative_cost(epoch, EPOCHS) for epoch in range(EPOCHS))
    return [EPOCH * (1 + SECOND * (cost - 1)) for cost in costs]


def seconds_in(said):
    number, unit = said.split("about ")[1].split()[:2]
    return float(number) * {"s": 1, "min": 60, "h": 3600}[unit]


@pytest.mark.parametrize("first", range(len(METHODS)))
def test_lines_are_right_within_a_factor_after_the_first_ensemble(first, tmp_path):
    plan = jobs([*METHODS[first:], *METHODS[:first]])
    times = [sum(true_epochs(job)) + TEST for job in plan]
    costs = costs_left(plan, Store(tmp_path))
    beginning = f"1 of {len(plan)} in all; the time left is told once one is trained"
    assert where_it_stands(costs, 0, {}) == beginning
    assert where_it_stands(costs[:1], 0, {}) == "1 of 1 in all"
    for place, spent in enumerate(accumulate(times[:-1]), start=1):
        assert spent > 60
        said = where_it_stands(costs, place, dict(enumerate(times[:place])))
        assert said.startswith(f"{place + 1} of {len(plan)} in all, about ")
        true = sum(times[place:])
        assert true / 1.5 < seconds_in(said) < 1.5 * true


def test_finished_ensembles_take_no_time():
    # One was trained in 10 s; of the five others one is left.
    said = where_it_stands([12, 0, 0, 0, 12, 0], 4, {0: 10.0})
    assert said == "5 of 6 in all, about 10 s left"
    assert where_it_stands([0, 0, 12, 0], 2, {}) == "3 of 4 in all"


class Stands:
    """What a study's folder says of a job."""

    def __init__(self, epochs, requests):
        self.epochs, self.requests = epochs, requests

    def is_trained(self, trial):
        return self.epochs == EPOCHS

    def epochs_done(self, trial):
        return self.epochs

    def has(self, trial, request):
        return self.requests


@pytest.mark.parametrize(
    ("epochs", "tested", "cost"),
    [(0, False, 40), (30, False, 10), (EPOCHS, False, 1), (EPOCHS, True, 0)],
)
def test_what_is_done_of_an_ensemble_costs_nothing(epochs, tested, cost):
    (job,) = jobs([DeepEnsemble()], repetitions=1)
    job = Job(job.trial, evaluations=("a test",))
    assert costs_left([job], Stands(epochs, tested)) == [cost]


@pytest.mark.parametrize("first", range(len(METHODS)))
def test_bars_are_right_within_a_factor_after_a_minute(first, monkeypatch):
    clock, shown = [0.0], []
    monkeypatch.setattr(reproduce, "Progress", timed_by(clock, shown))
    monkeypatch.setattr(reproduce, "console", lambda: Console(quiet=True))
    plan = jobs([*METHODS[first:], *METHODS[:first]], repetitions=1)
    members = len(TRIAL.seeds)
    whole = sum(sum(true_epochs(job)) + TEST for job in plan)
    total = sum(members * (cost_left(job.trial) + 1) for job in plan)
    with reproduce.progress_bar(total) as advance:
        (bar,) = shown
        column = bar.columns[-1]
        assert column.render(bar.tasks[0]).plain == "estimating…"
        for job in plan:
            for epoch, seconds in enumerate(true_epochs(job)):
                clock[0] += seconds
                before, after = (cost_left(job.trial, epoch + n) for n in (0, 1))
                advance(members * (before - after))
                if clock[0] > 60:
                    told, true = bar.tasks[0].time_remaining, whole - clock[0]
                    assert true / 1.5 - TEST < told < 1.5 * true + TEST
            clock[0] += TEST
            advance(members)
        assert bar.finished


def timed_by(clock, shown):
    original = reproduce.Progress

    def make(*columns, **options):
        shown.append(original(*columns, **options, get_time=lambda: clock[0]))
        return shown[-1]

    return make


def test_where_nothing_is_left_no_bar_is_shown(monkeypatch):
    shown = []
    monkeypatch.setattr(reproduce, "Progress", timed_by([0.0], shown))
    with reproduce.progress_bar(0) as advance:
        advance(0)
    assert not shown
