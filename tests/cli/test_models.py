"""Models and text from the command line."""

import json

import numpy as np
import pytest
import torch

from refusals import refused
from tepui.cli.main import main
from tepui.models import ConvNet

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
    with pytest.warns(UserWarning, match="12 outputs and the data 10 classes"):
        main(["train", "--config", str(config), *SHORT, *out])
    expected = {"in_features": 64, "hidden": [4], "num_classes": 12}
    assert configs(tmp_path / "r")[0] == expected


def test_weights_are_measured_in_a_model_that_fits_the_data(tmp_path):
    x, y = torch.rand(30, 3, 8, 8), torch.arange(30) % 4
    arrays = {
        f"{kind}_{part}": value.numpy()
        for part in ("train", "test")
        for kind, value in (("x", x.permute(0, 2, 3, 1)), ("y", y))
    }
    np.savez(tmp_path / "mine.npz", **arrays)
    net = ConvNet(num_classes=4, in_channels=3)
    torch.save(net.state_dict(), tmp_path / "a.pt")
    data = ["--data", f"ArrayFile(path={tmp_path / 'mine.npz'})"]
    words = ["--model", "ConvNet", "--what", "diversity", "--out", str(tmp_path / "m")]
    main(["measure", str(tmp_path / "a.pt"), *data, *words])
    found = json.loads((tmp_path / "m" / "measure.json").read_text())
    net.eval()
    expected = (net(x).argmax(1) == y).float().mean()
    assert found["diversity"]["accuracy"] == pytest.approx(float(expected))


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


def test_labels_of_a_file_that_count_from_one_are_refused(tmp_path, capsys):
    x, y = np.random.default_rng(0).normal(size=(12, 4)), np.arange(12) % 3 + 1
    file = tmp_path / "mine.npz"
    np.savez(file, x_train=x, y_train=y, x_test=x, y_test=y)
    words = ["train", "--data", f"ArrayFile(path={file})", *SHORT]
    said = refused([*words, "--out", tmp_path / "run"], capsys)
    assert "labels count from 0: subtract 1 from all of them" in said
    assert not (tmp_path / "run").exists()
