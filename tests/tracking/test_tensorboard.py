import gc
import sys

import pytest

import tepui
from tepui.tracking import TensorBoard
from training.cases import StoppedError, fitted, images, one_thread, stop_after

single = pytest.fixture(autouse=True)(one_thread)
# TensorBoard's own, and files it leaves open.
pytestmark = pytest.mark.filterwarnings("ignore")


def test_a_missing_tensorboard_is_named_with_its_remedy(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(ImportError, match=r'pip install "tepui\[track\]"'):
        TensorBoard(tmp_path)
    assert not list(tmp_path.iterdir())


def events_in(folder):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    return events


def test_a_run_writes_every_members_figures(tmp_path):
    pytest.importorskip("tensorboard")
    run = fitted(images(), validation=0.25, callbacks=[TensorBoard(tmp_path)])
    events = events_in(tmp_path)
    scores = ("loss", "validation_loss", "validation_accuracy", "learning_rate")
    for name in scores:
        for member in range(2):
            written = events.Scalars(f"{name}/member {member}")
            assert [event.step for event in written] == [0, 1]
            expected = [getattr(record, name)[member] for record in run.history]
            assert [event.value for event in written] == pytest.approx(expected)
    assert len(events.Scalars("samples_per_second")) == 2
    del events
    gc.collect()


def test_files_lie_in_the_run_folder_and_markup_is_text(tmp_path):
    pytest.importorskip("tensorboard")
    out = tmp_path / "<b>run</b>"
    board = TensorBoard()
    with pytest.raises(StoppedError):
        fitted(images(), out=out, callbacks=[board, stop_after(0)])
    fitted(images(), out=out, resume=True, callbacks=[board])
    events = events_in(out / "tensorboard")
    text = events.Tensors("config/text_summary")[0].tensor_proto.string_val[0].decode()
    assert all(line.startswith("    ") for line in text.splitlines())
    assert '"class": "DeepEnsemble"' in text
    assert "<b>" not in text  # where files lie is nobody's business
    del events
    gc.collect()


def test_a_run_without_a_folder_needs_one_for_its_events():
    pytest.importorskip("tensorboard")
    with pytest.raises(ValueError, match="folder must be given where the run has no"):
        fitted(images(), callbacks=[TensorBoard()])


def test_a_run_that_fails_before_its_first_epoch_leaves_no_files(tmp_path):
    pytest.importorskip("tensorboard")

    class Fails(tepui.Callback):
        def on_start(self, config):
            raise ConnectionError("nobody answers")

    for _ in range(2):
        with pytest.raises(ConnectionError):
            fitted(images(), out=tmp_path, callbacks=[TensorBoard(), Fails()])
    fitted(images(), out=tmp_path)
