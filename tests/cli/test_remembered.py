"""Commands about a run know its data and model, and import nothing for its sake."""

import importlib
import json
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from refusals import refused
from tepui.cli.main import main
from tepui.core.storage import write_document
from tepui.training import Run
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
SETS = ["--held-out", "test", "--method", "none", "--coverage", "0.5"]
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


def test_the_runs_of_a_comparison_know_its_data(photos, here, capsys):
    words = ["--methods", "SAM", "--ensembles", "1", "--out", "all"]
    plain = ["--set", "sharpness=0", "corruptions=none"]
    main(["compare", *photos, *SMALL, *words, *plain])
    main(["measure", "all/SAM/0", "--what", "diversity", "--out", "measured"])
    assert "2 member" not in capsys.readouterr().err


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
    assert f"--model must be given, such as {shlex.join(net)}: " in said
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


def next_command(capsys):
    """What the command that just ended says to type."""
    said = " ".join(capsys.readouterr().out.split())
    return shlex.split(said.rpartition("next: tepui ")[2])


def test_what_comes_next_names_the_users_own_again(here, capsys):
    own = ["--data", "own_parts.Few(count=30)"]
    own += ["--model", "own_parts.Net(width=6)"]
    main(["train", *own, *SMALL, "--out", "run"])
    then = next_command(capsys)
    assert then == ["evaluate", "run", *own]
    main(["measure", "run", *own, "--what", "diversity"])
    assert next_command(capsys) == then
    main([*then, "--corruptions", "none"])
    main(["calibrate", "run", *own, *SETS])
    then = next_command(capsys)
    assert then == ["evaluate", "run", *own]
    main([*then, "--corruptions", "none"])
    main(["calibrate", "run", *own, *SETS])
    assert next_command(capsys) == ["predict", "run", "FILES", *own[2:]]


def test_what_comes_next_after_foreign_weights_names_their_model(here, capsys):
    own_parts = importlib.import_module("own_parts")
    torch.save(own_parts.Net().state_dict(), "net.pt")
    model = ["--model", "own_parts.Net"]
    digits = ["--data", "Digits", "--corruptions", "none"]
    main(["evaluate", "net.pt", *model, *digits, "--out", "run"])
    main(["calibrate", "run", *model, *SETS])
    then = next_command(capsys)
    assert then == ["evaluate", "run", *model]
    main([*then, "--corruptions", "none"])
    main(["calibrate", "run", *model, "--data", "Digits", *SETS])
    main(["calibrate", "run", "--model", *model[1:], *SETS])
    assert next_command(capsys) == ["predict", "run", "FILES", "--model", model[1]]


def test_what_comes_next_after_a_known_model_is_short(here, capsys):
    main(["train", *SMALL, "--out", "run"])
    assert next_command(capsys) == ["evaluate", "run"]


def test_options_are_told_as_they_are_read(here):
    Path("run").mkdir()
    text = "own_parts.Few(count=30, some=None, sizes=[1, 2], named='a b')"
    kept_of("train", data=text)
    with pytest.raises(ValueError, match="data must be given") as refused:
        Run(Path("run")).tested()
    assert shlex.split(str(refused.value))[-2:] == ["--data", text]


@pytest.mark.slow
def test_a_share_of_a_file_is_written_down_and_shown(here):
    (here / "c.yaml").write_text("validation: 0.2\nseeds: 7\n")
    main(["train", "--config", "c.yaml", *SMALL, "--out", "run"])
    recorded = json.loads(Path("run", FILE).read_text())["options"]
    assert (recorded["validation"], recorded["seeds"]) == (0.2, [7])
    begun = json.loads(Path("run/run.json").read_text())
    assert "numpy" in begun["environment"]
    main(["evaluate", "run", "--set", "device=cpu"])
    main(["report", "run"])
    assert "validation_share" in Path("run/report.html").read_text()


def test_a_run_resumed_without_its_options_quotes_its_command(here, capsys):
    began = ["--method", "SAM", "--epochs", "2", "--members", "2"]
    main(["train", *began, "--out", "run", *SMALL[4:], "stop_after=1"])
    begun = json.loads(Path("run/run.json").read_text())
    Path("run", FILE).unlink()
    with pytest.raises(SystemExit):
        main(["train", "--resume", "--out", "run", "--set", "device=cpu"])
    command = begun["environment"]["command"]
    assert f"it was started by: {command}" in capsys.readouterr().err
