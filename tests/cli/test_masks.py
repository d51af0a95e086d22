"""Classes of pixels on the command line, from arrays in a file to predictions."""

import numpy as np
import pytest

from refusals import refused
from tepui.cli.main import main
from tepui.core.storage import read_tensors
from tepui.evaluation import read_evaluation
from tepui.evaluation.predictions import KIND

DATA = ["--data", "ArrayFile(path=mine.npz)"]
MODEL = ["--model", "nets_of_pixels.make_net"]
HOW = ["--members", "2", "--epochs", "20", "--set", "batch_size=16", "progress=none"]
NET = """
from torch import nn


def make_net():
    return nn.Conv2d(3, 3, 1)
"""


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """Noise, whose class is the brightest channel of each pixel; some have none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "nets_of_pixels.py").write_text(NET)
    images = np.random.default_rng(0).integers(0, 256, (80, 8, 8, 3), dtype=np.uint8)
    masks = images.argmax(-1)
    masks[:, 0] = -100
    arrays = {"x_train": images[:64], "y_train": masks[:64]}
    np.savez("mine.npz", **arrays, x_test=images[64:], y_test=masks[64:])


@pytest.mark.slow
def test_masks_go_all_the_way(tmp_path, capsys):
    how = [*HOW, "--optimizer", "AdamW(lr=0.05)", "--validation", "0.25"]
    main(["train", *DATA, *MODEL, *how, "--out", "run"])
    main(["evaluate", "run", *MODEL, "--corruptions", "none"])
    found = read_evaluation(tmp_path / "run")
    assert found["clean"]["accuracy"] > 0.8
    assert found["clean"]["mean_iou"] > 0.6
    assert sum(found["by_class"]["samples"]) == 16 * 56  # pixels with a class
    main(["predict", "run", *MODEL, "--out", "out.safetensors"])
    tensors, _ = read_tensors(tmp_path / "out.safetensors", KIND)
    right = tensors["prediction"] == tensors["target"]
    assert right.shape == (16, 8, 8)
    measured = float(right[:, 1:].double().mean())
    assert measured == pytest.approx(found["clean"]["accuracy"])
    main(["calibrate", "run", *MODEL])
    assert "calibration on 16 samples" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--model must be given for what is no image"),
        (
            [*MODEL, "--augment", "HorizontalFlip", "RandomCrop"],
            "augment must leave pixels where they are, since targets of pixels do not "
            "move with them, got 'HorizontalFlip, RandomCrop'",
        ),
        (
            [*MODEL, "--augment", "AugMix", "RandomErasing", "TrivialAugment"],
            "move with them, got 'AugMix, TrivialAugment'",
        ),
    ],
)
def test_what_does_not_go_with_masks_is_refused(words, said, capsys):
    assert said in refused(["train", *DATA, *HOW, *words, "--out", "run"], capsys)
