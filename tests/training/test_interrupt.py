import os
import signal
import threading

import pytest

import tepui
from tepui.methods import SAM, DeepEnsemble
from tepui.training.run_folder import RunFolder
from tepui.training.runner import Interruption
from training.cases import (
    CHECKPOINT,
    Plain,
    SignallingLoss,
    assert_same_bits,
    assert_same_runs,
    checkpointed,
    fitted,
    images,
)


@pytest.fixture(autouse=True)
def _interrupts_as_in_a_terminal():
    """Undo what a shell does to jobs in the background: they ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


METHODS = [DeepEnsemble(), SAM(rho=0.1)]
STOPS = [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
HOW = {"epochs": 2, "validation": 0.25, "keep": "best", "schedule": tepui.Cosine()}


def calls_of(**how):
    loss = SignallingLoss()
    fitted(images(), loss=loss, **how)
    return loss.calls


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_stopped_in_any_pass_a_run_resumes_to_the_same_bits(tmp_path, method):
    """Training passes, the first and last of an epoch, and validation alike."""
    how = {"method": method, **HOW}
    whole = fitted(images(), loss=SignallingLoss(), out=tmp_path / "whole", **how)
    for at in range(calls_of(**how)):
        out = tmp_path / str(at)
        with pytest.raises(SystemExit):
            fitted(images(), loss=SignallingLoss(at), out=out, **how)
        assert (out / CHECKPOINT).exists()
        loss = SignallingLoss()
        resumed = fitted(images(), loss=loss, out=out, resume=True, **how)
        assert_same_runs(whole, resumed)


def test_stopped_again_and_again_a_run_ends_at_the_same_bits(tmp_path):
    how = {"method": SAM(), **HOW}
    stops = 0
    for _ in range(100):
        try:
            loss = SignallingLoss(at=2)
            run = fitted(images(), loss=loss, out=tmp_path, resume=True, **how)
            break
        except SystemExit:
            stops += 1
    assert stops > 5
    assert_same_runs(fitted(images(), loss=SignallingLoss(), **how), run)


@pytest.mark.parametrize(("number", "error"), STOPS, ids=str)
def test_a_step_is_finished_and_the_program_ends_as_asked(tmp_path, number, error):
    with pytest.raises(error) as info:
        fitted(images(), loss=SignallingLoss(3, number), out=tmp_path)
    if error is SystemExit:
        assert info.value.code == 128 + number
    # Three steps an epoch: the fourth call is the second member's first.
    assert [document["step"] for _, document in checkpointed(tmp_path)] == [3, 1]
    assert RunFolder(tmp_path).load_checkpoint().history == ()


def test_a_signal_to_a_loaded_data_set_checkpoints_too(tmp_path):
    class Signalling(Plain):
        at = -1

        def __getitem__(self, index):
            if self.at == 0:
                os.kill(os.getpid(), signal.SIGTERM)
            self.at -= 1
            return super().__getitem__(index)

    data = Signalling(images())
    data.at = 30
    with pytest.raises(SystemExit):
        fitted(data, out=tmp_path)
    assert_same_runs(fitted(data, out=tmp_path, resume=True), fitted(data))


def test_a_signal_after_the_last_step_is_not_lost(tmp_path):
    def send(record):
        if record.epoch == 1:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        fitted(images(), out=tmp_path, callbacks=[send])
    run = fitted(images(), out=tmp_path, resume=True, callbacks=[send])
    assert_same_runs(run, fitted(images()))


def handlers():
    return [signal.getsignal(number) for number, _ in STOPS]


def test_handlers_are_restored_after_a_run_and_after_a_stop(tmp_path):
    before = handlers()
    fitted(images(), out=tmp_path / "whole")
    assert handlers() == before
    with pytest.raises(SystemExit):
        fitted(images(), loss=SignallingLoss(1), out=tmp_path / "stopped")
    assert handlers() == before


def test_without_a_folder_signals_act_as_always():
    loss = SignallingLoss(1, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        fitted(images(), loss=loss)
    assert loss.calls == 1


def test_a_second_signal_acts_at_once():
    interruption = Interruption()
    with interruption.listening():
        signal.raise_signal(signal.SIGINT)
        assert interruption.requested
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_outside_the_main_thread_nothing_is_changed(tmp_path):
    before, results = handlers(), []
    during = [lambda record: results.append(handlers())]
    how = {"out": tmp_path, "callbacks": during}
    thread = threading.Thread(target=lambda: results.append(fitted(images(), **how)))
    thread.start()
    thread.join()
    assert results[:2] == [before, before]
    assert_same_bits(results[2], fitted(images()))
