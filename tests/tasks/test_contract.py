"""Every task keeps the promises that ``check_task`` knows; a broken one is named."""

from dataclasses import dataclass

import pytest
import torch

from tepui.tasks import (
    Classes,
    Gaussians,
    Labels,
    NumberPrediction,
    Numbers,
    NumberTask,
    Quantiles,
    Unknown,
)
from tepui.testing import check_task

DRAWS = torch.Generator().manual_seed(0)
NUMBERS = torch.randn(30, 2, generator=DRAWS)
TASKS = {
    "classes": (Classes(), torch.arange(30) % 4),
    "labels": (Labels(), (NUMBERS > 0).long()),
    "yes or no": (Labels(), torch.arange(30) % 2),
    "numbers": (Numbers(), NUMBERS[:, 0]),
    "several numbers": (Numbers(), NUMBERS),
    "gaussians": (Gaussians(), NUMBERS),
    "quantiles": (Quantiles((0.1, 0.5, 0.8)), NUMBERS),
    "unknown": (Unknown(), NUMBERS),
}


@pytest.mark.parametrize("name", TASKS)
def test_a_task_keeps_its_promises(name):
    check_task(*TASKS[name])


@dataclass(frozen=True)
class Doubled(NumberTask):
    """A task that answers by its first member, and has no loss."""

    word = "doubled"
    predicts = NumberPrediction

    def points(self, outputs):
        return outputs[:1].expand_as(outputs)

    def unfamiliarity(self, outputs):
        return {"epistemic": outputs[0, :, 0]}


def test_a_broken_promise_is_named():
    with pytest.raises(AssertionError, match="not depend on the order of members"):
        check_task(Doubled(), NUMBERS)
