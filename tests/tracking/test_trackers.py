"""Trackers told of runs, with stand-ins for libraries that may not be installed."""

import pickle
import sys
from types import ModuleType

import pytest

from tepui.studies import verify
from tepui.tracking import MLflow, WandB, figures
from tepui.training import EpochRecord
from training.cases import StoppedError, fitted, images, one_thread, stop_after

single = pytest.fixture(autouse=True)(one_thread)


class FakeRun:
    """A run of Weights & Biases that keeps what it is told."""

    def __init__(self, number, options):
        self.id = options["id"] or f"run{number}"
        self.options, self.logged, self.summary, self.code = options, [], {}, None

    def define_metric(self, name, step_metric):
        assert (name, step_metric) == ("*", "epoch")

    def log(self, values):
        self.logged.append(values)

    def finish(self, exit_code):
        self.code = exit_code


@pytest.fixture
def runs(monkeypatch):
    """Put a stand-in in the place of wandb; return the runs that it begins."""
    begun, module = [], ModuleType("wandb")

    def init(**options):
        begun.append(FakeRun(len(begun), options))
        return begun[-1]

    module.init = init
    monkeypatch.setitem(sys.modules, "wandb", module)
    return begun


def test_weights_and_biases_is_told_of_every_epoch(runs, tmp_path):
    out = tmp_path / "[red]<b>one"
    run = fitted(images(), out=out, callbacks=[WandB("mine", mode="offline")])
    (told,) = runs
    assert told.options["project"] == "mine"
    assert told.options["mode"] == "offline"
    assert told.options["name"] == f"{tmp_path.name}/[red]<b>one"  # text, as it is
    assert told.options["config"]["method"]["class"] == "DeepEnsemble"
    assert "out" not in told.options["config"]
    expected = [{"epoch": r.epoch, **figures(r)} for r in run.history]
    assert told.logged == expected
    assert (told.code, told.summary) == (0, {})


def test_a_resumed_run_goes_on_in_the_same_place(runs, tmp_path):
    tracker = WandB()
    with pytest.raises(StoppedError):
        fitted(images(), out=tmp_path, callbacks=[tracker, stop_after(0)])
    assert runs[0].code == 1
    fitted(images(), out=tmp_path, resume=True, callbacks=[tracker])
    _, second = runs
    assert second.code == 0
    assert (second.options["id"], second.options["resume"]) == ("run0", "allow")
    assert [found.damage for found in verify(tmp_path)] == [None] * len(
        verify(tmp_path)
    )
    assert "tracking" in {found.kind for found in verify(tmp_path)}


def test_a_run_that_was_stopped_says_by_whom(runs):
    def enough(record):
        return True

    fitted(images(), callbacks=[WandB(), enough])
    assert runs[0].summary == {"stopped_by": "enough"}
    assert runs[0].options["name"] == "DeepEnsemble"


def test_a_tracker_travels_to_other_processes(runs):
    assert isinstance(pickle.loads(pickle.dumps(WandB("mine"))), WandB)


@pytest.mark.parametrize(("kind", "library"), [(MLflow, "mlflow"), (WandB, "wandb")])
def test_a_missing_library_is_named_with_its_remedy(kind, library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf'{library} .*"tepui\[track\]"'):
        kind()


def test_figures_leave_out_what_is_not_known():
    record = EpochRecord(0, (0.5, None), (0.1, 0.1), (), 1.0, 64.0, joint_loss=2.0)
    assert figures(record) == {
        "loss/member 0": 0.5,
        "learning_rate/member 0": 0.1,
        "learning_rate/member 1": 0.1,
        "joint_loss": 2.0,
        "samples_per_second": 64.0,
    }
