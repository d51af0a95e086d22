"""Weights of other programs, from their files to a report, by commands alone."""

import re
import sys
from copy import deepcopy
from itertools import count

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import tepui
from refusals import refused
from tepui.cli.main import main
from tepui.core.storage import read_document
from tepui.data import Digits
from tepui.evaluation import read_evaluation
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


def named(state, *words):
    return {".".join([*words, name]): tensor for name, tensor in state.items()}


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


def write_dialects(nets, folder):
    """Write five networks, each as another program would."""
    lightning, deep, linear, wide, hugging = (net.state_dict() for net in nets)
    old = {n: t for n, t in deep.items() if not n.endswith("num_batches_tracked")}
    torch.save(
        {
            "state_dict": named(lightning, "model"),
            "pytorch-lightning_version": "2.6.6",
            "hyper_parameters": {"lr": 0.1},
        },
        folder / "lightning.ckpt",
    )
    torch.save({"model": named(old, "module"), "epoch": 9}, folder / "parallel.pth")
    torch.save(named(linear, "_orig_mod"), folder / "compiled.pt")
    save_file(wide, folder / "plain.safetensors")
    (folder / "trainer").mkdir()
    save_file(hugging, folder / "trainer" / "model.safetensors")
    files = ("lightning.ckpt", "parallel.pth", "compiled.pt", "plain.safetensors")
    return [*files, "trainer"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:member")
def test_five_dialects_and_four_architectures_from_files_to_a_report(
    guest, tmp_path, capsys
):
    torch.manual_seed(0)
    names = ["ConvNet", "Deep", "linear", "twelve_wide", "twelve_wide"]
    factories = [ConvNet, guest.Deep, lambda: guest.linear(10)]
    factories += [guest.twelve_wide] * 2
    nets = [trained(make()) for make in factories]
    files = write_dialects(nets, tmp_path)
    models = [n if n == "ConvNet" else f"{guest.__name__}.{n}" for n in names]
    words = [*files, "--model", *models, "--data", "Digits"]

    main(["evaluate", *words, "--corruptions", "none", "--out", "runs/foreign"])
    found = read_evaluation(tmp_path / "runs/foreign")
    test = Digits(train=False)
    expected = tepui.evaluate(tepui.Ensemble(nets), test)
    assert found["clean"] == expected.clean.document()
    assert found["members"] == 5
    assert min(found["clean"]["member_accuracies"]) > 0.3

    main(["measure", *words, "--samples", "20", "--out", "runs/measured"])
    measured = read_document(tmp_path / "runs/measured/measure.json", "measures")
    assert measured["diversity"] == found["clean"]
    assert len(measured["sharpness"]["fisher_rao"]["members"]) == 5

    # What was saved is an ensemble like any other, and knows its data.
    again = ["--model", *models]
    main(["evaluate", "runs/foreign", *again, "--corruptions", "none", "--overwrite"])
    repeated = read_evaluation(tmp_path / "runs/foreign")
    assert repeated["clean"] == found["clean"]
    main(["predict", "runs/foreign", *again, "--out", "said.csv"])
    assert len((tmp_path / "said.csv").read_text().splitlines()) == len(test) + 1
    main(["report", "runs/foreign", "--out", "report"])
    assert "Traceback" not in capsys.readouterr().err
    page = (tmp_path / "report/report.html").read_text()
    assert "<h1>Evaluation in foreign</h1>" in page
    assert re.search(r"runs/foreign</th><th[^>]*>Digits<", page)
    assert "Written by tepui." in page  # a version is not recorded
    main(["calibrate", "runs/foreign", *again, "--held-out", "test", "--detectors"])
    assert tepui.load("runs/foreign", factories).calibration is not None

    # Other weights in its place: what was learned of these is gone.
    fewer = [
        files[0],
        "--model",
        "ConvNet",
        "--data",
        "Digits",
        "--corruptions",
        "none",
    ]
    main(["evaluate", *fewer, "--out", "runs/foreign", "--overwrite"])
    assert tepui.load("runs/foreign").calibration is None
    assert not (tmp_path / "runs/foreign/detectors.safetensors").exists()


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


@pytest.mark.parametrize("name", ["linear", "twelve_wide", "Deep"])
def test_any_callable_by_its_path_is_a_model(guest, tmp_path, name):
    words = ["--model", f"{guest.__name__}.{name}", "--epochs", "1"]
    main(["train", *words, "--members", "2", "--out", "run"])
    factory = getattr(guest, name)
    made = factory(10) if name == "linear" else factory()
    loaded = tepui.load(tmp_path / "run", lambda: deepcopy(made))
    assert len(loaded) == 2


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
        assert f"--data must be given, {told}" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_a_run_is_evaluated_in_its_own_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tepui.Ensemble.build(ConvNet, members=2).save("mine")
    assert "--out must be left out for a run" in refused(
        ["evaluate", "mine", "--out", "elsewhere"], capsys
    )
