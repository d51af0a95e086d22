"""The six commands of the released README, as docs/from_released_code.md maps them.

They run on a miniature of CIFAR-100 in its own layout, with a narrow ResNet-18, for one
or two epochs.
"""

import json

import pytest
import torch

from data_layouts import cifar100_binary, images_and_labels
from tepui.cli.main import main
from tepui.data import CIFAR100

SMALL = ["--model", "ResNet18", "--model.width", "2", "--model.num_classes", "100"]
TRAINING = ["--epochs", "2", "--batch-size", "20", "--quiet", "--device", "cpu"]


@pytest.fixture(scope="module", autouse=True)
def small_files():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tepui.data.cifar.ROWS_PER_FILE", 8)
        yield


@pytest.fixture(scope="module")
def root(tmp_path_factory, small_files):
    folder = tmp_path_factory.mktemp("cifar100")
    train, test = images_and_labels(40, 100), images_and_labels(8, 100, seed=1)
    cifar100_binary(folder, *train, *test)
    return folder


@pytest.fixture(scope="module")
def runs(root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    data = ["--data", "CIFAR100", "--data.root", str(root)]
    methods = {
        "deep_ensemble": ["--seeds", "13 17 27"],
        "sam": ["--seeds", "13", "17", "27", "--method", "SAM", "--method.rho", "0.2"],
        "sharpbalance": [
            "--seeds",
            "13 17 27",
            "--method",
            "SharpBalance",
            "--method.rho",
            "0.2",
            "--method.fraction",
            "0.5",
            "--method.switch_epoch",
            "1",
        ],
    }
    for name, words in methods.items():
        out = ["--out", str(folder / name)]
        main(["train", *data, *SMALL, *words, *TRAINING, *out])
    return folder


@pytest.mark.parametrize("name", ["deep_ensemble", "sam", "sharpbalance"])
def test_training_commands_train_three_seeds(name, runs):
    document = json.loads((runs / name / "run.json").read_text())
    assert document["config"]["seeds"] == [13, 17, 27]
    assert len((runs / name / "metrics.jsonl").read_text().splitlines()) == 2


def test_sharpbalance_switched_and_has_its_sets(runs):
    assert json.loads((runs / "sharpbalance" / "method.json").read_text())


@pytest.mark.parametrize(
    ("what", "found"),
    [("diversity", ("der", "variance")), ("sharpness", ("worst_case",))],
)
def test_measuring_commands(what, found, runs, root, tmp_path):
    data = ["--data", "CIFAR100", "--data.root", str(root)]
    words = [str(runs / "sam"), *data, "--what", what, "--samples", "10"]
    main(["measure", *words, "--out", str(tmp_path / "out"), "--device", "cpu"])
    files = (tmp_path / "out").glob("*.json")
    text = "".join(file.read_text() for file in files)
    assert all(f'"{name}"' in text for name in found)


def test_weights_of_the_released_code_are_measured(root, tmp_path):
    from tepui.models import ResNet18

    files = []
    for seed in (13, 17):
        torch.manual_seed(seed)
        files.append(tmp_path / f"model_{seed}.pt")
        torch.save(ResNet18(num_classes=100, width=2).state_dict(), files[-1])
    data = ["--data", "CIFAR100", "--data.root", str(root)]
    words = [*map(str, files), *data, *SMALL, "--what", "diversity", "--device", "cpu"]
    main(["measure", *words, "--out", str(tmp_path / "out")])
    assert "der" in next((tmp_path / "out").glob("*.json")).read_text()


def test_the_miniature_is_read_as_the_real_set(root):
    assert len(CIFAR100(root)) == 40
