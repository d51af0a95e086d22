"""Stored logits give what the evaluation saw."""

import pytest
import torch
from torch import nn

import tepui
from tepui import metrics
from tepui.core.storage import write_tensors
from tepui.evaluation.evaluations import file_of

GENERATOR = torch.Generator().manual_seed(0)
X, Y = torch.randn(20, 4, generator=GENERATOR), torch.arange(20) % 3
CELLS = [("fog", 1), ("fog", 5), ("snow", 1), ("snow", 5)]


@pytest.fixture
def evaluated(tmp_path):
    ensemble = tepui.Ensemble.build(lambda: nn.Linear(4, 3), members=3, seed=13)
    data = tepui.data.Arrays(X, Y)
    shifted = {(kind, level): tepui.data.Arrays(X + level, Y) for kind, level in CELLS}
    evaluation = tepui.evaluate(
        ensemble, data, shifted=shifted, rule="logit", out=tmp_path
    )
    return evaluation, tmp_path, ensemble


def test_logits_come_back(evaluated):
    evaluation, folder, ensemble = evaluated
    stored = tepui.read_logits(folder)
    assert stored.rule == "logit"
    assert list(stored.shifted) == list(evaluation.shifted) == CELLS
    logits, labels = stored.clean
    torch.testing.assert_close(logits, ensemble.logits(X).detach())
    assert torch.equal(labels, Y)
    cell = metrics.der(*stored.shifted["fog", 5]).item()
    assert cell == pytest.approx(evaluation.shifted["fog", 5].der)


def test_missing_and_foreign_files_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*clean\.safetensors"):
        tepui.read_logits(tmp_path)
    file = file_of(tmp_path, "clean", ".safetensors")
    file.parent.mkdir()
    good = {"logits/clean": torch.zeros(1, 2, 3), "labels/clean": torch.tensor([0, 1])}
    whole = {"rule": "vote", "task": "Classes", "cells": [], "ood": []}
    write_tensors(file, "logits", good, whole)
    assert tepui.read_logits(tmp_path).clean[0].shape == (1, 2, 3)
    for tensors, document in (
        ({"weights": torch.zeros(2)}, {}),
        (good, {**whole, "cells": [["fog", 1]]}),
        (good, {**whole, "cells": 3}),
    ):
        write_tensors(file, "logits", tensors, document)
        with pytest.raises(ValueError, match="must hold an evaluation's logits, but"):
            tepui.read_logits(tmp_path)
