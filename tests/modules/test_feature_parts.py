"""A stopped pass goes on; files are known by their places and not read again."""

import os
import shutil

import numpy as np
import pytest
import torch
from torch import nn

from data_layouts import picture
from tepui import cached_features
from tepui.data import ArraysOnDisk, ImageFolder, RandomCrop
from tepui.data.loading import AHEAD
from tepui.modules import feature_parts
from tepui.modules.features import features_key
from training.cases import Noisy, Plain, images, numbers

EXTRACTOR = nn.Flatten()


class StoppedError(Exception):
    """What ends a pass."""


class Fragile(nn.Module):
    """Flattens, and counts how many samples it was given; stops after some."""

    def __init__(self, most=10**9):
        super().__init__()
        self.seen, self.most = 0, most

    def forward(self, x):
        if self.seen >= self.most:
            raise StoppedError
        self.seen += len(x)
        return x.flatten(1)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Write a part after every batch."""
    monkeypatch.setattr(feature_parts, "EVERY", 0.0)


@pytest.mark.parametrize("kind", ["arrays", "plain", "draws", "augmented"])
def test_a_stopped_pass_goes_on_where_it_was(kind, tmp_path):
    data = {"plain": Plain(numbers()), "draws": Noisy(numbers())}.get(kind, images())
    how = {"batch_size": 5}
    if kind in ("draws", "augmented"):
        how["passes"] = 2
    if kind == "augmented":
        how["augment"] = [RandomCrop(padding=1)]
    whole = cached_features(Fragile(), data, tmp_path / "whole", **how)
    with pytest.raises(StoppedError):
        cached_features(Fragile(most=10), data, tmp_path / "parts", **how)
    again, told = Fragile(), []
    found = cached_features(again, data, tmp_path / "parts", advance=told.append, **how)
    assert again.seen == len(whole) - 10 + 2  # and two, to compare
    assert sum(told) == len(whole)
    assert told[0] == 10
    assert torch.equal(found.inputs, whole.inputs)
    assert torch.equal(found.targets, whole.targets)
    assert [path.suffix for path in (tmp_path / "parts").iterdir()] == [".safetensors"]


def test_a_damaged_part_is_computed_again(tmp_path):
    data = images()
    with pytest.raises(StoppedError):
        cached_features(Fragile(most=15), data, tmp_path, batch_size=5)
    (folder,) = tmp_path.iterdir()
    parts = sorted(folder.iterdir())
    assert len(parts) == 3
    parts[1].write_bytes(parts[1].read_bytes()[:-9])
    again = Fragile()
    found = cached_features(again, data, tmp_path, batch_size=5)
    assert again.seen == len(data) - 5 + 2
    assert torch.equal(found.inputs, data.prepare(data.inputs).flatten(1))


@pytest.fixture
def photos(tmp_path):
    for number, name in enumerate(("ant", "bee")):
        for image in range(6):
            shade = (100 * number, 20 * image, 7)
            picture(tmp_path / "photos" / name / f"{image}.png", shade, size=(6, 6))
    return tmp_path / "photos"


def key(folder, **options):
    return features_key(EXTRACTOR, ImageFolder(folder, part="all", **options))


def test_images_in_files_are_known_without_being_read(photos, tmp_path, monkeypatch):
    data = ImageFolder(photos, part="all")
    first = cached_features(EXTRACTOR, data, tmp_path / "cache")
    read = []
    raw = ImageFolder.raw
    monkeypatch.setattr(
        ImageFolder, "raw", lambda self, rows: read.extend(rows) or raw(self, rows)
    )
    again = ImageFolder(photos, part="all")
    found = cached_features(EXTRACTOR, again, tmp_path / "cache")
    assert torch.equal(found.inputs, first.inputs)
    assert len(read) <= 2 * (1 + AHEAD)  # two of twelve, and what is read ahead
    assert "held" not in vars(again)


def test_what_tells_files_apart_shows_in_the_key(photos, tmp_path):
    before, file = key(photos), photos / "ant" / "0.png"
    assert key(photos) == before
    assert key(photos, size=4) != before
    assert key(photos, mean=(0.0, 0.0, 0.0)) != before
    changed = file.stat().st_mtime_ns + 10**9
    os.utime(file, ns=(changed, changed))
    touched = key(photos)
    assert touched != before
    copied = tmp_path / "copied.png"
    shutil.copy2(file, copied)
    copied.replace(file)  # the same bytes and times in another file
    assert key(photos) not in (before, touched)
    shutil.copytree(photos, tmp_path / "elsewhere")
    assert key(tmp_path / "elsewhere") != key(photos)


def test_arrays_on_disk_are_known_by_the_digest_that_is_kept(tmp_path):
    x = np.random.default_rng(0).random((6, 4), dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    data = ArraysOnDisk(tmp_path / "x.npy", torch.arange(6))
    before = features_key(EXTRACTOR, data)
    assert before == features_key(EXTRACTOR, data)
    assert before != features_key(EXTRACTOR, data.subset([0, 1]))
    np.save(tmp_path / "x.npy", x + 1)
    assert before != features_key(EXTRACTOR, data)
    found = cached_features(EXTRACTOR, data, tmp_path / "cache")
    assert torch.equal(found.inputs, torch.from_numpy(x + 1))
