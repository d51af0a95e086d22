"""Tables 1 to 3: how much members differ, and what that does to accuracy and detection.

Table 1 counts the different classes that members predict. Table 2 is accuracy on
shifted images, for three ways to join the members: oracle selection is the member that
is best on the very labels of the test, prediction ensemble the mean of the logits,
uniform soup the mean of the weights. Table 3 is how well BMA and PDS tell unfamiliar
images from those of the test; corrupted copies count as unfamiliar, and over equally
many copies of each type the pooled AUROC is the mean of the types' own.
"""

from collections.abc import Iterator
from functools import partial
from itertools import product

from tepui.ensembles.ensemble import Ensemble
from tepui.ensembles.outputs import logit_batches
from tepui.evaluation.combining import uniform_soup
from tepui.metrics import Accuracy, Collection, IndividualAccuracy, UniquePredictions
from tepui.papers.recipe import Numbers, Order, Recipe
from tepui.papers.sed import protocol
from tepui.papers.sed.protocol import (
    DETECTED,
    LABELED,
    Quantity,
    Tested,
    aurocs,
    of_its_classes,
    streamed,
)


def diversity(order: Order) -> Iterator[Numbers]:
    """Return unique predictions by method and set; clean images are not printed."""
    study = protocol.study_of(order)
    for name in order.choose(protocol.METHODS):
        runs = protocol.trials(study, name)
        yield protocol.head_numbers("sed/table1", study, name, runs, unique)


def unique(tested: Tested) -> dict[Quantity, float]:
    """Return the number of different classes that members predict."""
    name = "unique_predictions"
    return {
        Quantity(dataset, name, "count"): streamed(
            Collection(**{name: UniquePredictions()}), tested.sets[dataset].read()
        )[name]
        for dataset in (*DETECTED, "imagenet_val")
    }


AGGREGATIONS = ("oracle selection", "prediction ensemble", "uniform soup")


def generalization(order: Order) -> Iterator[Numbers]:
    """Return accuracies by method, ensemble size, aggregation and set.

    Methods that are named have their small ensembles alone.
    """
    study = protocol.study_of(order)
    rows = [
        (name, study.members, protocol.trials(study, name, study.members))
        for name in order.choose(protocol.METHODS)
    ]
    if order.methods is None:
        rows.insert(0, ("single", 1, protocol.trials(study, "deep_ensemble")))
        rows += [
            (name, study.large, protocol.trials(study, name, study.large))
            for name in protocol.LARGE
        ]
    for name, size, runs in rows:
        yield protocol.head_numbers("sed/table2", study, name, runs, accuracies, size)


def accuracies(tested: Tested) -> dict[Quantity, float]:
    """Return accuracies by aggregation and set."""
    whole, size = tested.store.run(tested.trial).ensemble, tested.members
    soup = uniform_soup(Ensemble(whole.members[:size], whole.seeds[:size]))
    joined = {dataset: in_three_ways(tested, soup, dataset) for dataset in LABELED}
    return {
        Quantity(dataset, "accuracy", "percent", (("aggregation", name),)): (
            100 * joined[dataset][number]
        )
        for (number, name), dataset in product(enumerate(AGGREGATIONS), LABELED)
    }


def in_three_ways(
    tested: Tested, soup: Ensemble, dataset: str
) -> tuple[float, float, float]:
    """Return the accuracy on a set under each of the aggregations."""
    study, answers = tested.study, tested.sets[dataset]
    assert answers.labels is not None
    among = partial(of_its_classes, study, dataset, answers.labels)
    ways = Collection(single=IndividualAccuracy(), joined=Accuracy(rule="logit"))
    members = streamed(ways, among(answers.read()))
    images = tested.store.dataset(protocol.features(study, tested.repetition, dataset))
    of_soup = ((a.cpu(), b.cpu()) for a, b in logit_batches(soup, images))
    mixed = streamed(Collection(soup=Accuracy(rule="logit")), among(of_soup))
    return max(members["single"]), members["joined"], mixed["soup"]


def detection_numbers(order: Order) -> Iterator[Numbers]:
    """Return AUROCs by score, method and set; PDS is undefined for one model."""
    study = protocol.study_of(order)
    rows = [(name, name, study.members) for name in order.choose(protocol.METHODS)]
    if order.methods is None:
        rows.insert(0, ("single", "deep_ensemble", 1))
    for name, trained, size in rows:
        runs = protocol.trials(study, trained)
        yield protocol.head_numbers(
            "sed/table3", study, name, runs, detection, size, at={}
        )


def detection(tested: Tested) -> dict[Quantity, float]:
    """Return the AUROCs of one ensemble."""
    size = tested.members
    values = aurocs(tested.sets, "bma", ensemble_size=size)
    return values | (aurocs(tested.sets, "pds", ensemble_size=size) if size > 1 else {})


OVERRIDES = (*protocol.LENGTHS, "methods")
RECIPES = {
    item: Recipe(title, numbers, protocol.settings, overrides=OVERRIDES)
    for item, title, numbers in (
        ("table1", "different classes that members predict", diversity),
        (
            "table2",
            "accuracy on shifted images, for three ways to join members",
            generalization,
        ),
        (
            "table3",
            "detection of unfamiliar images by BMA and PDS",
            detection_numbers,
        ),
    )
}
