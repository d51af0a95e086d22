import pytest
import torch

from data_layouts import picture
from tepui.data import Arrays, ImageFolder
from tepui.data.labels import relabel

ALL = ("ant", "bee", "cow")


def test_labels_go_by_names_and_the_absence_of_one_stays():
    labels = torch.tensor([0, 1, -1], dtype=torch.int32)
    data = Arrays(torch.zeros(3, 2), labels, classes=("cow", "ant"))
    found = relabel(data, ALL)
    assert found.targets.tolist() == [2, 0, -1]
    assert found.targets.dtype == torch.int32
    assert found.classes == ALL
    assert data.targets.tolist() == [0, 1, -1]


def test_images_that_were_read_are_numbered_too(tmp_path):
    for name in ("bee", "cow"):
        picture(tmp_path / name / "0.png")
    data = ImageFolder(tmp_path, part="all")
    assert data.held.targets.tolist() == [0, 1]
    found = relabel(data, ALL)
    assert found.targets.tolist() == found.held.targets.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (torch.tensor([0, 1]), ("bee", "wasp")),
        (torch.tensor([0, 1]), ()),
        (torch.tensor([0, 1]), ALL),
        (torch.tensor([[0, 1], [1, 1]]), ("bee", "ant")),
        (torch.tensor([0.5, 1.0]), ("bee", "ant")),
        (torch.tensor([0, 2]), ("bee", "ant")),
    ],
)
def test_what_names_cannot_number_stays(labels, classes):
    data = Arrays(torch.zeros(2, 2), labels, classes=classes)
    assert relabel(data, ALL) is data
