"""Comparisons that nobody trained, in the form that a page takes."""

import re
from dataclasses import replace
from html import unescape
from pathlib import Path

from study_cases import score
from tepui.report.comparison import Comparison, MethodResult, Trained
from tepui.report.loading import LoadedReports, ReportSource
from tepui.report.page import page_text
from tepui.studies.results import averaged

NAMES = {"item": "made up", "architecture": "Net", "unit": "none"}
TRAINING = {"members": 3, "model": "Net", "epochs": 4, "samples": 50}
ENVIRONMENT = {"command": "tepui compare --out runs/x", "torch": "2"}


def evaluation(accuracy=0.9, cells=None, **changes):
    """Return an evaluation with an accuracy for every corrupted copy."""
    if cells is None:
        cells = {("contrast", s): accuracy - 0.2 for s in (1, 2)}

    def scores(together):
        found = {"individual_accuracy": together - 0.05, "accuracy": together}
        return found | {"der": 0.5, "ece": 0.02, "nll": 0.4}

    places = [
        {"type": kind, "severity": severity, **scores(value)}
        for (kind, severity), value in cells.items()
    ]
    copies = [cell for cell in places if cell["severity"]]
    hard = scores(accuracy - 0.2) if copies else None
    bins = {"count": [0, 20, 80], "confidence": [None, 0.5, 0.9]}
    bins["accuracy"] = [None, 0.6, 0.8]
    return {
        "rule": "probability",
        "members": 3,
        "samples": 100,
        "clean": scores(accuracy),
        "shifted": hard,
        "severities": {str(s): hard for _, s in cells if s},
        "cells": places,
        "reliability": {"clean": bins, **({"shifted": bins} if copies else {})},
        **changes,
    }


def method(label, *evaluations, **fields):
    """Return a method with an ensemble for each evaluation, and seeds from 1 on."""
    ensembles = (
        Trained(f"nowhere/{n}", (1 + n, 2, 3), own) for n, own in enumerate(evaluations)
    )
    changed = (replace(trained, **fields) for trained in ensembles)
    return MethodResult(label, tuple(changed), TRAINING, (Path("run"),))


def comparison(labels=("Plain", "Flat"), ensembles=2, shift=True, **training):
    """Return methods of which each is two points better than the one before."""
    cells = None if shift else {}
    methods = tuple(
        method(
            label,
            *(
                evaluation(0.9 + 0.02 * index + 0.01 * n, cells)
                for n in range(ensembles)
            ),
            sharpness={"mean": 0.35},
        )
        for index, label in enumerate(labels)
    )
    told = {**TRAINING, **training}
    return Comparison(tuple(replace(own, training=told) for own in methods))


def with_records(made, interval=(0.01, 0.03), note="", kinds=("clean", "shifted")):
    """Return a comparison with the records that tell gains and differences."""
    records = []
    for data in kinds:
        base = score(made.methods[0], data, "accuracy").mean
        for own in made.methods:
            mean = score(own, data, "accuracy").mean
            alone = score(own, data, "individual_accuracy").mean
            for kind, value in (("gain", mean - alone), ("difference", mean - base)):
                if kind == "gain" or own is not made.methods[0]:
                    names = {"dataset": data, "method": own.label}
                    names |= {"metric": f"accuracy_{kind}", **NAMES}
                    record = averaged([value, value], [], **names)
                    records.append(replace(record, interval=interval, note=note))
    return replace(made, records=tuple(records))


def shown(made, title="made up"):
    """Return a comparison as what was gathered from its folder."""
    source = ReportSource(Path("run"), title, {"model": title}, ENVIRONMENT)
    return LoadedReports(title, made, (), (source,))


def text(found):
    """Return a page as text."""
    return page_text(found)


def words(html):
    """Return what a reader sees of a page."""
    plain = re.sub(r"<style>.*?</style>", " ", str(html), flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", plain)))
