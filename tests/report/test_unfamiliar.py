"""The table, the plots and the pictures of unfamiliar samples on the page."""

import re
from typing import get_args

from report_cases import shown
from tepui.core.storage import write_document
from tepui.metrics import Score
from tepui.report import write_report
from tepui.report.comparison import Comparison, MethodResult, Trained
from tepui.report.measures import shown_name
from tepui.report.members import gallery_figure
from tepui.report.unfamiliar import (
    auroc_groups,
    kept_table,
    unfamiliar_sentence,
)

SCORES = get_args(Score)
EVIL = "<script>alert('x')</script>"
PNG = "iVBORw0KGgo="


def evaluation(auroc, sets):
    scores = {"individual_accuracy": 0.8, "accuracy": 0.9, "improvement": 0.1}
    scores |= {"der": 0.5, "ece": 0.02, "nll": 0.4}
    bins = {"count": [0, 20], "confidence": [None, 0.5], "accuracy": [None, 0.6]}
    found = {"samples": 9, "auroc": auroc, "aupr": 0.6, "fpr95": 0.3}
    histogram = {"low": 0.1, "high": 0.5, "clean": [6, 2, 0, 0]}
    histogram["ood"] = {name: [0, 1, 2, 1] for name in sets}
    return {
        "rule": "probability",
        "members": 2,
        "samples": 100,
        "clean": scores,
        "shifted": None,
        "severities": {},
        "cells": [],
        "reliability": {"clean": bins},
        "ood": {name: dict.fromkeys(SCORES, found) for name in sets},
        "histograms": {
            "pds": histogram,
            "max_mean_probability": {**histogram, "low": 0.0},
        },
    }


def comparison(labels=("Plain", "Diverse"), sets=("noise", "letters"), root="run"):
    methods = tuple(
        MethodResult(
            label,
            {"class": label},
            tuple(
                Trained(
                    f"{root}/{index}/{n}",
                    (1 + n, 2),
                    1.0,
                    evaluation(0.7 + (0.1 + 0.001 * n) * index + 0.02 * n, sets),
                    {},
                    None,
                )
                for n in range(2)
            ),
        )
        for index, label in enumerate(labels)
    )
    settings = {"members": 2, "ensembles": 2, "model": "Net", "epochs": 4}
    settings["train"] = {"samples": 50}
    return Comparison("made up", settings, {"command": "c"}, methods)


def write_pictures(folder, data="noise", said=("3", "5"), label=None, png=PNG):
    picture = {"row": 7, "pds": 0.25, "predictions": said, "label": label, "png": png}
    folder.mkdir(parents=True)
    document = [{"data": data, "lowest": [picture], "highest": [picture] * 2}]
    write_document(folder / "gallery.json", "gallery", {"galleries": document})


def test_the_terminal_names_the_unfamiliar_sets():
    said = unfamiliar_sentence(comparison())
    assert said == (
        f"unfamiliar samples, AUROC in % by {shown_name(SCORES[0])}: noise: "
        "Plain 71.0, Diverse 81.0; letters: Plain 71.0, Diverse 81.0 (other scores: "
        "in the report)"
    )
    assert unfamiliar_sentence(comparison(sets=())) == ""


def test_the_table_shows_every_method_score_and_set():
    groups = auroc_groups(comparison())
    assert [(data, row[0]) for data, rows in groups.items() for row in rows] == [
        ("noise", "Plain"),
        ("noise", "Diverse"),
        ("letters", "Plain"),
        ("letters", "Diverse"),
    ]
    plain, diverse = groups["noise"]
    # AUROC .70 and .72: a standard error of one point, times Student's 12.706.
    expected = [("71.00", "58.29 to 83.71")] * len(SCORES)
    assert [(cell.text, cell.small) for cell in plain[1:]] == expected
    # Ten points more in one pair, 10.1 in the other.
    assert all(cell.bold for cell in diverse[1:])


def test_pictures_stand_with_what_members_say(tmp_path):
    write_pictures(tmp_path / "0/0", label="4")
    page = gallery_figure(comparison(root=tmp_path))
    assert page.count("<img") == 3
    assert f'src="data:image/png;base64,{PNG}"' in page
    assert "<b>4</b> → 3, 5 <small>PDS 0.250</small>" in page
    assert "Plain <small>ensemble 1: noise, lowest PDS" in page
    assert "Diverse" not in page
    assert gallery_figure(comparison(root=tmp_path / "nowhere")) is None


def test_the_page_is_self_contained(tmp_path):
    write_pictures(tmp_path / "run/0/0")
    found = shown(comparison(root=tmp_path / "run"))
    page = write_report(found, tmp_path / "out").read_text()
    assert page.count("<svg") == page.count("</svg>")
    assert ">Mistakes and unfamiliar samples</h2>" in page
    sources = re.findall(r'src\s*=\s*"([^"]*)', page)
    assert len(sources) == 3
    assert all(source.startswith("data:image/png;base64,") for source in sources)


def test_without_unfamiliar_sets_the_page_only_names_them(tmp_path):
    page = write_report(shown(comparison(sets=())), tmp_path).read_text()
    assert page.count("nfamiliar") == 1
    assert re.search("Left out.* unfamiliar samples;", page)


def test_every_string_is_escaped(tmp_path):
    png = f'x" onerror="{EVIL}'
    write_pictures(tmp_path / "0/0", data=EVIL, said=(EVIL,), label=EVIL, png=png)
    found = shown(comparison(labels=(EVIL, "B"), sets=(EVIL,), root=tmp_path))
    page = write_report(found, tmp_path).read_text()
    assert "<script>" not in page
    assert 'onerror="' not in page
    assert page.count("&lt;script&gt;") >= 10


def test_the_error_among_the_surest_is_said_of_methods_that_know_it():
    def method(label, *errors):
        found = [
            {
                "selective": {
                    "max_mean_probability": {"error_at_90": e, "error_at_80": 0}
                }
            }
            for e in errors
        ]
        trained = [Trained("nowhere", (1,), 8.0, each, {}, None) for each in found]
        return MethodResult(label, {}, tuple(trained))

    old = MethodResult("C", {}, (Trained("nowhere", (1,), 8.0, {}, {}, None),))
    methods = method("A", 0.25, 0.15), method("B", 0.1), old
    shown_errors = kept_table(Comparison("two", {}, {}, methods))
    rows = re.findall("<tr>(.*?)</tr>", shown_errors)[1:]
    cells = [re.findall(">([^<>]+?) ?<", row) for row in rows]
    assert [(row[0], row[1]) for row in cells] == [("A", "20.00"), ("B", "10.00")]
    assert kept_table(Comparison("one", {}, {}, (old,))) is None
