import pytest
import torch

from data_layouts import picture
from tepui.data import ImageNet, ImageNetA, ImageNetR, ImageNetSketch, restricted
from tepui.data.sets.imagenet import imagenet_wnids

WNIDS = ["n01", "n02", "n03", "n04", "n05"]
SHARING = [
    (ImageNetA, "imagenet-a"),
    (ImageNetR, "imagenet-r"),
    (ImageNetSketch, "imagenet-sketch"),
]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr("tepui.data.sets.imagenet.CLASSES", 5)


def fill(folder, wnids, images=2):
    for wnid in wnids:
        for number in range(images):
            picture(folder / wnid / f"{wnid}_{number}.JPEG", size=(40, 30))


def test_parts_and_labels(tmp_path):
    fill(tmp_path / "imagenet" / "train", WNIDS, images=3)
    fill(tmp_path / "imagenet" / "val", WNIDS)
    train, test = ImageNet(tmp_path), ImageNet(tmp_path, train=False, size=16)
    assert train.targets.bincount().tolist() == [3] * 5
    assert test.targets.bincount().tolist() == [2] * 5
    assert train[0][0].shape == (3, 224, 224)
    assert test[0][0].shape == (3, 16, 16)
    assert train.mask.all()


@pytest.mark.parametrize(("dataset", "name"), SHARING)
def test_folders_that_are_there_make_the_mask(dataset, name, tmp_path):
    fill(tmp_path / "imagenet" / "val", WNIDS, images=1)
    fill(tmp_path / name, ["n02", "n05"])
    (tmp_path / name / "README.txt").write_text("")
    data = dataset(tmp_path, size=8)
    assert data.mask.tolist() == [False, True, False, False, True]
    assert data.targets.tolist() == [1, 1, 4, 4]
    assert data.classes == tuple(WNIDS)


@pytest.mark.parametrize(("dataset", "name"), SHARING)
def test_there_is_no_training_part(dataset, name, tmp_path):
    with pytest.raises(ValueError, match="train must be false"):
        dataset(tmp_path, train=True)


def test_a_list_of_classes_serves_without_imagenet(tmp_path):
    fill(tmp_path / "imagenet-a", ["n04"])
    with pytest.raises(FileNotFoundError, match=r"wnids\.txt must list the 5"):
        ImageNetA(tmp_path)
    (tmp_path / "imagenet").mkdir()
    (tmp_path / "imagenet" / "wnids.txt").write_text("\n".join(reversed(WNIDS)))
    assert ImageNetA(tmp_path).targets.tolist() == [3, 3]
    assert ImageNetA(tmp_path / "imagenet-a").targets.tolist() == [3, 3]


def test_mistakes_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"ImageNet is not in .*image-net\.org"):
        ImageNet(tmp_path)
    fill(tmp_path / "imagenet" / "val", WNIDS[:4])
    with pytest.raises(ValueError, match="must name 5 classes, got 4"):
        imagenet_wnids(tmp_path / "imagenet")
    fill(tmp_path / "imagenet" / "val", WNIDS)
    fill(tmp_path / "imagenet-r", ["n09"])
    with pytest.raises(ValueError, match="n09 must be one of 5 classes"):
        ImageNetR(tmp_path)


def test_restricted_logits_and_labels_agree_with_a_loop():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 6, 5, generator=generator)
    mask = torch.tensor([False, True, False, True, True])
    labels = torch.tensor([1, 3, 4, 4, 1, 3])
    found, renumbered = restricted(logits, labels, mask)
    kept = [index for index in range(5) if mask[index]]
    assert torch.equal(found, torch.stack([logits[..., i] for i in kept], dim=-1))
    assert renumbered.tolist() == [kept.index(label) for label in labels.tolist()]


@pytest.mark.parametrize(
    ("mask", "labels", "message"),
    [
        (
            torch.ones(4, dtype=torch.bool),
            [0, 1],
            r"mask must be boolean of shape \(5,",
        ),
        (torch.ones(5), [0, 1], "mask must be boolean"),
        (torch.tensor([True, False, True, True, True]), [0, 1], "got '1 outside'"),
        (torch.ones(5, dtype=torch.bool), [0, 5], r"lie in \[0, 4\]"),
    ],
)
def test_masks_that_do_not_fit_are_refused(mask, labels, message):
    with pytest.raises(ValueError, match=message):
        restricted(torch.zeros(2, 5), torch.tensor(labels), mask)
