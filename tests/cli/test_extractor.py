"""Heads on the frozen extractor of an earlier run, from the command line."""

import sys

import pytest
import torch

import tepui
from refusals import refused
from tepui.cli.main import main
from tepui.core.storage import same_bits
from tepui.data import Digits, split
from tepui.evaluation import read_evaluation
from tepui.methods import DeepEnsemble
from tepui.models import split_last_layers
from tepui.modules.features import features_of

SHORT = ["--epochs", "2", "--set", "progress=none", "device=cpu"]
NOISE = ["--set", "unlabeled=UniformNoise(shape=[1, 8, 8], num_samples=60)"]


@pytest.fixture(scope="module")
def body(tmp_path_factory):
    out = tmp_path_factory.mktemp("body") / "run"
    words = ["--model", "ConvNet(width=4)", "--members", "1", "--out", str(out)]
    main(["train", *words, *SHORT])
    return out


def trained(body, out, *options):
    words = ["--extractor", str(body), "--members", "3", *SHORT, *options]
    main(["train", *words, "--out", str(out)])
    return tepui.load(out)


def test_heads_are_those_that_are_trained_on_features(body, tmp_path):
    ensemble = trained(body, tmp_path / "run", "--seeds", "3")
    split = split_last_layers(tepui.load(body).members[0])
    expected = tepui.Ensemble.on_features(
        split.extractor, lambda: split.tail(fresh=True), members=3, seed=3
    )
    tepui.fit(
        expected.heads,
        features_of(split.extractor, Digits()),
        method=DeepEnsemble(),
        epochs=2,
        batch_size=64,
        loss=tepui.losses.CrossEntropy(0.0),
        schedule=tepui.Cosine(),
        device="cpu",
        progress="none",
    )
    assert same_bits(ensemble.state_dict(), expected.state_dict())
    assert len(list((tmp_path / "run" / "features").iterdir())) == 1


def test_a_run_is_resumed_and_never_replaced(body, tmp_path, capsys):
    out = tmp_path / "run"
    first = trained(body, out)
    again = trained(body, out, "--resume")
    pairs = zip(first.parameters(), again.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    with pytest.raises(SystemExit):
        trained(body, out)
    assert f"{out} is not empty; pass --resume" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        trained(body, body)
    assert "is not empty" in capsys.readouterr().err


def test_random_changes_of_images_are_refused(body, tmp_path, capsys):
    with pytest.raises(SystemExit):
        trained(body, tmp_path / "run", "--augment", "RandomCrop")
    assert "--augment must be left out with --extractor" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    with pytest.raises(SystemExit):
        compared(body, tmp_path / "run", "--set", "augment=[RandomCrop]")
    assert (
        "augment must be left out when there is an extractor" in capsys.readouterr().err
    )


def compared(body, out, *options):
    words = ["--members", "2", "--ensembles", "1", *SHORT, f"extractor={body}"]
    words += ["--methods", "DeepEnsemble", "A2D", *NOISE, "corruptions=none"]
    main(["compare", *words, "sharpness=5", *options, "--out", str(out)])


GUEST = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, num_classes=10):
        super().__init__()
        self.head = nn.Linear(12, num_classes)
        self.body = nn.Linear(64, 12)

    def forward(self, x):
        return self.head(torch.relu(self.body(x.flatten(1))))

def body():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU())
"""


@pytest.fixture(scope="module")
def guest(tmp_path_factory):
    """A module of the user's own, and a run of its model."""
    folder = tmp_path_factory.mktemp("guest")
    (folder / "own_bodies.py").write_text(GUEST)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        model = ["--model", "own_bodies.Net", "--members", "1", *SHORT]
        main(["train", *model, "--out", str(folder / "run")])
        yield folder / "run"


def test_heads_on_what_a_function_returns(guest, tmp_path, capsys):
    out = tmp_path / "run"
    main(["train", "--extractor", "own_bodies.body", *SHORT, "--out", str(out)])
    main(["evaluate", str(out), "--extractor", "own_bodies.body", *FLAT])
    found = read_evaluation(out)
    assert found["clean"]["accuracy"] > 0.5
    assert "extractor must be given" in refused(
        ["evaluate", str(out), "--overwrite", *FLAT], capsys
    )


FLAT = ["--corruptions", "none"]


def test_heads_are_calibrated_on_what_their_run_held_out(guest, tmp_path, capsys):
    out, own = tmp_path / "run", ["--extractor", "own_bodies.body"]
    main(["train", *own, *SHORT, "--validation", "0.2", "--out", str(out)])
    before = tepui.load(out, extractor=_body)
    main(["calibrate", str(out), *own])
    assert "calibration on 287 samples" in " ".join(capsys.readouterr().out.split())
    _, held = split(Digits(), 0.2, seed=0)
    before.calibrate(held)
    after, test = tepui.load(out, extractor=_body), Digits(train=False)
    assert torch.equal(after.predict(test).probs, before.predict(test).probs)


def _body():
    import own_bodies

    return own_bodies.body()


def test_a_file_of_options_names_no_factory(guest, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "own_bodies", raising=False)
    (tmp_path / "c.yaml").write_text("extractor: own_bodies.body\n")
    assert "type the path of your own code instead" in refused(
        ["train", "--config", "c.yaml", *SHORT], capsys
    )
    assert "own_bodies" not in sys.modules


def test_an_extractor_that_is_nowhere_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for named, message in (
        ("nowhere.Body", "model must name what can be imported, got 'nowhere.Body'"),
        (str(tmp_path / "nothing"), "extractor must name a folder with a run"),
    ):
        with pytest.raises(SystemExit):
            main(["train", "--extractor", named, *SHORT])
        assert message in capsys.readouterr().err
