"""What callbacks are told, and how they end a run."""

import json
from functools import partial

import pytest
import torch

import tepui
from tepui.methods import SED, DeepEnsemble
from tepui.training.run_folder import RunFolder
from training.cases import (
    StoppedError,
    assert_same_bits,
    assert_same_runs,
    fitted,
    images,
    noisy_net,
    stop_after,
)


class Diary(tepui.Callback):
    """Notes all that it is told."""

    def __init__(self):
        self.told = []

    def on_start(self, config):
        self.told.append(("start", config))

    def on_epoch(self, record):
        self.told.append(("epoch", record))

    def on_end(self, run):
        self.told.append(("end", run))

    def on_error(self, error):
        self.told.append(("error", error))


def ending(epoch):
    """Return a callback that ends a run after an epoch."""

    def enough(record):
        return record.epoch == epoch

    return enough


def document(file):
    return json.loads(file.read_text())


def test_a_callback_is_told_of_beginning_epochs_and_end(tmp_path):
    diary = Diary()
    run = fitted(images(), callbacks=[diary], out=tmp_path / "run")
    names, values = zip(*diary.told, strict=True)
    assert names == ("start", "epoch", "epoch", "end")
    recorded = document(tmp_path / "run" / "run.json")["config"]
    given = json.loads(json.dumps(values[0]))
    assert given == {**recorded, "out": str(tmp_path / "run")}
    assert values[1:3] == run.history
    assert values[3] is run
    assert RunFolder(tmp_path / "run").finished  # before the end is told


class Fragile(Diary):
    """Fails on what it is told of errors."""

    def on_error(self, error):
        raise OSError("no way to say so")


def test_a_callback_is_told_of_an_error_in_the_place_of_the_end():
    diary = Diary()
    callbacks = [Fragile(), diary, stop_after(1)]
    with pytest.raises(StoppedError) as raised:
        fitted(images(), callbacks=callbacks)
    names, values = zip(*diary.told, strict=True)
    assert names == ("start", "epoch", "epoch", "error")
    assert values[-1] is raised.value
    assert raised.value.__notes__ == [
        "Fragile failed on this: OSError('no way to say so')"
    ]


def nothing(parameters, token, lr):
    return torch.optim.SGD(parameters, lr=lr)


def test_secrets_are_masked_in_what_callbacks_are_told():
    diary = Diary()
    secret = partial(nothing, token="hf_123", lr=0.1)
    fitted(images(), callbacks=[diary], optimizer=secret)
    told = json.dumps(diary.told[0][1])
    assert '"token": "***"' in told
    assert "hf_123" not in told
    assert '"lr": 0.1' in told


def test_a_resumed_run_tells_its_beginning_and_only_new_epochs(tmp_path):
    with pytest.raises(StoppedError):
        fitted(images(), epochs=3, out=tmp_path, callbacks=[stop_after(1)])
    diary = Diary()
    fitted(images(), epochs=3, out=tmp_path, resume=True, callbacks=[diary])
    assert [name for name, _ in diary.told] == ["start", "epoch", "epoch", "end"]
    assert [told.epoch for name, told in diary.told if name == "epoch"] == [1, 2]
    nobody = Diary()
    fitted(images(), epochs=3, out=tmp_path, resume=True, callbacks=[nobody])
    assert nobody.told == []


@pytest.mark.parametrize("method", [DeepEnsemble(), SED(active=2)], ids=repr)
@pytest.mark.parametrize("checkpoint_every", [1, 10])
def test_true_ends_a_run_with_the_weights_of_its_epoch(
    tmp_path, method, checkpoint_every
):
    how = {"epochs": 5, "method": method, "members": 3}
    left = fitted(images(), **how, out=tmp_path / "left", stop_after=3)
    how |= {"out": tmp_path / "run", "checkpoint_every": checkpoint_every}
    run = fitted(images(), callbacks=[ending(2)], **how)
    assert (len(run.history), run.stopped_by) == (3, "enough")
    assert "trained for 3 epochs, stopped by enough" in str(run)
    assert_same_bits(run, left)
    for file in ("outcome.json", "checkpoint.json"):
        assert document(tmp_path / "run" / file)["stopped_by"] == "enough"
    assert_same_bits(tepui.load(tmp_path / "run", noisy_net), run.ensemble)
    again = fitted(images(), resume=True, **how)
    assert_same_runs(again, run)
    assert again.stopped_by == "enough"


def test_a_run_that_was_stopped_and_killed_before_its_end_stays_stopped(
    tmp_path, monkeypatch
):
    how = {"epochs": 5, "out": tmp_path}
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "write_outcome", failing)
        with pytest.raises(StoppedError):
            fitted(images(), callbacks=[ending(1)], **how)
    run = fitted(images(), resume=True, **how)
    assert (len(run.history), run.stopped_by) == (2, "enough")
    assert RunFolder(tmp_path).finished


def failing(*arguments):
    raise StoppedError


@pytest.mark.parametrize(
    ("callbacks", "message"),
    [
        ([3], "callbacks must be a sequence"),
        (stop_after(0), "callbacks must be a sequence"),
    ],
    ids=["no callback", "no sequence"],
)
def test_bad_callbacks_are_refused(callbacks, message):
    with pytest.raises(ValueError, match=message):
        fitted(images(), callbacks=callbacks)
