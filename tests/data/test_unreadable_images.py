"""Images that cannot be read: those read together are named together."""

import multiprocessing
from pathlib import Path

import pytest
import torch
from torch.utils.data import Subset

import tepui
from data_layouts import picture
from tepui.data import ImageFiles, image_files
from tepui.data.image_files import UnreadableImageError, unreadable
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


def test_images_held_in_memory_are_named_together(learned):
    made, fit = learned
    damage(made[0], made[11], made[19])
    with pytest.raises(UnreadableImageError, match=r"^.*00\.png must be a valid image"):
        fit()
    picture(made[0], size=(8, 8))
    found = refused(fit)
    assert found == (SEVERAL.format(2), {"11.png", "19.png"})


def test_of_images_that_are_streamed_those_of_a_batch_are_named(learned, monkeypatch):
    monkeypatch.setattr(image_files, "MEMORY", 0)
    made, _ = learned
    damage(made[5], made[7], made[19])

    def read():
        return [*in_order(ImageFiles(made, [0] * 20), 4, device=CPU)]

    assert refused(read) == (SEVERAL.format(2), {"05.png", "07.png"})
    assert unreadable(made, None, False).keys() == {made[5], made[7], made[19]}


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


def test_an_error_that_is_kept_keeps_no_worker(learned, monkeypatch):
    made, _ = learned
    damage(made[4])
    monkeypatch.setattr(image_files, "MEMORY", 0)
    before = {*multiprocessing.active_children()}
    data = Subset(ImageFiles(made, [0] * 20).in_batches(), range(20))
    with pytest.raises(UnreadableImageError):
        for _ in in_order(data, 2, device=CPU, workers=1):
            pass
    for worker in {*multiprocessing.active_children()} - before:
        worker.join(60)
    assert {*multiprocessing.active_children()} <= before
