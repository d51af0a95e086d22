"""Images that cannot be read: named all at once, and only then looked for."""

import multiprocessing
from pathlib import Path

import pytest
import torch
from torch.utils.data import Subset

import tepui
from data_layouts import picture
from tepui.data import Frame, ImageFiles, ImageFolder, image_files, joined
from tepui.data.image_files import UnreadableImageError
from tepui.data.loading import in_order

CPU = torch.device("cpu")


def damage(*paths):
    for path in paths:
        path.write_bytes(b"no image")


def refused(make):
    """Return what an error says in its first line, and the files it names."""
    with pytest.raises(UnreadableImageError) as raised:
        make()
    first, *lines = str(raised.value).splitlines()
    named = {Path(line.strip().split(" must be a valid image: ")[0]) for line in lines}
    assert named == raised.value.reasons.keys()
    return first, {file.name for file in named}


@pytest.fixture
def learned(tmp_path):
    """Return the files of two classes, and what trains on them."""
    made = [picture(tmp_path / f"{n:02}.png", size=(8, 8)) for n in range(20)]

    def fit(data=None, **options):
        data = ImageFiles(made, [n % 2 for n in range(20)]) if data is None else data
        ensemble = tepui.Ensemble.build(
            lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 2)), 2
        )
        options = {"epochs": 1, "batch_size": 4, "progress": "none", **options}
        tepui.fit(ensemble, data, method=tepui.methods.DeepEnsemble(), **options)

    return made, fit


SEVERAL = "files must be images that can be read, got {} that cannot:"


@pytest.mark.parametrize("memory", [image_files.MEMORY, 0])
@pytest.mark.parametrize("workers", [0, 1])
def test_training_names_all_images_that_cannot_be_read(
    memory, workers, learned, monkeypatch
):
    monkeypatch.setattr(image_files, "MEMORY", memory)
    made, fit = learned
    damage(made[3], made[11], made[19])
    expected = {"03.png", "11.png", "19.png"}
    assert refused(lambda: fit(workers=workers)) == (SEVERAL.format(3), expected)
    # Wherever they are: of a part to validate on, too.
    for part in range(3):
        data = ImageFiles(made, [n % 2 for n in range(20)])
        held = data.subset([part + 3, 19 - part])
        rest = data.subset([n for n in range(20) if n not in (part + 3, 19 - part)])
        found = refused(lambda a=rest, b=held: fit(a, validation=b, workers=workers))
        assert found == (SEVERAL.format(3), expected)


@pytest.mark.parametrize("memory", [image_files.MEMORY, 0])
def test_the_first_image_may_be_among_them_or_the_only_one(
    memory, learned, monkeypatch
):
    monkeypatch.setattr(image_files, "MEMORY", memory)
    made, fit = learned
    damage(made[0])
    with pytest.raises(UnreadableImageError, match=r"^.*00\.png must be a valid image"):
        fit()
    damage(made[7])
    assert refused(fit) == (SEVERAL.format(2), {"00.png", "07.png"})


def test_images_are_looked_through_only_once_one_cannot_be_read(learned, monkeypatch):
    made, fit = learned
    looked = []
    kept = image_files.unreadable
    monkeypatch.setattr(
        image_files, "unreadable", lambda *given: looked.append(1) or kept(*given)
    )
    for memory in (image_files.MEMORY, 0):
        monkeypatch.setattr(image_files, "MEMORY", memory)
        assert [*in_order(ImageFiles(made, [0] * 20), 4, device=CPU)]
    assert not looked
    damage(made[1], made[2])
    refused(fit)
    assert len(looked) == 1


def test_other_ways_to_the_same_images_name_all_of_them(learned, tmp_path):
    made, fit = learned
    damage(made[2], made[5])
    found = SEVERAL.format(2), {"02.png", "05.png"}
    data = ImageFiles(made, [n % 2 for n in range(20)])
    assert refused(lambda: fit(Subset(data, range(20)))) == found
    large = [picture(tmp_path / "large" / f"{n}.png", size=(9, 9)) for n in range(4)]
    damage(large[3])
    framed = ImageFiles(large, [0, 1, 0, 1], frame=Frame(8))
    assert refused(lambda: fit(joined([data, framed]))) == (
        SEVERAL.format(3),
        {"02.png", "05.png", "3.png"},
    )


def test_an_image_that_may_not_be_read_is_one_of_them(learned, monkeypatch):
    made, fit = learned
    damage(made[4])
    kept = image_files.decode

    def guarded(path, *given, **options):
        if path == made[9]:
            raise PermissionError(13, "Permission denied", str(path))
        return kept(path, *given, **options)

    monkeypatch.setattr(image_files, "decode", guarded)
    with pytest.raises(UnreadableImageError, match="got 2 that cannot") as raised:
        fit()
    assert "Permission denied" in raised.value.reasons[made[9]]


def test_looking_through_many_images_is_said(learned, monkeypatch):
    made, fit = learned
    damage(made[4])
    monkeypatch.setattr(image_files, "MANY", 19)
    with (
        pytest.warns(UserWarning, match="all 20 are looked through"),
        pytest.raises(UnreadableImageError),
    ):
        fit()


def test_an_error_that_is_kept_keeps_no_worker(learned, monkeypatch):
    made, _ = learned
    damage(made[4])
    monkeypatch.setattr(image_files, "MEMORY", 0)
    before = {*multiprocessing.active_children()}
    data = ImageFiles(made, [0] * 20)
    for each in (data.in_batches(), Subset(data.in_batches(), range(20))):
        with pytest.raises(UnreadableImageError) as raised:
            for _ in in_order(each, 2, device=CPU, workers=1):
                pass
        for worker in {*multiprocessing.active_children()} - before:
            worker.join(60)
        assert {*multiprocessing.active_children()} <= before
        assert raised.value.reasons


def test_a_folder_that_is_divided_is_looked_through_whole(tmp_path):
    made = [
        picture(tmp_path / f"{c}/{n}.png", size=(8, 8)) for c in "ab" for n in "1234567"
    ]
    damage(*made)
    for train in (True, False):
        data = ImageFolder(tmp_path, train)
        assert len(data) < len(made)
        with pytest.raises(UnreadableImageError, match="got 14 that cannot") as raised:
            _ = data.held
        assert [*raised.value.reasons] == made
