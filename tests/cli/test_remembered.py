"""Commands about a run know its data and model, and import nothing for its sake."""

import json
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from refusals import refused
from tepui.cli.main import main
from tepui.core.storage import write_document
from tepui.training.run_folder import OPTIONS as FILE
from tepui.training.run_folder import OPTIONS_KIND as KIND

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
SMALL = ["--members", "2", "--epochs", "1", "--set", "progress=none", "device=cpu"]


def kept_of(command, **options):
    """Write down that a run was made by a command."""
    write_document(Path("run", FILE), KIND, {"command": command, "options": options})


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
    return ["--data", "ImageFolder(path=photos, size=8)"]


def test_data_are_remembered_with_their_options(photos, here, monkeypatch, capsys):
    main(["train", *photos, *SMALL, "--validation", "0.3", "--out", "run"])
    (here / "elsewhere").mkdir()
    monkeypatch.chdir(here / "elsewhere")
    run = str(here / "run")
    main(["evaluate", run, "--corruptions", "none"])
    assert "recall by class" in capsys.readouterr().out
    main(["calibrate", run, "--method", "none", "--coverage", "0.5"])
    main(["measure", run, "--what", "diversity", "--out", "measured"])
    recorded = json.loads((here / "run" / FILE).read_text())["options"]["data"]
    assert recorded == f"ImageFolder(path='{here / 'photos'}', size=8)"


def test_code_of_the_users_own_is_named_and_not_imported(here, capsys):
    own = ["--data", "own_parts.Few(count=30)"]
    net = ["--model", "own_parts.Net(width=6)"]
    main(["train", *own, *net, *SMALL, "--out", "run"])
    del sys.modules["own_parts"]
    words = ["evaluate", "run", "--corruptions", "none"]
    said = refused(words, capsys)
    assert "data must be given" in said
    assert shlex.join(own) in said
    assert "own_parts" not in sys.modules
    said = refused([*words, *own], capsys)
    assert "--model must be given: " in said
    main([*words, *own, *net])
    assert Path("run/evaluations/clean.json").exists()


def test_a_folder_names_only_what_a_configuration_may_name(here, capsys):
    main(["train", *SMALL, "--out", "run"])
    for path in ("os.system", "own_parts.Few", "tepui.data.Arrays", "tepui.fit"):
        kept_of("train", data=path)
        with pytest.raises(SystemExit, match="2"):
            main(["evaluate", "run", "--corruptions", "none"])
        assert f"--data {path}" in capsys.readouterr().err
    assert "own_parts" not in sys.modules
