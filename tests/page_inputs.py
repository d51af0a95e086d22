"""What the pages' commands speak of, made small: data, weights, code and runs."""

import re
import runpy
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from data import mrpc_files
from data_layouts import (
    cifar10_binary,
    fashion_mnist,
    images_and_labels,
    picture,
    tiny_imagenet,
)
from pages import ROOT
from tepui.cli.main import main
from tepui.core.storage import read_lines
from tepui.data import CIFAR10, FashionMNIST, TinyImageNet
from tepui.models import ResNet18
from tepui.studies.results import results_of, write_results

COMMITTED = ("small/sharpbalance/figure7", "small/sharpbalance/table6")

YOURS = """
from torch import nn


class Net(nn.Module):
    def __init__(self, num_classes=10, width=4):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, width, 3), nn.ReLU())
        self.head = nn.Linear(width, num_classes)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


class Wide(Net):
    def __init__(self, num_classes=10):
        super().__init__(num_classes, width=8)


def make_net(num_classes=10):
    return Net(num_classes, width=6)


def body():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
"""
FILES = (
    *("photos", "new_photos", "sketches", "data/dtd", "mine.npz", "results", "docs"),
    *("flats.csv", "new_flats.csv"),
    *("a.ckpt", "b.pth", "d.pth", "hf_folder", "c.safetensors", "a.pt", "b.pt", "c.pt"),
)
DATA = "published"
TINY = ["--model", "MLP(hidden=[8])", "--members", "2", "--epochs", "1"]
QUIET = ["--set", "progress=none"]
SAM = ["train", "--method", "SAM", *TINY, *QUIET]
PHOTOS = ["--data", "ImageFolder(path=photos)"]
TRAINED = {
    **dict.fromkeys(("runs/sam", "runs/sam-1"), SAM),
    "runs/sam-2": [*SAM, "--seeds", "3", "4"],
    "runs/digits": ["compare", *TINY, *QUIET, "corruptions=none", "sharpness=0"],
    "runs/mine": ["train", *PHOTOS, *TINY, *QUIET],
}


def write_photos(folder):
    """Write photos of cats and dogs, new ones, sketches and textures."""
    draw = np.random.default_rng(0)
    classes = ("cat", "dog")
    counts = {f"photos/train/{name}": 12 for name in classes}
    counts |= {f"photos/test/{name}": 4 for name in classes}
    counts |= {f"sketches/{name}": 3 for name in classes}
    counts |= {"new_photos": 3, "data/dtd": 6}
    for place, count in counts.items():
        for number in range(count):
            color = tuple(map(int, draw.integers(0, 256, 3)))
            picture(folder / place / f"{number}.png", color, (32, 32))


def write_table(file):
    """Write rows of numbers near -1 to 1 and a noisy one to predict for each."""
    draw = np.random.default_rng(0)
    arrays = {}
    for part in ("train", "test"):
        rows = draw.uniform(-1, 1, (200, 4)).astype(np.float32)
        noise = draw.normal(0, 0.3, 200).astype(np.float32)
        arrays |= {f"x_{part}": rows, f"y_{part}": rows.mean(1) + noise}
    np.savez(file, **arrays)


def write_flats(folder):
    """Write flats, sold or not, with the columns that a page shows, and its rows."""
    page = (ROOT / "docs/tutorial/five_minutes.md").read_text()
    shown = re.search(r"^```text\n(size,.*?)…", page, re.S | re.M)[1]
    rows = [
        f"{50.5 + 37 * n % 80},{('Bern', 'Oslo')[n % 3 > 0]},{n % 4},{n % 2}"
        for n in range(80)
    ]
    names = shown.splitlines()[0]
    (folder / "flats.csv").write_text("\n".join([names, *rows]))
    (folder / "new_flats.csv").write_text(shown)


def write_weights(folder):
    """Write weights that other programs saved, as the pages name them."""
    yours = runpy.run_path(str(folder / "mypackage.py"))
    torch.save({"state_dict": ResNet18().state_dict()}, folder / "a.ckpt")
    for file in ("b.pth", "d.pth", "a.pt", "b.pt", "c.pt"):
        torch.save(yours["Net"]().state_dict(), folder / file)
    (folder / "hf_folder").mkdir()
    whole = folder / "hf_folder" / "model.safetensors"
    save_file(yours["make_net"]().state_dict(), whole)
    save_file(yours["Wide"]().state_dict(), folder / "c.safetensors")


def expect_miniatures(folder, patch):
    """Let published data sets be as small as those in a data folder."""
    patch.setenv("TEPUI_DATA", str(folder))
    for kind in (CIFAR10, FashionMNIST):
        patch.setattr(kind, "num_samples", {True: 40, False: 10})
    patch.setattr("tepui.data.sets.imagenet.TINY_CLASSES", 2)
    patch.setattr(TinyImageNet, "num_samples", {True: 4, False: 4})
    patch.setattr("tepui.data.sets.mrpc.PAIRS", 440)


def expect_nothing(patch):
    """Let no published data be found."""
    patch.setenv("TEPUI_DATA", "nowhere")
    here_alone = replace(FashionMNIST.origin, elsewhere=())
    patch.setattr(FashionMNIST, "origin", here_alone)


def write_sets(folder):
    """Write miniatures of published data sets into a data folder."""
    train, test = images_and_labels(40, 10), images_and_labels(10, 10, seed=1)
    cifar10_binary(folder, *train, *test)
    for part, samples in (("train", 40), ("t10k", 10)):
        gray = images_and_labels(samples, 10, shape=(1, 28, 28))
        fashion_mnist(folder / "fashion-mnist", *gray, part)
    tiny_imagenet(folder, ["n01", "n02"])
    mrpc_files.write(folder, 440)
    made = ["--types", "contrast", "fog", "--out", str(folder / "CIFAR-10-C")]
    main(["corrupt", "--data", "CIFAR10", *made])


def write_inputs(folder):
    """Write all of it into the current folder, and the runs that pages begin with."""
    (folder / "mypackage.py").write_text(YOURS)
    write_photos(folder)
    write_table(folder / "mine.npz")
    write_flats(folder)
    write_weights(folder)
    with pytest.MonkeyPatch.context() as patch:
        expect_miniatures(folder / DATA, patch)
        write_sets(folder / DATA)
    shutil.copytree(ROOT / "docs", folder / "docs")
    for found in read_lines(ROOT / "research" / "papers.jsonl", "results"):
        place = f"{found['size']}/{found['item']}"
        if place in COMMITTED:
            write_results(folder / "results" / place, results_of(found))
    for out, words in TRAINED.items():
        main([*words, "--out", out])
    for run in ("runs/sam-1", "runs/sam-2"):
        main(["evaluate", run, "--corruptions", "none"])


def bring(inputs, folder, text):
    """Bring into a folder what a page's commands name and do not make themselves."""
    for name in (*FILES, *TRAINED):
        place = rf"(?<![\w/-]){re.escape(name)}(?![\w-])"
        if re.search(place, text) and not re.search(rf"--out {place}", text):
            source, target = inputs / name, folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if name in TRAINED:
                shutil.copytree(source, target)
            else:
                target.symlink_to(source)
