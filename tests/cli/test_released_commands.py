"""The commands of docs/from_released_code.md, taken from the page.

They run on miniatures of CIFAR-100 and CIFAR-100-C in their own layouts, with a narrow
ResNet-18, for two epochs; only what makes them small is changed.
"""

import json
import re
import shlex

import numpy as np
import pytest
import torch
from torch import nn

from data_layouts import cifar100_binary, images_and_labels
from pages import ROOT, commands
from tepui.cli.main import build, main
from tepui.cli.settings import read_settings
from tepui.cli.values import Text
from tepui.core.spec import document
from tepui.data import CIFAR100, CORRUPTIONS
from tepui.ensembles.foreign_weights import ensemble_of
from tepui.evaluation import read_evaluation
from tepui.methods import SharpBalance
from tepui.models import MLP, ResNet18
from tepui.training.run_folder import RunFolder

pytestmark = pytest.mark.slow

FILE = ROOT / "docs/from_released_code.md"
PAGE = FILE.read_text()
COMMANDS = [line.removeprefix("tepui ") for line in commands(FILE)]
SMALLER = {
    "--epochs 200": "--epochs 2",
    "--samples 500": "--samples 5",
    "batch_size=128": "batch_size=20",
    "switch_at=100": "switch_at=0",
    "--model ResNet18": "--model 'ResNet18(width=2)'",
}
FILES = [f"seed_{seed}/checkpoint.pth.tar" for seed in (13, 17, 27)]


def miniature(line):
    for written, value in SMALLER.items():
        line = line.replace(written, value)
    further = "device=cpu progress=none" if line.startswith("train") else "device=cpu"
    return shlex.split(f"{line} --set {further}")


