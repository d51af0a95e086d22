import pytest

from data_layouts import picture
from tepui.data import ImageNet, ImageNetA, ImageNetR, ImageNetSketch
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
    assert train.class_subset.all()


@pytest.mark.parametrize(("dataset", "name"), SHARING)
def test_folders_that_are_there_make_the_mask(dataset, name, tmp_path):
    fill(tmp_path / "imagenet" / "val", WNIDS, images=1)
    fill(tmp_path / name, ["n02", "n05"])
    (tmp_path / name / "README.txt").write_text("")
    data = dataset(tmp_path, size=8)
    assert data.class_subset.tolist() == [False, True, False, False, True]
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
