"""Which weight makes SED's members differ, on data held out of their training.

At ``small`` size heads learn from features that the paper's weight, 0.1, leaves alike.
The rule, fixed before the first run: the smallest weight of the grid for which members
give at least two different answers per shifted sample, in the study's first repetition,
on the mean over copies of a quarter of the training images: corrupted at severities 1
and 5, and inverted. The images of the study's test are not touched.

    PYTHONPATH=src python benchmarks/sed_weight.py --store runs/store
"""

import argparse
from dataclasses import replace
from statistics import fmean

from tepui.data import STANDARD
from tepui.ensembles.outputs import dataset_logits
from tepui.methods import SED
from tepui.metrics import accuracy, unique_predictions
from tepui.papers.recipe import Order
from tepui.papers.sed import protocol
from tepui.papers.sed.scales import inverted
from tepui.studies.derived_data import Changed, Copies, Features
from tepui.studies.store import Store
from tepui.studies.sweep import HoldOut

WEIGHTS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
HELD_OUT = 0.25
REPETITION = 0


def part(repetition, which):
    """Return images of the heads' training data: those kept, or those held out."""
    study = protocol.study_of(Order("small"))
    return HoldOut(study.images(repetition)["train"], which, HELD_OUT)


def answers(store, ensemble, repetition, images):
    """Return what heads say of images, and the labels."""
    extractor = protocol.study_of(Order("small")).extractor(repetition)
    features = store.dataset(Features(extractor, images))
    return dataset_logits(ensemble, features)


def tried(store, weight, repetition):
    """Return different answers on shifted copies, and the accuracy on clean images."""
    study = protocol.study_of(Order("small"))
    trial = protocol.trial(
        study, "sed_a2d", repetition, method=SED(weight=weight, active=2)
    )
    kept = Features(study.extractor(repetition), part(repetition, "kept"))
    ensemble = store.run(replace(trial, data=kept)).ensemble
    clean = part(repetition, "held_out")
    shifted = [Copies(clean, STANDARD, 1), Copies(clean, STANDARD, 5)]
    different = [
        float(unique_predictions(answers(store, ensemble, repetition, images)[0]))
        for images in (*shifted, Changed(clean, inverted))
    ]
    right = accuracy(*answers(store, ensemble, repetition, clean), rule="logit")
    return fmean(different), 100 * float(right)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", default="runs/store", help="of trained ensembles")
    store = Store(parser.parse_args().store, device="cpu")
    print("| weight | different answers | accuracy on clean images % |")
    print("|---:|---:|---:|")
    for weight in WEIGHTS:
        different, right = tried(store, weight, REPETITION)
        print(f"| {weight:g} | {different:.2f} | {right:.1f} |", flush=True)


if __name__ == "__main__":
    main()
