"""Trials that train in a blink, for tests of the machinery around them."""

from functools import partial

from tepui.data import Digits
from tepui.methods import SAM
from tepui.models import MLP
from tepui.report.comparison import read_comparison
from tepui.sharpness import worst_case
from tepui.studies import Results, compare
from tepui.studies.results import write_results
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
