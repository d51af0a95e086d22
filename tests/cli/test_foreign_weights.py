"""Weights of other programs, from their files to a report, by commands alone."""

import sys
from itertools import count

import pytest
import torch
from torch import nn

import tepui
from refusals import refused
from tepui.cli.main import main
from tepui.data import Digits
from tepui.models import ConvNet

GUEST = """
from functools import partial
from torch import nn

class Deep(nn.Module):
    def __init__(self, num_classes=10):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        self.head = nn.Linear(144, num_classes)

    def forward(self, x):
        return self.head(self.body(x).flatten(1))

def linear(num_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))

def wide(width, num_classes=10):
    layers = nn.Flatten(), nn.Linear(64, width), nn.ReLU()
    return nn.Sequential(*layers, nn.Linear(width, num_classes))

twelve_wide = partial(wide, 12)
"""
NUMBERS = count()


@pytest.fixture
def guest(tmp_path, monkeypatch):
    name = f"architectures{next(NUMBERS)}"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / f"{name}.py").write_text(GUEST)
    return __import__(name)


def trained(net):
    """A network that has learned a little, its running statistics too."""
    data = Digits()
    x, y = data.prepare(data.raw(torch.arange(200))), data.targets[:200]
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(30):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    return net.eval()


def test_a_data_set_of_ones_own_is_remembered_in_words_alone(guest, tmp_path, capsys):
    (tmp_path / "own_digits.py").write_text(
        "from tepui.data import Digits\n\nclass Own(Digits.__base__):\n"
        "    def __init__(self, train: bool = True):\n"
        "        held = Digits(train=train)\n"
        "        super().__init__(held.inputs, held.targets, held.normalize)\n"
    )
    torch.save(ConvNet().state_dict(), "a.pt")
    words = ["--data", "own_digits.Own", "--corruptions", "none", "--out", "foreign"]
    main(["evaluate", "a.pt", "--model", "ConvNet", *words])
    said = refused(["export", "foreign", "--to", "torch", "--out", "graph.pt2"], capsys)
    assert "since foreign belongs to a data set of your own: --data own_digits.Own" in (
        said
    )


def test_weights_do_not_replace_a_run(guest, tmp_path, capsys):
    torch.save(ConvNet().state_dict(), "a.pt")
    main(["train", "--epochs", "1", "--members", "1", "--out", "run"])
    before = (tmp_path / "run/ensemble.safetensors").read_bytes()
    assert "--out must be another folder than a run's" in refused(
        ["evaluate", "a.pt", "--model", "ConvNet", "--out", "run", "--overwrite"],
        capsys,
    )
    assert (tmp_path / "run/ensemble.safetensors").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "ConvNet", "MLP"], "--model must be one or 1, got 2"),
        (["--model", "ConvNat"], "model must be one of"),
        (["--model", "nowhere.Net"], "model must name what can be imported"),
        (["--model", "tepui.models"], "model must be a class derived from Module"),
        ([], "--model must be given to read files of weights"),
    ],
)
def test_what_does_not_fit_is_said(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    torch.save(ConvNet().state_dict(), "a.pt")
    assert message in refused(
        ["evaluate", "a.pt", "--data", "Digits", "--corruptions", "none", *words],
        capsys,
    )
    assert not (tmp_path / "runs").exists()


def test_weights_do_not_say_what_they_were_trained_on(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    torch.save(ConvNet().state_dict(), "a.pt")
    for words in (["evaluate"], ["evaluate", "--out", "runs/a"], ["measure"]):
        with pytest.raises(SystemExit):
            main([*words, "a.pt", "--model", "ConvNet"])
        told = "since nothing says what members were trained on"
        assert f"data must be given, {told}" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_a_run_is_evaluated_in_its_own_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tepui.Ensemble.build(ConvNet, members=2).save("mine")
    assert "--out must be left out for a run" in refused(
        ["evaluate", "mine", "--out", "elsewhere"], capsys
    )
