"""Classes without samples: what is said of them before a run."""

import warnings

import pytest
import torch

import tepui
from tepui.core.checks import class_indices
from tepui.methods import SAM
from tepui.training.absent_classes import absent_remark


@pytest.mark.parametrize(
    ("labels", "names", "said"),
    [
        ([0, 1, 2], (), None),
        ([1, 2, 3], (), "labels are 1 to 3, but labels count from 0: subtract 1"),
        ([2, 3, 4], (), "labels are 2 to 4, but labels count from 0: subtract 2"),
        ([1, 2], ("cat", "dog", "cow"), "has class 0 ('cat'): members cannot learn it"),
        ([0, 2, 4], (), "has classes 1, 3: members cannot learn them"),
        ([0, 20], (), "8, 9, 10 and 9 more: members"),
    ],
)
def test_classes_without_samples_are_named(labels, names, said):
    found = absent_remark(torch.tensor(labels), 30, names)
    assert (found is None) == (said is None)
    assert said is None or said in found


@pytest.mark.parametrize("targets", [None, torch.zeros(2, 3), torch.tensor([])])
def test_what_has_no_classes_is_not_remarked_on(targets):
    assert absent_remark(targets, 4) is None
    assert absent_remark(torch.tensor([1, 2]), None) is None


@pytest.mark.parametrize(("progress", "count"), [("lines", 1), ("none", 0)])
def test_a_run_says_it_beside_the_progress(progress, count, capsys):
    data = tepui.data.Arrays(torch.randn(12, 4), torch.arange(12) % 3 + 1)
    ensemble = tepui.Ensemble.build(lambda: torch.nn.Linear(4, 4), members=1)
    tepui.fit(ensemble, data, method=SAM(), epochs=1, progress=progress)
    assert capsys.readouterr().err.count("no training sample has class 0") == count


@pytest.mark.parametrize(
    ("labels", "hint"),
    [
        ([-1, 0, 1], "labels count from 0, and -1 is that of a sample without a label"),
        ([1, 2], "labels count from 0: subtract 1 from all of them"),
    ],
)
def test_labels_that_do_not_count_from_zero_are_told_to(labels, hint):
    with pytest.raises(ValueError, match=hint):
        class_indices(torch.tensor(labels), 2)
    with pytest.raises(ValueError, match=r"got 'values from 0 to 2'$"):
        class_indices(torch.tensor([0, 2]), 2)


@pytest.mark.parametrize(
    ("classes", "order"),
    [(("cat", "cow", "dog"), "(cat, cow, dog)"), ((), "(in the order of labels, from")],
)
def test_weights_that_do_not_fit_leave_the_folder_free(classes, order, tmp_path):
    data = tepui.data.Arrays(torch.randn(6, 4), torch.arange(6) % 3, classes=classes)
    ensemble = tepui.Ensemble.build(lambda: torch.nn.Linear(4, 3), members=1)
    chosen = {"method": SAM(), "epochs": 1, "progress": "none"}
    chosen["out"] = tmp_path / "run"
    wrong = tepui.losses.CrossEntropy(class_weights=(1.0, 4.0))
    with pytest.raises(ValueError, match="one number for each of 3 classes") as error:
        tepui.fit(ensemble, data, loss=wrong, **chosen)
    assert order in str(error.value)
    right = tepui.losses.CrossEntropy(class_weights=(1.0, 4.0, 1.0))
    assert len(tepui.fit(ensemble, data, loss=right, **chosen).history) == 1


def test_outputs_beyond_the_classes_are_told():
    def trained(outputs, classes):
        x, y = torch.randn(6, 4), torch.arange(6) % 3
        data = tepui.data.Arrays(x, y, classes=classes)
        ensemble = tepui.Ensemble.build(lambda: torch.nn.Linear(4, outputs), members=1)
        tepui.fit(ensemble, data, method=SAM(), epochs=1, progress="none")

    names = ("cat", "cow", "dog")
    with pytest.warns(UserWarning, match=r"members have 9 outputs and the data 3 cl"):
        trained(9, names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trained(3, names)
        trained(9, ())


def test_a_negative_label_is_refused_as_such():
    labels = torch.tensor([0, 1, 2, -1] * 4)
    assert absent_remark(labels, 3) is None
    ensemble = tepui.Ensemble.build(lambda: torch.nn.Linear(3, 3), members=2, seed=0)
    data = tepui.data.Arrays(torch.zeros(16, 3), labels)
    with pytest.raises(ValueError, match="labels count from 0, and -1 is that of a"):
        tepui.fit(ensemble, data, method=SAM(), epochs=1, progress="none")
