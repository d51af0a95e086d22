"""The page of ensembles that predict something other than classes."""

import re

import pytest
import torch
from torch import nn

import tepui
from tepui.core.storage import write_document
from tepui.data import Arrays, sources
from tepui.losses import MSE, BinaryCrossEntropy, GaussianNLL, Quantiles
from tepui.methods import DeepEnsemble
from tepui.report import write_report
from tepui.report.levels import curves_of, levels_of
from tepui.report.loading import load_reports
from tepui.report.measures import COVERAGE
from tepui.report.reliability import distance

X = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
NUMBERS = Arrays(X, X.sum(1))
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


@pytest.mark.filterwarnings("ignore:member .* may not have learned")
def test_every_task_has_tables_and_pictures_of_its_own(tmp_path):
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
    numbers, labels = page.split('id="group-2"')
    assert "Coverage of predicted intervals" in numbers
    assert "Error (RMSE) by severity" in numbers
    assert "Reliability" not in numbers
    assert "Coverage of predicted intervals" not in labels


@pytest.mark.filterwarnings("ignore:member .* may not have learned")
@pytest.mark.parametrize(
    ("loss", "outputs", "promised"), [(Quantiles(LEVELS), 3, 90.0), (MSE(), 1, None)]
)
def test_coverage_is_drawn_against_its_promise(tmp_path, loss, outputs, promised):
    data = NUMBERS if promised else Arrays(X, X.sum(1, keepdim=True))
    paths = [run(tmp_path / f"{n}", data, loss, outputs, n) for n in range(2)]
    (group,) = load_reports(paths).groups
    assert len(group.comparison.methods[0].ensembles) == 2
    page = write_report(load_reports(paths), tmp_path / "page").read_text()
    assert ("Coverage of predicted intervals" in page) == (promised is not None)
    assert ('class="promise"' in page) == (promised is not None)
    if promised:
        assert f"Dashed: what was promised, {promised:.1f} %." in page
        assert levels_of(group.comparison) == ["clean", "1", "2"]
        (found,) = curves_of(group.comparison, COVERAGE)
        clean = [t.evaluation["clean"] for t in group.comparison.ensembles()]
        wanted = [100 * each["interval_coverage"] for each in clean]
        assert [row[0] for row in found.rows] == pytest.approx(wanted)
    assert not re.search(r'="nan|nan%|>nan', page)


@pytest.mark.filterwarnings("ignore:member .* may not have learned")
def test_the_diagram_of_labels_states_its_own_distance_not_their_ece(tmp_path):
    path = run(tmp_path / "labels", LABELS, BinaryCrossEntropy())
    reports = load_reports([path])
    (method,) = reports.groups[0].comparison.methods
    out = tepui.load(path, lambda: nn.Linear(4, 2)).predict(X)
    right = (out.labels == LABELS.targets).double()
    sure = torch.where(out.probs > 0.5, out.probs, 1 - out.probs)
    found = distance_by_hand(sure.flatten(), right.flatten())
    assert distance(method, "clean") == pytest.approx(100 * found, abs=1e-3)
    page = write_report(reports, tmp_path / "page").read_text()
    assert f"distance from the diagonal {100 * found:.1f} %" in page


def distance_by_hand(sure, right):
    """Mean distance of confidence and share of right answers, in 15 bins."""
    places = (15 * sure).ceil().sub(1).clamp(min=0).long()
    gap = torch.zeros(15).double().index_add(0, places, (sure - right).double())
    return float(gap.abs().sum()) / len(sure)
