import gc
import sys

import pytest

from tepui import TensorBoard
from training.cases import fitted, images, one_thread

single = pytest.fixture(autouse=True)(one_thread)


def test_a_missing_tensorboard_is_named_with_its_remedy(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard.writer", None)
    with pytest.raises(ImportError, match="pip install tensorboard"):
        TensorBoard(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore")  # tensorboard's own, and files it leaves open
def test_a_run_writes_every_members_figures(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = fitted(images(), validation=0.25, callbacks=[TensorBoard(tmp_path)])
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    for name in ("loss", "validation_loss", "learning_rate"):
        for member in range(2):
            written = events.Scalars(f"{name}/member {member}")
            assert [event.step for event in written] == [0, 1]
            expected = [getattr(record, name)[member] for record in run.history]
            assert [event.value for event in written] == pytest.approx(expected)
    assert len(events.Scalars("samples_per_second")) == 2
    del events
    gc.collect()
