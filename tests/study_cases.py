"""Trials that train in a blink, for tests of the machinery around them."""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tepui.data import Digits
from tepui.methods import SAM
from tepui.models import MLP
from tepui.report.comparison import Comparison, scores_on
from tepui.report.loading import methods_of
from tepui.sharpness import worst_case
from tepui.studies import Results, compare, estimate
from tepui.studies.results import read_results, write_results
from tepui.studies.specifications import EvaluationSpec, Samples, SharpnessSpec, Trial
from tepui.training import TrainingSpec

TRIAL = Trial(
    data=Samples(Digits, count=64),
    model=partial(MLP, hidden=(6,)),
    training=TrainingSpec(method=SAM(rho=0.1), epochs=2, batch_size=32),
    seeds=(3, 4),
)
EXAM = EvaluationSpec(
    Samples(Digits, part="test", count=30), types=("contrast",), severities=(1, 5)
)
MEASURE = SharpnessSpec(partial(worst_case, num_samples=10, batch_size=5, num_steps=2))


@dataclass(frozen=True)
class Compared(Comparison):
    """A comparison with the settings that its records share."""

    settings: dict = field(default_factory=dict)


def read_comparison(folder):
    """Read what the page reads of a comparison."""
    found = read_results(folder)
    methods = tuple(methods_of(Path(folder), found))
    return Compared(methods, found.records, found.settings)


def score(method, data, name):
    """Return the mean of a score over a method's ensembles."""
    rows = (scores_on(data, trained.evaluation) for trained in method.ensembles)
    return estimate(row.get(name) for row in rows)


def compared(*arguments, out, **options):
    """Compare, and return what the page reads of it."""
    compare(*arguments, out=out, **options)
    return read_comparison(out)


def write_compared(folder, runs, settings, title="compared", environment=None):
    """Write results as a comparison does, whose runs lie beside them or not."""
    methods = {label: {"class": label} for label in runs}
    settings = {"sharpness": {}, **settings, "methods": methods, "runs": runs}
    found = Results("comparison", title, "", settings, environment or {}, ())
    write_results(folder, found)
