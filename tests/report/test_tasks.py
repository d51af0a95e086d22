"""The page of ensembles that predict something other than classes."""

import re

import pytest
import torch
from torch import nn

import tepui
from report_cases import words
from tepui.core.storage import write_document
from tepui.data import Arrays, sources
from tepui.losses import MSE, BinaryCrossEntropy, GaussianNLL, Quantiles
from tepui.methods import DeepEnsemble
from tepui.report import write_report
from tepui.report.loading import load_reports

X = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
NUMBERS = Arrays(X, X.sum(1))
COLUMN = Arrays(X, X.sum(1, keepdim=True))
LABELS = Arrays(X, (X[:, :2] > 0).long())


LEVELS = (0.05, 0.5, 0.95)


def run(path, data, loss, outputs=2, seed=0):
    ensemble = tepui.Ensemble.build(lambda: nn.Linear(4, outputs), members=2, seed=seed)
    how = {"method": DeepEnsemble(), "epochs": 2, "progress": "none"}
    tepui.fit(ensemble, data, loss=loss, optimizer=tepui.SGD(lr=0.05), out=path, **how)
    shifted = {("scale", s): Arrays(X * (1 + s), data.targets) for s in (1, 2)}
    others = {"far": Arrays(9 * X, data.targets)}
    found = tepui.evaluate(ensemble, data, shifted=shifted, ood=others)
    about = sources.tested_on(data, None, None)
    document = {"about": about, **found.document()}
    write_document(path / "evaluations/clean.json", "evaluation", document)
    return path


pytestmark = pytest.mark.filterwarnings("ignore:member .* may not have learned")


@pytest.mark.parametrize(
    ("data", "loss", "outputs", "shown", "hidden"),
    [
        (
            *(NUMBERS, GaussianNLL(), 2),
            ["RMSE", "CRPS", "coverage %", "total uncertainty", "promised 90", "Error"],
            ["Reliability", "By class"],
        ),
        (
            *(LABELS, BinaryCrossEntropy(), 2),
            ["mAP %", "ensemble %", "By class", "By label", "Reliability"],
            ["RMSE", "promised 90"],
        ),
        (*(NUMBERS, Quantiles(LEVELS), 3), ["promised 90", "quantile loss"], ["mAP %"]),
        (*(COLUMN, MSE(), 1), ["RMSE", "sets of answers"], ["promised 90"]),
    ],
)
def test_every_task_has_tables_of_its_own(tmp_path, data, loss, outputs, shown, hidden):
    reports = load_reports([run(tmp_path / "run", data, loss, outputs)])
    page = write_report(reports, tmp_path / "page").read_text()
    assert all(title in page for title in ["Members one by one", *shown])
    assert not any(title in page for title in hidden)
    assert not re.search(r'="nan|nan%|>nan', page)


def test_coverage_stands_beside_its_promise(tmp_path):
    path = run(tmp_path / "run", NUMBERS, Quantiles(LEVELS), 3)
    reports = load_reports([path])
    (trained,) = reports.comparison.methods[0].ensembles
    clean = trained.evaluation["clean"]["interval_coverage"]
    severe = trained.evaluation["severities"].values()
    mean = sum(each["interval_coverage"] for each in severe) / 2
    page = words(write_report(reports, tmp_path / "page").read_text())
    assert f" {100 * clean:.1f} {100 * mean:.1f} " in page