class Block(nn.Module):
    """A block with the names that the released code gives its parts."""

    def __init__(self, channels, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
        self.shortcut = nn.Sequential()
        if channels != width:
            self.shortcut.append(nn.Conv2d(channels, width, 1, stride, bias=False))
            self.shortcut.append(nn.BatchNorm2d(width))

    def forward(self, x):
        inner = self.bn1(self.conv1(x)).relu()
        return (self.bn2(self.conv2(inner)) + self.shortcut(x)).relu()


class Released(nn.Module):
    """ResNet-18 with the names that the released code gives its parts."""

    def __init__(self, width, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.layer1 = nn.Sequential(Block(width, width, 1), Block(width, width, 1))
        for stage in (2, 3, 4):
            wide = width * 2 ** (stage - 1)
            blocks = nn.Sequential(Block(wide // 2, wide, 2), Block(wide, wide, 1))
            setattr(self, f"layer{stage}", blocks)
        self.linear = nn.Linear(8 * width, classes)

    def forward(self, x):
        x = self.bn1(self.conv1(x)).relu()
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
        return self.linear(x.mean((2, 3)))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the data and weights that the page names, to run its commands."""
    folder = tmp_path_factory.mktemp("released")
    train, test = images_and_labels(40, 100), images_and_labels(8, 100, seed=1)
    cifar100_binary(folder / "data", *train, *test)
    corrupted = folder / "data" / "CIFAR-100-C"
    corrupted.mkdir()
    np.save(corrupted / "labels.npy", np.tile(test[1], 5))
    images = np.tile(test[0].transpose(0, 2, 3, 1), (5, 1, 1, 1))
    for number, name in enumerate([*CORRUPTIONS][:15]):
        np.save(corrupted / f"{name}.npy", images // (number + 1))
    for seed, file in enumerate(FILES):
        torch.manual_seed(seed)
        (folder / file).parent.mkdir()
        weights = {"model": "resnet18", "state_dict": Released(2, 100).state_dict()}
        torch.save({"epoch": 199, "best_acc": 0.8, **weights}, folder / file)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CIFAR100, "num_samples", {True: 40, False: 8})
        patch.chdir(folder)
        yield folder


@pytest.fixture(scope="module")
def ran(place):
    """The folder after all commands of the page, in their order."""
    for line in COMMANDS:
        main(miniature(line))
    return place


def test_the_page_has_commands_that_train_evaluate_and_measure():
    jobs = ["train", "train", "train", "evaluate", "measure", "measure"]
    assert [line.split()[0] for line in COMMANDS] == jobs
    assert all(any(part in line for line in COMMANDS) for part in SMALLER)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["deep_ensemble", "sam", "sharpbalance"])
def test_training_commands_train_as_the_released_code(name, ran):
    config = json.loads((ran / "runs" / name / "run.json").read_text())["config"]
    assert config["seeds"] == [13, 17, 27]
    assert config["data"]["samples"] == 36
    assert config["schedule"]["class"] == "MultiStep"
    assert config["schedule"]["milestones"] == [0.5, 0.75]
    augmented = [each["class"] for each in config["augment"]]
    assert augmented == ["RandomCrop", "HorizontalFlip"]
    assert len((ran / "runs" / name / "metrics.jsonl").read_text().splitlines()) == 2


def test_sharpbalance_runs_by_the_released_rule(ran):
    config = json.loads((ran / "runs/sharpbalance/run.json").read_text())["config"]
    released = SharpBalance.released("cifar100", rho=0.2, switch_at=0)
    assert config["method"] == document(released)
    assert RunFolder(ran / "runs/sharpbalance").outcome().summary


def test_diversity_is_that_of_clean_and_corrupted_data(ran):
    found = read_evaluation(ran / "runs/sam")
    assert len(found["cells"]) == 15 * 5
    for scores in (found["clean"], found["shifted"]):
        assert {"der", "disagreement", "logit_variance", "mean_kl"} <= set(scores)


def test_sharpness_has_the_released_modes(ran):
    found = json.loads((ran / "runs/sam_sharpness/measure.json").read_text())
    modes = {"worst_case", "average_case", "fisher_trace", "hessian_trace"}
    assert modes <= set(found["sharpness"])
    assert len(found["sharpness"]["worst_case"]["members"]) == 3


def test_weights_of_the_released_code_answer_as_there(ran):
    test = CIFAR100("data", train=False)
    images = test.prepare(test.inputs)
    files = [ran / file for file in FILES]
    members = ensemble_of(files, lambda: ResNet18(width=2, num_classes=100)).members
    found = json.loads((ran / "runs/released/measure.json").read_text())["diversity"]
    accuracies = []
    for file, member in zip(files, members, strict=True):
        network = Released(2, 100).eval()
        network.load_state_dict(torch.load(file, weights_only=True)["state_dict"])
        logits = network(images).detach()
        own = member.eval()(images).detach()
        torch.testing.assert_close(own, logits, rtol=1e-4, atol=1e-4)
        accuracies.append(float((logits.argmax(1) == test.targets).float().mean()))
    assert found["member_accuracies"] == pytest.approx(accuracies)


def table(heading):
    """Return the rows of the table under a heading of the page."""
    text = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in text.splitlines() if line[:1] == "|"]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def options(heading):
    """Return the options in tepui's columns of a table, each once."""
    cells = [cell for row in table(heading) for cell in row[1:]]
    return sorted({code for cell in cells for code in re.findall("`(--[^`]+)`", cell)})


def arguments(heading):
    """Return the arguments of methods in tepui's columns of a table, each once."""
    cells = [cell for row in table(heading) for cell in row[1:]]
    return sorted({code for cell in cells for code in re.findall(r"`(\w+=\w+)`", cell)})


def taken(command, words):
    """Return whether the command line takes some words, with the values they name."""
    _, bound, *_ = build().parse_args(
        [*command, *words], exit_on_error=False, print_error=False
    )
    values = dict(bound.arguments)
    read_settings(command[0], values.pop("set", None))
    return [value.read() for value in values.values() if isinstance(value, Text)]


@pytest.mark.parametrize("option", options("Flags of `main.py`"))
def test_every_option_of_training_is_taken(option):
    lacking = {"--validation": "0.1", "--resume": "--out DIR --epochs 200"}
    taken(["train"], shlex.split(f"{option} {lacking.get(option, '')}"))


@pytest.mark.parametrize("code", arguments("Flags of `main.py`"))
def test_every_argument_of_methods_is_taken(code):
    method = "SAM" if "statistics" in code else "SharpBalance"
    (found,) = taken(["train"], ["--method", f"{method}({code})"])
    name, _, value = code.partition("=")
    assert str(getattr(found, name)) == value


@pytest.mark.parametrize("option", ["--rho 0.5", "--samples 500", "--seed 13"])
def test_every_option_of_measuring_is_taken(option):
    assert option in options("Flags of the measuring scripts")
    taken(["measure", "runs/sam"], shlex.split(option))


def test_further_measures_are_named_by_their_paths(tmp_path):
    flags = options("Flags of the measuring scripts")
    (option,) = [each for each in flags if each.startswith("--measures tepui.")]
    file, out = str(tmp_path / "a.pt"), tmp_path / "out"
    torch.save(MLP(hidden=(4,)).state_dict(), file)
    small = ["--model", "MLP(hidden=[4])", "--samples", "5"]
    where = ["--data", "Digits", "--what", "sharpness", "--out", str(out)]
    main(["measure", file, *small, *where, *shlex.split(option)])
    found = json.loads((out / "measure.json").read_text())["sharpness"]
    assert {"hessian_eigenvalues", "ntk_logdet"} <= set(found)
