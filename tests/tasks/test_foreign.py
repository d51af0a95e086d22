"""A task written outside the package does all that a task of tepui's does."""

from pathlib import Path

import numpy as np
import pytest
import torch

import tepui
from counts import Counts, Poisson
from tepui.cli.main import main
from tepui.data import Arrays
from tepui.evaluation import read_evaluation, write_predictions
from tepui.export import export_ensemble
from tepui.testing import check_task

DRAWS = torch.Generator().manual_seed(0)
X = torch.randn(120, 3, generator=DRAWS)
Y = torch.poisson((0.5 + X[:, 0]).exp(), generator=DRAWS)
Z = torch.randn(80, 3, generator=DRAWS)
DATA = Arrays(X, Y)
FRESH = Arrays(Z, torch.poisson((0.5 + Z[:, 0]).exp(), generator=DRAWS))
LINEAR = ["--model", "MLP(hidden=[])", "--optimizer", "SGD(lr=0.05)"]


def trained(**options):
    ensemble = tepui.Ensemble.build(
        lambda: tepui.models.MLP(3, hidden=[], num_classes=1), 2
    )
    how = {
        "method": tepui.methods.DeepEnsemble(),
        "epochs": 6,
        "batch_size": 30,
        "optimizer": tepui.SGD(lr=0.05),
    }
    return tepui.fit(ensemble, DATA, loss=Poisson(), progress="none", **how, **options)


def test_it_keeps_the_promises_of_a_task():
    check_task(Counts(), Y)


def test_it_trains_evaluates_predicts_and_calibrates(tmp_path):
    run = trained(validation=0.25)
    ensemble = run.ensemble
    assert ensemble.task == Counts()
    assert len(run.history[-1].validation_rmse) == 2
    found = tepui.evaluate(ensemble, FRESH, ood={"far": Arrays(9 * X, Y)})
    rates = ensemble.logits(Z).exp()[..., 0]
    rmse = (rates.mean(0) - FRESH.targets).square().mean().sqrt()
    assert found.clean.rmse == pytest.approx(float(rmse), rel=1e-5)
    assert "counts" in str(found)
    assert 0 <= found.ood["far"]["epistemic"].auroc <= 1
    ensemble.conformal(FRESH, 0.8)
    lower, upper = ensemble.predict(Z).conformal_interval
    counts = FRESH.targets
    inside = (lower[:, 0] <= counts) & (counts <= upper[:, 0])
    assert float(inside.float().mean()) >= 0.8
    write_predictions(ensemble, DATA, tmp_path / "out.csv")
    table = (tmp_path / "out.csv").read_text()
    columns = ["sample", "target", "mean", "std", "conformal_lower_0.8"]
    assert table.splitlines()[0].split(",")[:5] == columns
    ensemble.save(tmp_path)
    assert tepui.load(tmp_path).task == Counts()
    done = export_ensemble(ensemble, DATA, tmp_path / "counts.pt2", to="torch")
    assert max(done.differences.values()) < 1e-5


def test_the_command_line_knows_it_by_its_path(tmp_path, capsys):
    file = Path(__file__).parents[1] / "counts.py"
    np.savez(tmp_path / "data.npz", x_train=X, y_train=Y, x_test=X, y_test=Y)
    data = ["--data", f"ArrayFile(path={tmp_path / 'data.npz'})"]
    run, own = str(tmp_path / "run"), ["--set", f"task={file}:Counts"]
    main(["train", *data, "--out", run, "--epochs", "6", *LINEAR, *own])
    main(["evaluate", run, *own])
    assert "(counts)" in capsys.readouterr().out
    document = read_evaluation(tmp_path / "run")
    assert document["task"] == "counts.Counts()"
    main(["report", run])
    assert "rmse" in (tmp_path / "run" / "report.html").read_text().lower()
