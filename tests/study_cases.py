"""Trials that train in a blink, for tests of the machinery around them."""

from functools import partial

from tepui.data import Digits
from tepui.methods import SAM
from tepui.models import MLP
from tepui.sharpness import worst_case
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
