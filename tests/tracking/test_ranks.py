"""Callbacks and trackers under torchrun: rank 0's, however long they take."""

import pytest

from processes import assert_all_well, launched, saved_by
from tepui.methods import SED, DeepEnsemble, SharpBalance
from training.cases import fitted, images, one_thread, untimed

single = pytest.fixture(autouse=True)(one_thread)
TIMEOUT = 2.0  # seconds that ranks in a step wait for each other

CASES = {
    "independent": {"method": DeepEnsemble()},
    "exchanging": {"method": SharpBalance(switch_at=1)},
    "coupled": {"method": SED()},
    "sharing batches": {"data_parallel": 2, "virtual_shards": 2},
}
SLOW = ("coupled", "sharing batches")  # whose first step needs all ranks
SCRIPT = """
import os, sys, time
from pathlib import Path
from types import ModuleType
import torch
from torch import distributed
import tepui
from tepui.tracking import TensorBoard, WandB
from tracking.test_ranks import CASES, SLOW, TIMEOUT
from tracking.test_trackers import FakeRun
from training.cases import fitted, images, untimed

torch.set_num_threads(1)
distributed.init_process_group("gloo")  # who starts late is waited for
distributed.barrier()
os.environ["TEPUI_RANK_TIMEOUT"] = str(TIMEOUT)
rank, folder = os.environ["RANK"], Path(sys.argv[1])
begun, wandb = [], ModuleType("wandb")
wandb.init = lambda **options: begun.append(FakeRun(0, options)) or begun[-1]
sys.modules["wandb"] = wandb


class Listener(tepui.Callback):
    told = []

    def __init__(self, case):
        self.pause = 1.5 * TIMEOUT if case in SLOW else 0

    def on_start(self, config):
        self.told.append("start")
        time.sleep(self.pause)

    def on_epoch(self, record):
        self.told.append("epoch")
        time.sleep(self.pause if record.epoch == 0 else 0)

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


def test_only_the_writer_tracks_and_others_wait_for_it(tmp_path):
    assert_all_well(launched(2, SCRIPT, tmp_path))
    first, second = saved_by(tmp_path, range(2))
    assert first["told"] == ["start", "epoch", "epoch", "end"] * len(CASES)
    assert first["logged"] == [[0, 1]] * len(CASES)
    assert second["told"] == second["logged"] == []
    assert {place.name for place in tmp_path.glob("events *")} == {"events 0"}
    assert len([*tmp_path.glob("events 0/*/events.out*")]) == len(CASES)
    for name, how in CASES.items():
        alone = untimed(fitted(images(), **how | {"data_parallel": 1}).history)
        assert first["histories"][name] == second["histories"][name] == alone
