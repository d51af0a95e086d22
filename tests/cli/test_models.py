"""Models and text from the command line."""

import json

import pytest

from data.mrpc_files import write
from tepui.cli.main import main

SHORT = ["--epochs", "1", "--members", "2", "--quiet"]


def configs(folder):
    written = json.loads((folder / "run.json").read_text())
    return [item["config"] for item in written["config"]["models"]]


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        (
            "ResNet18",
            ["--model.width", "2", "--model.in_channels", "1"],
            {"num_classes": 10, "in_channels": 1, "width": 2, "stem": "32px"},
        ),
        (
            "ViTTiny",
            ["--model.in_channels=1", "--model.image_size=8", "--model.depth=1"],
            {"num_classes": 10, "in_channels": 1, "patch_size": 4},
        ),
        (
            "WideResNet40x2",
            ["--model.in_channels", "1", "--model.width", "1"],
            {"num_classes": 10, "width": 1},
        ),
    ],
)
def test_models_train_by_name(tmp_path, name, options, expected):
    batch = ["--batch-size", "512"]
    main(
        [
            "train",
            "--model",
            name,
            *options,
            *SHORT,
            *batch,
            "--out",
            str(tmp_path / "r"),
        ]
    )
    for config in configs(tmp_path / "r"):
        assert expected.items() <= config.items()


def test_a_named_model_keeps_its_own_defaults(tmp_path, capsys):
    out = ["--out", str(tmp_path / "r")]
    with pytest.raises(SystemExit):
        main(["train", "--model", "ResNet18", *SHORT, *out])
    assert "3 channels" in capsys.readouterr().err
    config = tmp_path / "c.yaml"
    config.write_text("model: {class_path: MLP, init_args: {hidden: [4]}}\n")
    main(["train", "--config", str(config), *SHORT, *out])
    assert configs(tmp_path / "r")[0]["in_features"] == 64


def test_options_of_the_default_model_need_no_name(tmp_path):
    main(["train", "--model.width", "3", *SHORT, "--out", str(tmp_path / "r")])
    assert configs(tmp_path / "r")[0] == {
        "num_classes": 10,
        "in_channels": 1,
        "width": 3,
    }


def test_a_missing_extra_ends_in_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(__import__("sys").modules, "timm", None)
    options = ["--model", "timm", "--model.name", "vit_tiny_patch16_224"]
    with pytest.raises(SystemExit):
        main(["train", *options, *SHORT, "--out", str(tmp_path / "r")])
    error = capsys.readouterr().err
    assert 'timm is not installed: pip install "tepui[vision]"' in error
    assert "Traceback" not in error


def test_the_text_run(tmp_path, capsys):
    write(tmp_path)
    data = ["--data", "MRPC", "--data.root", str(tmp_path), "--data.length", "24"]
    sizes = {"embedding": 4, "width": 8, "depth": 1, "heads": 2, "length": 24}
    model = [word for name, n in sizes.items() for word in (f"--model.{name}", str(n))]
    method = ["--method", "SharpBalance", "--method.switch_epoch", "0"]
    optimizer = ["--optimizer", "AdamW", "--optimizer.lr", "0.001"]
    out = tmp_path / "run"
    batch = ["--batch-size", "512"]
    words = [*data, "--model", "Albert", *model, *method, *optimizer, *SHORT, *batch]
    main(["train", *words, "--out", str(out)])
    assert configs(out)[0]["num_classes"] == 2
    main(["evaluate", str(out), *data, "--corruptions", "none"])
    report = json.loads((out / "evaluation.json").read_text())
    assert report["samples"] == 408
    assert report["clean"]["accuracy"] > 0.3
    with pytest.raises(SystemExit):
        main(["evaluate", str(out), *data, "--overwrite"])
    assert "dataset must hold images" in capsys.readouterr().err
