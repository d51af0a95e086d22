"""A table of six controls: seven metrics of every network, averaged over seeds.

All values are those of single networks; a network's disagreement is its mean over the
networks of the other seeds. Sharpness stands in two columns, measured on clean and on
augmented training data: all three measures grow with the loss that is left, which
augmentation raises, so that one column alone cannot tell a sharper network from a
harder task.
"""

from collections.abc import Iterator

from tepui.evaluation.stored_logits import StoredLogits
from tepui.metrics import (
    corruption_accuracy,
    ece,
    individual_accuracy,
    pairwise_disagreement,
)
from tepui.papers.recipe import Order, Recipe
from tepui.papers.rethinking.protocol import (
    STUDIES,
    controls,
    exam,
    measures,
    settings,
)
from tepui.report.controls import control_panels
from tepui.studies.jobs import Job
from tepui.studies.results import Record, averaged
from tepui.studies.statistics import pair_pseudo_values
from tepui.studies.store import Store

UNITS = {
    "accuracy": "fraction",
    "ece": "fraction",
    "corruption_accuracy": "percent",
    "disagreement": "fraction",
}


def table(item: str, dataset: str, architecture: str) -> Recipe:
    """Return the recipe of one table."""

    def plan(order: Order) -> list[Job]:
        study = STUDIES[order.size][dataset, architecture]
        asked = tuple(measures(study).values())
        return [Job(trial, (exam(study),), asked) for trial in controls(study).values()]

    def records(store: Store, order: Order) -> Iterator[Record]:
        study = STUDIES[order.size][dataset, architecture]
        for control, trial in controls(study).items():
            names = {
                "item": f"rethinking/{item}",
                "architecture": architecture,
                "method": control,
            }
            scores = member_scores(store.answers(trial, exam(study)))
            for metric, values in scores.items():
                of = f"{dataset}_c" if metric == "corruption_accuracy" else dataset
                more = {"dataset": of, "metric": metric, "unit": UNITS[metric]}
                yield averaged(values, [trial], **names, **more)
            for (metric, data), question in measures(study).items():
                members = store.measured(trial, question)[metric]["members"]
                more = {"dataset": dataset, "metric": metric, "unit": "none"}
                yield averaged(
                    [member["value"] for member in members],
                    [trial],
                    at={"sharpness_data": data},
                    **names,
                    **more,
                )

    return Recipe(
        title=f"six controls of {architecture} on {dataset}",
        plan=plan,
        records=records,
        settings=lambda order: settings(order.size, dataset, architecture),
        draw=control_panels,
    )


def member_scores(stored: StoredLogits) -> dict[str, list[float | None]]:
    """Return the scores of every network of a control."""
    logits, labels = stored.clean
    cells = {cell: individual_accuracy(*both) for cell, both in stored.shifted.items()}
    return {
        "accuracy": individual_accuracy(logits, labels).tolist(),
        "ece": [
            float(ece(one[None], labels, torchmetrics_bins=True)) for one in logits
        ],
        "corruption_accuracy": [
            100 * float(corruption_accuracy({c: each[n] for c, each in cells.items()}))
            for n in range(len(logits))
        ],
        "disagreement": pair_pseudo_values(pairwise_disagreement(logits)),
    }
