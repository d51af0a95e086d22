import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, Subset, TensorDataset

from tepui.data import Arrays, Normalize, to_arrays


class Items(Dataset):
    def __init__(self, *items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


def test_arrays_come_back_as_they_are():
    data = Arrays(torch.zeros(2, 1), torch.zeros(2))
    assert to_arrays(data) is data


def test_tensor_data_set_is_not_copied():
    images, labels = torch.zeros(4, 1, 2, 2), torch.arange(4)
    data = to_arrays(TensorDataset(images, labels))
    assert data.inputs is images
    assert data.targets is labels


def test_items_are_stacked_in_order():
    images = torch.arange(3 * 4).view(3, 1, 2, 2).to(torch.uint8)
    data = to_arrays(Items(*((image, 5 - i) for i, image in enumerate(images))))
    assert data.inputs.dtype == torch.uint8
    assert torch.equal(data.inputs, images)
    assert torch.equal(data.targets, torch.tensor([5, 4, 3]))


def test_dict_inputs_are_stacked():
    items = [({"tokens": torch.full((3,), i), "length": 3}, i) for i in range(2)]
    inputs = to_arrays(Items(*items)).inputs
    assert inputs["tokens"].tolist() == [[0, 0, 0], [1, 1, 1]]
    assert inputs["length"].tolist() == [3, 3]


def test_subset_of_arrays_keeps_stored_values():
    stored = torch.arange(4).view(4, 1, 1, 1).to(torch.uint8)
    data = Arrays(stored, torch.arange(4), Normalize((0.5,), (0.5,)))
    nested = Subset(Subset(data, [3, 2, 1]), [0, 2])
    part = to_arrays(nested)
    assert torch.equal(part.inputs, stored[[3, 1]])
    assert part.normalize == data.normalize


def test_subset_of_other_data_sets_reads_only_its_items():
    broken = Items((torch.zeros(1), 0), "never read", (torch.ones(1), 1))
    assert to_arrays(Subset(broken, [0, 2])).targets.tolist() == [0, 1]


@pytest.mark.parametrize(
    "other",
    [
        (torch.zeros(1, 9, 8), 1),
        (object(), 1),
        (torch.zeros(1, 8, 8), 1, 2),
        ({"x": "text"}, 1),
        (torch.zeros(1, 8, 8), "text"),
        ([torch.zeros(1)], 1),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_items_that_are_not_pairs_of_tensors_are_refused(other, first):
    items = [other] * 3 if first else [(torch.zeros(1, 8, 8), 0), other]
    if first and isinstance(other[0], torch.Tensor) and other[1] == 1:
        items = [*items, (torch.zeros(2), 0)]
    with pytest.raises(
        ValueError, match=r"must hold pairs \(x, y\) of tensors that st"
    ):
        to_arrays(Items(*items))


def test_empty_and_endless_are_refused():
    with pytest.raises(
        ValueError, match="dataset must hold at least one sample, got 0"
    ):
        to_arrays(Items())

    class Stream(IterableDataset):
        def __iter__(self):
            return iter(())

    with pytest.raises(ValueError, match=r"dataset must be map-style .* got Stream"):
        to_arrays(Stream())
