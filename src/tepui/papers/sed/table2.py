"""Table 2: accuracy on shifted images, for three ways to join the members.

Measured at small size, with stand-ins (n = 4; x86_64, torch 2.11.0+cu130): accuracy on
imagenet_val: single 75.97 ± 0.58 percent.

Oracle selection is the member that is best on the very labels of the test, prediction
ensemble the mean of the logits, uniform soup the mean of the weights.
"""

from collections.abc import Iterator
from functools import partial
from itertools import product

from tepui.ensembles.ensemble import Ensemble
from tepui.evaluation.combining import uniform_soup
from tepui.evaluation.dataset_logits import logit_batches
from tepui.metrics import Accuracy, Collection, IndividualAccuracy
from tepui.papers.recipe import Numbers, Order, Recipe
from tepui.papers.sed import protocol
from tepui.papers.sed.protocol import (
    LABELED,
    Quantity,
    Tested,
    of_its_classes,
    streamed,
)

AGGREGATIONS = ("oracle selection", "prediction ensemble", "uniform soup")


def numbers(order: Order) -> Iterator[Numbers]:
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


RECIPE = Recipe(
    title="accuracy on shifted images, for three ways to join members",
    numbers=numbers,
    settings=protocol.settings,
    overrides=(*protocol.LENGTHS, "methods"),
)
