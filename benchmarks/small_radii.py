"""Chooses SAM's radius for size ``small`` on held-out data, as decision 006 says.

TEPUI_DATA names the folder with Fashion-MNIST and CIFAR-10:

    PYTHONPATH=src python3 benchmarks/small_radii.py --store radii_store --out FILE
"""

import argparse
from pathlib import Path

from tepui.core.storage import write_json
from tepui.papers.recipe import Order
from tepui.papers.sharpbalance.protocol import DATASETS, protocol_of
from tepui.studies import Store
from tepui.studies.sweep import Outcome, Search, search, sweep
from tepui.training.run_folder import environment_of

RADII = (0.01, 0.02, 0.05, 0.1, 0.2)
ENSEMBLES = 10
HELD_OUT = 0.25


def planned(dataset: str) -> Search:
    """Return the search over SAM's radii on one data set."""
    order = Order("small", ensembles=ENSEMBLES)
    protocol = protocol_of(order, dataset)
    trials = protocol.trials(protocol.sam(protocol.rho))
    return search(trials, {"rho": RADII}, held_out=HELD_OUT)


def accuracies(outcome: Outcome) -> dict[float, list[float]]:
    """Return, for each radius, every ensemble's accuracy on held-out data."""
    return {
        dict(row.values)["rho"]: [
            value for value in row.scores["accuracy"] if value is not None
        ]
        for row in outcome.rows
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    store = Store(arguments.store, device="cpu")
    found = {
        dataset: accuracies(sweep(planned(dataset), store, workers=arguments.workers))
        for dataset in DATASETS
    }
    document = {"held_out_accuracy": found, "environment": environment_of(store.device)}
    write_json(arguments.out, document)
    for dataset, rows in found.items():
        for radius, values in rows.items():
            print(dataset, radius, f"{100 * sum(values) / len(values):.3f}")


if __name__ == "__main__":
    main()
