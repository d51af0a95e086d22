"""Choosing hyperparameters on the command line."""

import pytest

from data_layouts import picture
from refusals import refused
from tepui.cli.main import main
from tepui.data import Digits
from tepui.methods import SAM
from tepui.models import MLP
from tepui.studies import Record, read_results, search, verify
from tepui.studies.specifications import Samples, Trial
from tepui.studies.sweep import Outcome, Row, records_of
from tepui.training import TrainingSpec


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


OWN = ["sweep", "--data", "Digits", "--model", "MLP(hidden=[8])", "--method", "SAM"]
OWN += ["--epochs", "1", "--members", "2", "--workers", "1"]


def test_a_sweep_writes_what_it_chose(place, capsys):
    words = [*OWN, "--grid", "rho=0.05,0.2", "lr=0.1,1e30"]
    words += ["--loss", "CrossEntropy(class_weights=[1, 1, 1, 1, 1, 1, 1, 1, 1, 2])"]
    words += ["--set", "batch_size=256", "schedule=Cosine(warmup=1)"]
    main([*words, "--ensembles", "2"])
    shown = capsys.readouterr().out
    assert counts(shown)[:4] == ["8", "0", "16", "32"]
    assert shown.count("diverged") == 2
    folder = place / "sweeps" / "Digits-MLP-SAM" / "lr+rho"
    written = read_results(folder)
    assert written.settings["grid"] == {"rho": [0.05, 0.2], "lr": [0.1, 1e30]}
    cells, losses = (written.find(metric=name) for name in ("accuracy", "nll"))
    assert [cell.at for cell in cells] == [
        {"rho": rho, "lr": rate} for rho in (0.05, 0.2) for rate in (0.1, 1e30)
    ]
    assert [cell.n for cell in cells] == [2, 0, 2, 0]
    assert cells[1].values == (None, None)
    assert {cells[1].note, cells[3].note} == {"diverged"}
    pairs = [*zip(cells[::2], losses[::2], strict=True)]
    best, _ = max(pairs, key=lambda pair: (pair[0].value, -pair[1].value))
    assert written.settings["chosen"] == best.at
    assert [cell for cell in cells if cell.note == "chosen"] == [best]
    assert not [each for each in verify(folder) if each.damage]
    base = written.settings["trial"]
    training = base["training"]
    assert training["batch_size"] == 256
    assert training["schedule"]["warmup"] == 1
    assert training["loss"]["class_weights"] == [*[1.0] * 9, 2.0]
    assert base["model"]["hidden"] == [8]
    assert "exists; pass overwrite" in refused(words, capsys)


def test_a_plan_says_what_is_left_and_how_long_it_takes(place, capsys):
    words = [*OWN, "--grid", "rho=0.05,0.2"]
    main(words)
    capsys.readouterr()
    main([*words, "--dry-run"])
    assert counts(capsys.readouterr().out) == ["2", "2", "0", "0", "0"]
    main([*words, "--ensembles", "2", "--dry-run"])
    found = counts(capsys.readouterr().out)
    assert found[:4] == ["4", "2", "4", "8"]  # two members of SAM for an epoch, twice
    assert float(found[4]) >= 0


def counts(shown):
    """Return what a plan counts: ensembles, trained ones, and what is left."""
    row = next(line for line in shown.splitlines() if line.startswith("│"))
    return [cell.strip() for cell in row.split("│")[2:-1]]


def test_a_missing_likelihood_and_members_are_written():
    how = TrainingSpec(method=SAM(), epochs=1)
    trial = Trial(Samples(Digits), MLP, how, seeds=(0,))
    planned = search([trial], {"members": [1]})
    scores = {"accuracy": (0.5,), "individual_accuracy": (0.5,), "nll": (None,)}
    row = Row({"members": 1}, scores)
    found = [Record.of(r.document()) for r in records_of(planned, Outcome((row,), row))]
    assert [record.value for record in found] == [0.5, 0.5, None]
    assert {record.at["num_members"] for record in found} == {1}


def test_data_that_changed_are_trained_on_again(place, capsys):
    for name in ("ant", "bee"):
        for image in range(10):
            picture(place / "photos" / name / f"{image}.png", size=(8, 8))
    words = ["sweep", "--data", "ImageFolder(path=photos)", "--epochs", "1"]
    words += ["--members", "1", "--grid", "lr=0.1,0.2", "--workers", "1"]
    main(words)
    picture(place / "photos" / "ant" / "new.png", size=(8, 8))
    capsys.readouterr()
    main([*words, "--dry-run"])
    assert counts(capsys.readouterr().out)[:2] == ["2", "0"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*OWN], "--grid"),
        ([*OWN, "--grid", "rho"], "be written NAME=VALUE"),
        ([*OWN, "--grid", "rho=0.1,"], "be written NAME=VALUE"),
        ([*OWN, "--grid", "rho=1", "rho=2"], "each hyperparameter once"),
        ([*OWN, "--grid", "rho=NaN"], "rho must be float for SAM"),
        ([*OWN, "--grid", "rhoo=1"], "did you mean 'rho'"),
        ([*OWN, "--grid", "alpha=1"], "grid must be one of"),
        ([*OWN, "--grid", "lr=0.1", "--ensembles", "0"], "ensembles must be positive"),
        ([*OWN[:5], "--method", "A2D", "--grid", "lr=0.1"], "needs no unlabeled data"),
    ],
)
def test_mistakes_are_named_before_anything_is_trained(words, message, place, capsys):
    assert message in refused(words, capsys)
    assert not any(place.iterdir())
