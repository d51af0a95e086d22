"""Models and text from the command line."""

import json

import pytest

from refusals import refused
from tepui.cli.main import main

SHORT = ["--epochs", "1", "--members", "2", "--set", "progress=none"]


def configs(folder):
    written = json.loads((folder / "run.json").read_text())
    return [item["config"] for item in written["config"]["models"]]


@pytest.mark.slow
def test_what_is_written_of_a_model_stays(tmp_path, capsys):
    out = ["--out", str(tmp_path / "r")]
    assert "3 channels" in refused(
        ["train", "--model", "ResNet18(in_channels=3)", *SHORT, *out], capsys
    )
    config = tmp_path / "c.yaml"
    config.write_text("model: MLP(hidden=[4], num_classes=12)\n")
    main(["train", "--config", str(config), *SHORT, *out])
    expected = {"in_features": 64, "hidden": [4], "num_classes": 12}
    assert configs(tmp_path / "r")[0] == expected


def test_a_missing_extra_ends_in_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(__import__("sys").modules, "timm", None)
    options = ["--model", "from_timm(name=vit_tiny_patch16_224)"]
    error = refused(["train", *options, *SHORT, "--out", str(tmp_path / "r")], capsys)
    assert 'timm is not installed: pip install "tepui[vision]"' in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            "from_huggingface(name='some/body', trust_remote_code=True)",
            "trust_remote_code must be left out, since a model's code is never run",
        ),
        (
            "from_timm(name='local-dir:/tmp', pretrained=True)",
            "name must be in timm's own list of models",
        ),
    ],
)
def test_a_file_makes_no_library_run_code(model, message, tmp_path, capsys):
    config = tmp_path / "c.yaml"
    config.write_text(json.dumps({"model": model}))
    assert message in refused(
        ["train", "--config", str(config), *SHORT, "--out", str(tmp_path / "r")], capsys
    )


def test_an_argument_that_does_not_follow_from_the_data_is_asked_for(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "narrow.py").write_text(
        "from torch import nn\n\nclass Net(nn.Linear):\n"
        "    def __init__(self, inputs):\n        super().__init__(inputs, 10)\n"
    )
    assert "Net: missing a required argument: 'inputs'" in refused(
        ["train", "--model", "narrow.py:Net", *SHORT, "--out", "run"], capsys
    )
