"""Tables 1 to 8, of six controls: seven metrics of every network, averaged over seeds.

All values are those of single networks; a network's disagreement is its mean over the
networks of the other seeds. Sharpness stands in two columns, measured on clean and on
augmented training data: all three measures grow with the loss that is left, which
augmentation raises, so that one column alone cannot tell a sharper network from a
harder task.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tepui.evaluation.stored_logits import StoredLogits
from tepui.metrics import (
    corruption_accuracy,
    ece,
    individual_accuracy,
    pairwise_disagreement,
)
from tepui.papers.recipe import Numbers, Order, Recipe
from tepui.papers.rethinking.protocol import ControlStudy, settings, study_of
from tepui.report.scatter import Cloud, Scatter, scatter_panels
from tepui.studies import (
    Job,
    Record,
    Results,
    Store,
    Trial,
    averaged,
    pair_pseudo_values,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARPNESS = ("fisher_rao", "sam_sharpness", "relative_flatness")
DATA = ("clean", "augmented")
UNITS = {
    "accuracy": "fraction",
    "ece": "fraction",
    "corruption_accuracy": "percent",
    "disagreement": "fraction",
}
SCORES = tuple(UNITS)


def control_panels(results: Results) -> "Figure":
    """Draw each score against each sharpness, on clean data joined to augmented."""

    def cloud(control: str, sharp: str, score: str) -> Cloud:
        found = (
            results.one(method=control, metric=sharp, sharpness_data=data).value
            for data in DATA
        )
        y = results.one(method=control, metric=score).value
        return Cloud(control.replace("_", " "), [*found], [y] * 2, joined=True)

    controls = list(dict.fromkeys(record.method for record in results.records))
    panels = [
        Scatter(
            f"{score} against {sharp}".replace("_", " "),
            f"{sharp.replace('_', ' ')}, on clean and on augmented training data",
            score.replace("_", " "),
            tuple(cloud(control, sharp, score) for control in controls),
        )
        for score in SCORES
        for sharp in SHARPNESS
    ]
    return scatter_panels(panels)


def table(item: str, dataset: str, architecture: str) -> Recipe:
    """Return the recipe of one table."""
    names = {"item": f"rethinking/{item}", "architecture": architecture}

    def numbers(order: Order) -> Iterator[Numbers]:
        study = study_of(order, dataset, architecture)
        for control, trial in order.choose(study.controls()).items():
            yield of_control(study, trial, dataset, method=control, **names)

    return Recipe(
        title=f"six controls of {architecture} on {dataset}",
        numbers=numbers,
        settings=lambda order: settings(order, dataset, architecture),
        draw=control_panels,
        overrides=("epochs", "members", "methods"),
    )


def of_control(
    study: ControlStudy, trial: Trial, dataset: str, **names: Any
) -> Numbers:
    """Return all metrics of one control."""
    test, measures = study.evaluation_spec(), study.measures()

    def records(store: Store) -> Iterator[Record]:
        scores = member_scores(store.logits(trial, test))
        for metric, values in scores.items():
            of = f"{dataset}_c" if metric == "corruption_accuracy" else dataset
            more = {"dataset": of, "metric": metric, "unit": UNITS[metric]}
            yield averaged(values, [trial], **names, **more)
        for (metric, data), spec in measures.items():
            members = store.measured(trial, spec)[metric]["members"]
            yield averaged(
                [member["value"] for member in members],
                [trial],
                dataset=dataset,
                metric=metric,
                unit="none",
                at={"sharpness_data": data},
                **names,
            )

    return Numbers([Job(trial, (test,), tuple(measures.values()))], records)


def member_scores(stored: StoredLogits) -> dict[str, list[float | None]]:
    """Return the scores of every network of a control."""
    logits, labels = stored.clean
    copies = {c: individual_accuracy(*both) for c, both in stored.shifted.items()}
    return {
        "accuracy": individual_accuracy(logits, labels).tolist(),
        "ece": [
            float(ece(one[None], labels, torchmetrics_bins=True)) for one in logits
        ],
        "corruption_accuracy": [
            100
            * float(
                corruption_accuracy(
                    {c: accuracies[n] for c, accuracies in copies.items()}
                )
            )
            for n in range(len(logits))
        ],
        "disagreement": pair_pseudo_values(pairwise_disagreement(logits)),
    }


# Data set and network of each table.
TABLES = {
    "table1": ("cifar10", "resnet18"),
    "table2": ("cifar100", "resnet18"),
    "table3": ("tiny_imagenet", "resnet18_pretrained"),
    "table4": ("cifar10", "vgg19"),
    "table5": ("cifar100", "vgg19"),
    "table6": ("tiny_imagenet", "vgg19_bn_pretrained"),
    "table7": ("cifar10", "vit"),
    "table8": ("cifar100", "vit"),
}
RECIPES = {item: table(item, *names) for item, names in TABLES.items()}
