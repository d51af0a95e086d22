"""Weights of other programs, from their files to a report, by commands alone."""

import pytest
import torch

import tepui
from refusals import refused
from tepui.cli.main import main
from tepui.models import ConvNet


def test_a_data_set_of_ones_own_is_remembered_in_words_alone(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
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


def test_weights_do_not_replace_a_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
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
        said = capsys.readouterr().err
        assert "data must be given, since" in said
        assert "was trained on unknown data" in said
    assert not (tmp_path / "runs").exists()


def test_a_run_is_evaluated_in_its_own_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tepui.Ensemble.build(ConvNet, members=2).save("mine")
    assert "--out must be left out for a run" in refused(
        ["evaluate", "mine", "--out", "elsewhere"], capsys
    )
