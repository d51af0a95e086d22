"""Real MLflow and real Weights & Biases, on this machine alone."""

import json

import pytest

import tepui
from tepui.cli.main import main
from tepui.tracking import MLflow, WandB
from training.cases import (
    StoppedError,
    assert_same_bits,
    fitted,
    images,
    one_thread,
    stop_after,
)

single = pytest.fixture(autouse=True)(one_thread)
pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries' own
SMALL = ["--model", "MLP(hidden=[8])", "--members", "2"]
SMALL += ["--set", "progress=none"]


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Return an address for MLflow's runs, which the environment names too."""
    pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    return uri


def runs_in(uri, experiment="tepui"):
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    found = client.get_experiment_by_name(experiment)
    return client, client.search_runs([found.experiment_id])


def test_mlflow_holds_settings_and_figures(store, tmp_path):
    out = tmp_path / "[red]<b>one"
    run = fitted(
        images(), validation=0.25, out=out, callbacks=[MLflow("mine", uri=store)]
    )
    client, (found,) = runs_in(store, "mine")
    assert found.info.status == "FINISHED"
    assert found.info.run_name == f"{tmp_path.name}/[red]<b>one"
    assert found.data.params["method.class"] == "DeepEnsemble"
    assert found.data.params["epochs"] == "2"
    assert str(tmp_path) not in json.dumps(found.data.params)
    for name in ("loss", "validation_loss", "validation_accuracy"):
        for member in range(2):
            logged = client.get_metric_history(
                found.info.run_id, f"{name}/member {member}"
            )
            expected = [getattr(record, name)[member] for record in run.history]
            assert [point.step for point in logged] == [0, 1]
            assert [point.value for point in logged] == pytest.approx(expected)


def test_a_resumed_run_goes_on_in_mlflow(store, tmp_path):
    how = {"out": tmp_path / "run", "epochs": 3}
    with pytest.raises(StoppedError):
        fitted(images(), callbacks=[MLflow(), stop_after(1)], **how)
    _, (found,) = runs_in(store)
    assert found.info.status == "FAILED"
    run = fitted(images(), resume=True, callbacks=[MLflow()], **how)
    _, (found,) = runs_in(store)
    assert found.info.status == "FINISHED"
    assert found.data.metrics["loss/member 0"] == pytest.approx(run.history[-1].loss[0])
    assert_same_bits(run, fitted(images(), epochs=3))


def test_mlflow_knows_who_stopped_a_run(store):
    rule = tepui.EarlyStopping("loss", patience=1, min_delta=1e6)
    fitted(images(), epochs=9, early_stopping=rule, callbacks=[MLflow()])
    _, (found,) = runs_in(store)
    assert found.data.tags["stopped_by"] == "EarlyStopping"


def test_the_command_line_tracks_runs_and_comparisons(store, tmp_path):
    options = ["--epochs", "1", *SMALL, "track=mlflow"]
    main(["train", *options, "--out", str(tmp_path / "one")])
    plain = ["corruptions=none", "sharpness=0"]
    methods = ["--methods", "DeepEnsemble", "SAM", "--ensembles", "1"]
    main(["compare", *options, *plain, *methods, "--out", str(tmp_path / "all")])
    _, found = runs_in(store)
    names = sorted(run.info.run_name for run in found)
    assert names == ["DeepEnsemble/0", "SAM/0", f"{tmp_path.name}/one"]


def test_weights_and_biases_writes_files_without_a_network(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.setenv("WANDB_SILENT", "true")
    how = {"out": tmp_path / "run", "epochs": 3}
    tracker = WandB("mine", mode="offline")
    with pytest.raises(StoppedError):
        fitted(images(), callbacks=[tracker, stop_after(0)], **how)
    run = fitted(images(), resume=True, callbacks=[tracker], **how)
    assert_same_bits(run, fitted(images(), epochs=3))
    written = [*tmp_path.glob("wandb/offline-run-*/*.wandb")]
    names = {file.stem for file in written}
    known = json.loads((tmp_path / "run" / "tracking.json").read_text())["runs"]
    assert names == {f"run-{known['wandb']}"}
    assert len(written) >= 1
