"""A printed configuration does the same when it is read again, for every command."""

import io
import shlex
from functools import partial

import pytest

from tepui.cli.architecture import Architecture
from tepui.cli.main import build_parser, main, read
from tepui.cli.parsing import normalized, spelled, with_data_option, with_files_first
from tepui.cli.piped import LIMIT, piped

OWN = """
from dataclasses import dataclass
import torch
from torch import nn
from tepui.data import Arrays, Augmentation
from tepui.methods import SAM
from tepui.training import Cosine

class Net(nn.Module):
    def __init__(self, width: int = 3, num_classes: int = 2):
        super().__init__()

class Dots(Arrays):
    def __init__(self, count: int = 4, train: bool = True):
        super().__init__(torch.zeros(count, 1, 8, 8), torch.arange(count) % 2)

class Way(SAM):
    pass

class Wave(Cosine):
    pass

def make(num_classes=2):
    return Net(num_classes=num_classes)

def margin(logits, labels):
    return logits.mean()
"""
TRAINING = [
    *("--data", "own.Dots", "--data.count", "6", "--schedule", "own.Wave"),
    *("--schedule.final", "0.1", "--model", "own.Net", "--model.width", "5"),
    *("--optimizer", "AdamW", "--optimizer.lr", "0.01", "--augment", "HorizontalFlip"),
    *("--epochs", "3", "--prune.sparsity", "0.5", "--class-weights", "1", "2"),
]
STUDY = ["--retries", "5", "--slurm.minutes", "7", "--dry-run"]
SETS = ["--ood", "far=UniformNoise", "own=own.Dots", "--metrics", "own.margin"]
# What is asked of each command; several times, where that makes a difference.
CASES: dict[str, list[list[str]]] = {
    "train": [
        [*TRAINING, "--method", "own.Way", "--method.rho", "0.3"],
        [*("--method", "SharpBalance", "--method.base", "SAM"), "--loss", "MSE"],
        [*("--early_stopping.patience", "3", "--validation", "0.2"), "--resume"],
        ["--model", "own.make"],
    ],
    "compare": [
        [*TRAINING, *STUDY, *SETS, "--methods", "GSAM", "own.Way", "--seeds", "1", "2"],
        [
            "--methods",
            '[{"class_path": "own.Way", "init_args": {"rho": 0.3}}, '
            '{"class_path": "SAM", "init_args": {"rho": 0.2}}]',
        ],
        ["--methods", "GSAM", "own.Way", "--methods+", "SAM(rho=0.2)"],
        ["--methods", "GSAM", "--methods+", "SAM(rho=0.2)", "own.Way(rho=0.3)"],
    ],
    "evaluate": [
        ["run", *SETS, "--data", "ImageFolder", "--data.path", "photos"],
        ["a.pt", "b.pt", "--models", "own.Net", "own.make", "--rule", "vote"],
        ["run", "--shifted", "sketch=ImageFolder:somewhere", "--extractor", "own.Net"],
    ],
    "calibrate": [["run", "--coverage", "0.9", "--method", "vector", "--detectors"]],
    "predict": [["run", "photos.npy", "--probabilities"], ["run", "digits"]],
    "export": [["run", "--to", "torch", "--model", "own.make"]],
    "measure": [["a.pt", "b.pt", "--model", "own.Net", "--what", "sharpness"]],
    "corrupt": [["own.Dots", "--types", "fog", "snow", "--seed", "3"]],
    "report": [["runs/a", "runs/b", "--open"]],
    "data": [["fetch", "CIFAR10"], []],
    "theory": [["check", "--n", "7"]],
    "reproduce": [["sharpbalance/figure7a", "sharpbalance", *STUDY], ["own"]],
    "claims": [["--from", "elsewhere", "--json"]],
    "sweep": [
        ["sharpbalance/figure7a", "--grid", "rho=0.1,0.2", "fraction=0.4"],
        [*TRAINING, *STUDY, "--method", "own.Way", "--grid", "rho=0.1,0.2"],
        ["own.recipe", "--grid", "rho=0.1", "--executor", "ray", "--ray.address", "h"],
    ],
    "verify": [["runs/a"]],
    "doctor": [[]],
    "completion": [["zsh"], []],
}


def test_every_command_has_a_case():
    (subcommands,) = build_parser()._subparsers._group_actions
    assert CASES.keys() == subcommands.choices.keys()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "words"),
    [(command, words) for command, cases in CASES.items() for words in cases],
    ids=lambda value: value if isinstance(value, str) else " ".join(value)[:40],
)
def test_a_printed_configuration_does_the_same(
    command, words, tmp_path, monkeypatch, capsys
):
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SystemExit, match="0"):
        main([command, *words, "--print-config"])
    printed = capsys.readouterr().out
    (tmp_path / "FILE").write_text(printed)
    begins = printed.splitlines()[0]
    assert begins.startswith(f"# tepui {command} ")
    again = shlex.split(begins)[2:]
    if "own" not in " ".join(words) and "--ray.address" not in words:
        assert again == [command, "--config", "FILE"]
    assert asked(again) == asked([command, *words])
    for way in (["--config", "-"], ["--config=/dev/stdin"]):
        monkeypatch.setattr("sys.stdin", io.StringIO(printed))
        place = again.index("--config")
        assert asked([*again[:place], *way, *again[place + 2 :]]) == asked(again)


def test_a_file_alone_names_no_code_of_the_users_own(tmp_path, monkeypatch, capsys):
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SystemExit, match="0"):
        main(["train", *TRAINING, "--print-config"])
    (tmp_path / "FILE").write_text(capsys.readouterr().out)
    with pytest.raises(SystemExit, match="2"):
        main(["train", "--config", "FILE"])
    assert "got 'own." in capsys.readouterr().err


def test_a_pipe_has_an_end(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("#" * (LIMIT + 1)))
    with pytest.raises(SystemExit, match="2"):
        main(["train", "--config", "-"])
    assert "--config must have at most" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (b"", "--config must be written to the pipe by the command before it, got"),
        (b" \n", "--config must be written to the pipe by the command before it, got"),
        (b"\xff\xfe\x00", "--config must be text from a pipe, but:"),
    ],
)
def test_a_pipe_without_options_says_so(sent, message, monkeypatch, capsys):
    pipe = io.TextIOWrapper(io.BytesIO(sent), encoding="utf-8")
    monkeypatch.setattr("sys.stdin", pipe)
    with pytest.raises(SystemExit, match="2"):
        main(["train", "--config", "-"])
    assert message in capsys.readouterr().err


def asked(words):
    """Return which command is called with what, in a form that can be compared."""
    words = with_files_first(spelled(normalized(with_data_option(words))))
    with piped(words) as words:
        command, values = read(words)
    return command, {name: comparable(value) for name, value in values.items()}


def comparable(value):
    """Return a value whose parts, also those of functions, can be compared."""
    if isinstance(value, Architecture):
        return comparable(value.factory), value.free
    if isinstance(value, partial):
        return value.func, value.args, comparable(value.keywords)
    if isinstance(value, dict):
        return {name: comparable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [comparable(item) for item in value]
    return value
