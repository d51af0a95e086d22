"""Callbacks and trackers under torchrun: rank 0's, however long they take."""

import pytest

from processes import assert_all_well, launched, saved_by
from tepui.methods import SED, DeepEnsemble, SharpBalance
from training.cases import fitted, images, one_thread, untimed

single = pytest.fixture(autouse=True)(one_thread)

CASES = {
    "independent": {"method": DeepEnsemble()},
    "exchanging": {"method": SharpBalance(switch_at=1)},
    "coupled": {"method": SED(active=2)},
    "sharing batches": {"data_parallel": 2},
}
SLOW = ("coupled", "sharing batches")  # whose first step needs all ranks
# What has a timeout, unlike waiting until all have come.
TIMED = "all_gather all_gather_object all_reduce all_to_all_single broadcast new_group"
SCRIPT = """
import os, sys, time
from pathlib import Path
from types import ModuleType
import torch
from torch import distributed
import tepui
from tepui.tracking import TensorBoard, WandB
from tracking.test_ranks import CASES, SLOW, TIMED
from tracking.test_trackers import FakeRun
from training.cases import fitted, images, untimed

torch.set_num_threads(1)
distributed.init_process_group("gloo")
rank, folder = os.environ["RANK"], Path(sys.argv[1])
begun, wandb = [], ModuleType("wandb")
wandb.init = lambda **options: begun.append(FakeRun(0, options)) or begun[-1]
sys.modules["wandb"] = wandb


def watched(function):
    def inside(*arguments, **options):
        (folder / f"within {rank}").touch()
        try:
            return function(*arguments, **options)
        finally:
            (folder / f"within {rank}").unlink()

    return inside


for name in TIMED.split():
    setattr(distributed, name, watched(getattr(distributed, name)))


class Listener(tepui.Callback):
    told = []

    def __init__(self, case):
        self.slow = case in SLOW

    def on_start(self, config):
        self.told.append("start")
        self.take_long()

    def on_epoch(self, record):
        self.told.append("epoch")
        if record.epoch == 0:
            self.take_long()

    def take_long(self):
        # The other rank gets time to go on; it may yet be leaving what was before.
        last = time.monotonic() + 120
        time.sleep(1.5 if self.slow else 0)
        while self.slow and (folder / "within 1").exists():
            if time.monotonic() > last:
                self.told.append("the other rank did not wait")
                return
            time.sleep(0.1)

    def on_end(self, run):
        self.told.append("end")


histories = {}
for name, how in CASES.items():
    callbacks = [Listener(name), TensorBoard(folder / f"events {rank}" / name), WandB()]
    run = fitted(images(), callbacks=callbacks, **how)
    histories[name] = untimed(run.history)
logged = [[row["epoch"] for row in run.logged] for run in begun]
said = {"histories": histories, "told": Listener.told, "logged": logged}
torch.save(said, folder / f"{rank}.pt")
distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_only_the_writer_tracks_and_others_wait_for_it(tmp_path):
    assert_all_well(launched(2, SCRIPT, tmp_path))
    first, second = saved_by(tmp_path, range(2))
    assert first["told"] == ["start", "epoch", "epoch", "end"] * len(CASES)
    assert first["logged"] == [[0, 1]] * len(CASES)
    assert second["told"] == second["logged"] == []
    assert {place.name for place in tmp_path.glob("events *")} == {"events 0"}
    assert len([*tmp_path.glob("events 0/*/events.out*")]) == len(CASES)
    assert first["histories"] == second["histories"]
    for name in CASES.keys() - {"sharing batches"}:
        alone = untimed(fitted(images(), **CASES[name]).history)
        assert first["histories"][name] == alone
