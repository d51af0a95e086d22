"""Comparisons that nobody trained, in the form that a page takes."""

from pathlib import Path

from tepui.report.comparison import Comparison, MethodResult, Trained
from tepui.report.loading import Entry, Group, LoadedReports, ReportSource
from tepui.report.page import opening_of, render, sections_of
from tepui.training.history import Outcome


def shown(comparison):
    """Return a comparison as what was gathered from its folder."""
    entries = tuple(
        Entry(
            method,
            (Path("run"),),
            comparison.settings,
            (Outcome(),) * len(method.ensembles),
        )
        for method in comparison.methods
    )
    source = ReportSource(
        Path("run"), comparison.title, comparison.settings, comparison.environment
    )
    return LoadedReports(comparison.title, (Group(None, entries),), (), (source,))


def text(found):
    """Return a page as text."""
    return render(opening_of(found), sections_of(found))


def evaluation(accuracies):
    """Return an evaluation with an accuracy for every corrupted copy."""
    scores = {"individual_accuracy": 0.8, "accuracy": 0.9, "improvement": 0.1}
    scores |= {"der": 0.5, "ece": 0.02, "nll": 0.4}
    bins = {"count": [0, 20], "confidence": [None, 0.5], "accuracy": [None, 0.6]}
    cells = [
        {"type": kind, "severity": severity, "accuracy": value}
        for (kind, severity), value in accuracies.items()
    ]
    return {
        "rule": "probability",
        "members": 2,
        "samples": 100,
        "clean": scores,
        "shifted": scores,
        "severities": {"1": scores, "5": scores},
        "cells": cells,
        "reliability": {"clean": bins, "shifted": bins},
    }


def comparison():
    """Return two methods, with two ensembles and with one."""

    def trained(*values):
        places = [("fog", 1), ("fog", 5), ("jpeg_compression", 1)]
        own = evaluation(dict(zip(places, values, strict=False)))
        return Trained("nowhere", (1, 2), 8.0, own, {}, None)

    first = (trained(0.9, 0.5, 0.8), trained(0.7, 0.3, 0.6))
    second = (trained(0.9, 0.2),)
    methods = (MethodResult("A", {}, first), MethodResult("B", {}, second))
    return Comparison("two", {"epochs": 4}, {}, methods)
