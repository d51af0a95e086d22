"""The commands of "Your data in five minutes", on a few small images."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tepui.cli.main import main

PAGE = Path(__file__).parents[2] / "docs/tutorial/five_minutes.md"
BLOCKS = re.findall(r"^```\n(tepui.*?)^```", PAGE.read_text(), re.S | re.M)
COMMANDS = [
    shlex.split(line)[1:]
    for block in BLOCKS
    for line in block.replace("\\\n", " ").splitlines()
]
SMALLER = {"--data.size": "16", "--epochs": "1", "--ensembles": "2"}
MORE = {
    "train": ["--model.width", "2", "--members", "2", "--quiet"],
    "compare": ["--members", "2", "--sharpness", "0"],
}


def miniature(words):
    kept = [word for word in words if word != "--open"]
    for option, value in SMALLER.items():
        if option in kept:
            kept[kept.index(option) + 1] = value
    return [*kept, *MORE.get(words[0], [])]


def write_photos(folder, count, draw):
    folder.mkdir(parents=True)
    for number in range(count):
        pixels = draw.integers(0, 256, (20, 24, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:temperature is at its bound")  # few images
def test_images_are_trained_calibrated_tested_predicted_and_compared(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    for part, count in (("train", 20), ("test", 6)):
        for name in ("cat", "dog"):
            write_photos(Path("photos") / part / name, count, draw)
    write_photos(Path("new_photos"), 3, draw)
    verbs = [words[0] for words in COMMANDS]
    assert verbs == ["train", "calibrate", "evaluate", "predict", "report", "compare"]
    for words in COMMANDS:
        main(miniature(words))
    assert len(Path("predictions.csv").read_text().splitlines()) == 4
    for folder in ("runs/photos", "runs/compared"):
        assert Path(folder, "report.html").is_file()
