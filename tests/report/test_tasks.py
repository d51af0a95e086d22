"""The page of ensembles that predict something other than classes."""

import pytest
import torch
from torch import nn

import tepui
from tepui.core.storage import write_document
from tepui.data import Arrays
from tepui.losses import BinaryCrossEntropy, GaussianNLL
from tepui.methods import DeepEnsemble
from tepui.report import write_report
from tepui.studies import given
from tepui.studies.load_reports import load_reports

X = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
NUMBERS = Arrays(X, X.sum(1))
LABELS = Arrays(X, (X[:, :2] > 0).long())


def run(path, data, loss):
    ensemble = tepui.Ensemble.build(lambda: nn.Linear(4, 2), members=2, seed=0)
    how = {"method": DeepEnsemble(), "epochs": 2, "progress": "none"}
    tepui.fit(ensemble, data, loss=loss, optimizer=tepui.SGD(lr=0.05), out=path, **how)
    found = tepui.evaluate(ensemble, data, ood={"far": Arrays(9 * X, data.targets)})
    about = given.tested_on(data, None, None)
    document = {"about": about, **found.document()}
    write_document(path / "evaluation.json", "evaluation", document)
    return path


@pytest.mark.filterwarnings("ignore:member .* may not have learned")
def test_numbers_and_labels_stand_in_tables_of_their_own(tmp_path):
    paths = [
        run(tmp_path / "numbers", NUMBERS, GaussianNLL()),
        run(tmp_path / "labels", LABELS, BinaryCrossEntropy()),
    ]
    reports = load_reports(paths)
    assert len(reports.groups) == 2
    page = write_report(reports, tmp_path / "page").read_text()
    for title in ("RMSE", "CRPS", "coverage %", "mAP %", "ensemble %"):
        assert f">{title}</th>" in page
    assert "Members one by one" in page
    assert "total uncertainty" in page
