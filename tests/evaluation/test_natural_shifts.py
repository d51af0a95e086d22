"""Natural shifts by name: scored like any test set, apart from corrupted copies."""

import pytest
import torch
from torch import nn

from tepui import Ensemble, evaluate, read_logits
from tepui.data import Arrays, corrupted
from tepui.tasks.scores import mean_scores

NOISE = torch.Generator().manual_seed(0)
IMAGES = torch.rand(30, 1, 8, 8, generator=NOISE)
LABELS = torch.arange(30) % 3
DATA = Arrays(IMAGES, LABELS)
SKETCH = Arrays(IMAGES[:12].flip(-1), LABELS[:12])
TYPES = {"types": ("contrast", "brightness"), "severities": (1, 3)}


@pytest.fixture
def ensemble():
    return Ensemble.build(
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), members=3, seed=1
    )


def test_a_natural_shift_is_scored_as_a_test_set_of_its_own(ensemble, tmp_path):
    found = evaluate(ensemble, DATA, shifted={"sketch": SKETCH}, out=tmp_path)
    alone = evaluate(ensemble, SKETCH)
    assert found.natural == {"sketch": alone.clean}
    assert found.corrupted_mean is None
    assert found.by_severity() == {}
    assert "shifted" not in found.reliability
    logits, labels = read_logits(tmp_path).shifted["sketch", 0]
    assert torch.equal(logits, ensemble.logits(SKETCH.inputs))
    assert torch.equal(labels, SKETCH.targets)
    assert "sketch" in str(found).splitlines()[1]


def test_copies_and_natural_shifts_stay_apart(ensemble):
    copies = corrupted(DATA, **TYPES)
    both = evaluate(ensemble, DATA, shifted=copies | {"sketch": SKETCH})
    only = evaluate(ensemble, DATA, shifted=copies)
    assert both.corrupted_mean == only.corrupted_mean
    assert both.by_severity() == only.by_severity()
    for part in ("count", "accuracy"):
        pooled = (getattr(e.reliability["shifted"], part) for e in (both, only))
        torch.testing.assert_close(*pooled, equal_nan=True)
    assert both.natural == {"sketch": evaluate(ensemble, SKETCH).clean}
    document = both.document()
    assert document["severities"].keys() == {"1", "3"}
    assert [(c["type"], c["severity"]) for c in document["cells"]][-1] == ("sketch", 0)
    mixed = {("fog", 1): DATA, "sketch": SKETCH}
    assert evaluate(ensemble, DATA, shifted=mixed).corrupted_mean == mean_scores(
        [evaluate(ensemble, DATA).clean]
    )


def test_classes_of_a_natural_shift_go_by_their_names(ensemble):
    named = Arrays(IMAGES, LABELS, classes=("cat", "dog", "cow"))
    turned = Arrays(SKETCH.inputs, 2 - SKETCH.targets, classes=("cow", "dog", "cat"))
    same = Arrays(SKETCH.inputs, SKETCH.targets, classes=("cat", "dog", "cow"))
    found = evaluate(ensemble, named, shifted={"turned": turned, "same": same}).natural
    assert found["turned"] == found["same"]


@pytest.mark.parametrize(
    ("shifted", "message"),
    [
        ({"salt": max}, r"shifted\['salt'\] must be map-style"),
        ({"salt": []}, r"shifted\['salt'\] must hold at least one sample"),
    ],
)
def test_what_is_no_data_set_is_refused_by_its_name(ensemble, shifted, message):
    with pytest.raises(ValueError, match=message):
        evaluate(ensemble, DATA, shifted=shifted)
