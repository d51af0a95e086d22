"""Commands about a run know its data and model, and import nothing for its sake."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tepui.cli.main import main
from tepui.studies.recorded_options import FILE

OWN = """
import torch
from torch import nn
import tepui

class Net(nn.Module):
    def __init__(self, width: int = 4, num_classes: int = 10):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, num_classes)
        )

    def forward(self, x):
        return self.layers(x)

class Few(tepui.data.Arrays):
    def __init__(self, count: int = 40, train: bool = True):
        digits = tepui.data.Digits(train=train).subset(range(count))
        super().__init__(digits.inputs, digits.targets)
"""
SMALL = ["--members", "2", "--epochs", "1", "--quiet", "--device", "cpu"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_parts.py").write_text(OWN)
    sys.modules.pop("own_parts", None)
    return tmp_path


@pytest.fixture
def photos(here):
    draw = np.random.default_rng(0)
    for kind in ("cats", "dogs"):
        (here / "photos" / kind).mkdir(parents=True)
        for number in range(12):
            pixels = draw.integers(0, 255, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(here / "photos" / kind / f"{number}.png")
    return ["--data", "ImageFolder", "--data.path", "photos", "--data.size", "8"]


def test_data_are_remembered_with_their_options(photos, here, monkeypatch, capsys):
    main(["train", *photos, *SMALL, "--validation", "0.3", "--out", "run"])
    (here / "elsewhere").mkdir()
    monkeypatch.chdir(here / "elsewhere")
    run = str(here / "run")
    main(["evaluate", run, "--corruptions", "none"])
    assert "2 classes" in capsys.readouterr().out
    main(["calibrate", run, "--method", "none", "--coverage", "0.5"])
    main(["measure", run, "--what", "diversity", "--out", "measured"])
    recorded = json.loads((here / "run" / FILE).read_text())["data"]
    assert recorded["class_path"].endswith(".ImageFolder")
    assert recorded["init_args"]["path"] == str(here / "photos")
    assert recorded["init_args"]["size"] == 8


def test_the_runs_of_a_comparison_know_its_data(photos, here, capsys):
    words = ["--methods", "SAM", "--ensembles", "1", "--corruptions", "none"]
    main(["compare", *photos, *SMALL, *words, "--sharpness", "0", "--out", "all"])
    main(["measure", "all/SAM/0", "--what", "diversity", "--out", "measured"])
    assert "2 member" not in capsys.readouterr().err


def test_code_of_the_users_own_is_named_and_not_imported(here, capsys):
    own = ["--data", "own_parts.Few", "--data.count", "30"]
    net = ["--model", "own_parts.Net", "--model.width", "6"]
    main(["train", *own, *net, *SMALL, "--out", "run"])
    del sys.modules["own_parts"]
    words = ["evaluate", "run", "--corruptions", "none"]
    with pytest.raises(SystemExit):
        main(words)
    said = capsys.readouterr().err
    assert "--data must be given" in said
    assert " ".join(own) in said
    assert "own_parts" not in sys.modules
    with pytest.raises(SystemExit):
        main([*words, *own])
    said = capsys.readouterr().err
    assert f"--model must be given, as {' '.join(net)}: " in said
    main([*words, *own, *net])
    assert Path("run/evaluation.json").exists()


def test_a_folder_names_only_what_a_configuration_may_name(here, capsys):
    from tepui.core.storage import write_document

    main(["train", *SMALL, "--out", "run"])
    for path in ("os.system", "own_parts.Few", "tepui.data.Arrays", "tepui.fit"):
        recorded = {"class_path": path, "init_args": {}}
        write_document(here / "run" / FILE, "options", {"data": recorded})
        with pytest.raises(SystemExit, match="2"):
            main(["evaluate", "run", "--corruptions", "none"])
        assert f"--data {path}" in capsys.readouterr().err
    assert "own_parts" not in sys.modules
