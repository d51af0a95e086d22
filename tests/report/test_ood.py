"""The table, the plots and the pictures of unfamiliar samples on the page."""

import re
from typing import get_args
from xml.etree import ElementTree

import pytest

from report_cases import shown
from tepui.core.storage import write_document
from tepui.metrics import Score
from tepui.report import write_report
from tepui.report.drawing import as_svg
from tepui.report.ood import auroc_rows, galleries, ood_histograms
from tepui.studies import Comparison, MethodResult, Trained

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
                    (1, 2),
                    1.0,
                    evaluation(0.7 + 0.1 * index + 0.02 * n, sets),
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


def test_the_table_shows_every_method_score_and_set():
    rows = auroc_rows(comparison())
    assert [(row.data, row.method) for row in rows] == [
        ("noise", "Plain"),
        ("noise", "Diverse"),
        ("letters", "Plain"),
        ("letters", "Diverse"),
    ]
    # AUROC .70 and .72, then .80 and .82: standard errors of one point.
    assert rows[0].cells == ("71.00 ± 1.00",) * len(SCORES)
    assert rows[3].cells == ("81.00 ± 1.00",) * len(SCORES)
    assert all(rows[1].best)
    assert not any(rows[0].best)


def test_histograms_pool_ensembles_and_show_shares():
    figure = ood_histograms(comparison(), "letters")
    assert len(figure.axes) == 4
    pds, bma = figure.axes[:2]
    shown = [patch.get_data() for patch in pds.patches]
    assert [list(data.values) for data in shown[::2]] == [
        [0.75, 0.25, 0, 0],
        [0, 0.25, 0.5, 0.25],
    ]
    assert list(shown[0].edges) == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])
    assert bma.patches[0].get_data().edges[0] == 0
    assert "71.00 ± 1.00" in pds.get_title()
    svg = as_svg(figure)
    assert svg == as_svg(ood_histograms(comparison(), "letters"))
    assert ElementTree.fromstring(svg).tag.endswith("svg")


def test_pictures_stand_with_what_members_say(tmp_path):
    write_pictures(tmp_path / "0/0", label="4")
    page = "".join(galleries(comparison(root=tmp_path)))
    assert page.count("<img") == 3
    assert f'src="data:image/png;base64,{PNG}"' in page
    assert "<span>0.250</span><span><b>4</b>: 3, 5</span>" in page
    assert "Plain, ensemble 1" in page
    assert "Diverse, ensemble 1" not in page
    assert galleries(comparison(root=tmp_path / "nowhere")) == []


def test_the_page_is_self_contained(tmp_path):
    write_pictures(tmp_path / "run/0/0")
    found = shown(comparison(root=tmp_path / "run"))
    page = write_report(found, tmp_path / "out").read_text()
    assert page.count("<svg") == page.count("</svg>") == 4
    assert ">Mistakes and unfamiliar samples</h2>" in page
    sources = re.findall(r'src\s*=\s*"([^"]*)', page)
    assert len(sources) == 3
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    names = {path.name for path in (tmp_path / "out/figures").iterdir()}
    assert {"unfamiliar-1.png", "unfamiliar-2.svg"} <= names


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
