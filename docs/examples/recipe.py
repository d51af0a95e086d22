"""A figure of your own: SAM's radius on scikit-learn's digits.

The loop is written once: each radius yields the jobs that its numbers rest on and the
function that reads them from the store. From the folder above this one:

    tepui reproduce examples.recipe --size smoke
    tepui reproduce examples.recipe --epochs 20 --ensembles 5

A second command trains only what the first has not; `--dry-run` says what that is.
"""

from functools import partial

from tepui.data import Digits
from tepui.methods import SAM, DeepEnsemble
from tepui.models import ConvNet
from tepui.papers import Numbers, Order, Recipe
from tepui.studies import EvaluationSpec, Job, Samples, Trial, averaged, seeds
from tepui.training import TrainingSpec

RADII = (0.0, 0.05, 0.2)
LENGTHS = {"paper": (30, 5), "small": (10, 3), "smoke": (2, 2)}  # epochs, ensembles
TEST = EvaluationSpec(Samples(Digits, "test"), types=("gaussian_noise",))


def numbers(order: Order):
    """Return accuracy by radius, clean and under noise."""
    for radius in RADII:
        yield at_radius(radius, order)


def at_radius(radius: float, order: Order) -> Numbers:
    """Return the accuracy of ensembles trained with one radius."""
    epochs, ensembles = lengths(order)
    runs = [
        Trial(
            data=Samples(Digits, count=400),
            model=partial(ConvNet, width=4),
            training=TrainingSpec(
                method=SAM(rho=radius) if radius else DeepEnsemble(),
                epochs=epochs,
            ),
            seeds=seeds(repetition, members=2),
        )
        for repetition in range(ensembles)
    ]

    def records(store):
        for part, dataset in (("clean", "digits"), ("shifted", "digits_c")):
            yield averaged(
                [store.evaluation(trial, TEST)[part]["accuracy"] for trial in runs],
                runs,
                item="examples/recipe",
                dataset=dataset,
                architecture="convnet",
                method="sam" if radius else "deep_ensemble",
                metric="accuracy",
                unit="fraction",
                at={"rho": radius},
            )

    return Numbers([Job(trial, (TEST,)) for trial in runs], records)


def lengths(order: Order) -> tuple[int, int]:
    """Return epochs and ensembles: the size's, unless the command says otherwise."""
    epochs, ensembles = LENGTHS[order.size]
    return order.epochs or epochs, order.ensembles or ensembles


def settings(order: Order) -> dict:
    """Return what the results say of how they were made."""
    epochs, ensembles = lengths(order)
    return {"epochs": epochs, "ensembles": ensembles, "radii": list(RADII)}


RECIPE = Recipe(
    title="accuracy by SAM's radius",
    numbers=numbers,
    settings=settings,
    overrides=("epochs", "ensembles"),
)
