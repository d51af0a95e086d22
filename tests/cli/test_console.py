"""Names of files and classes command neither a terminal nor a page."""

import re
from functools import partial
from pathlib import Path

import pytest
import torch

import tepui
from refusals import refused
from tepui.cli.console import console, table
from tepui.cli.main import main

NAME = "\x1b[2J\x07evil\x9b"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def test_what_is_printed_holds_no_control_characters(capsys):
    console().print(f"a {NAME}\nb")
    console().print(table(NAME, [NAME], [[NAME], ["b"]]))
    printed = capsys.readouterr().out
    assert printed.count("evil") == 4
    assert "\nb" in printed
    assert not CONTROL.search(printed)


def test_errors_and_warnings_hold_none_either(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path(f"{NAME}.npy").touch()
    for words in (["report", NAME], ["train", "--data", f"Table(path={NAME}.csv)"]):
        assert not CONTROL.search(refused(words, capsys))


@pytest.mark.filterwarnings("ignore:temperature")
def test_names_of_classes_reach_no_terminal_and_no_page(tmp_path, capsys):
    labels = torch.arange(60) % 2
    data = tepui.data.Arrays(torch.randn(60, 3), labels, classes=(NAME, "b"))
    net = partial(tepui.models.MLP, 3, num_classes=2)
    ensemble = tepui.Ensemble.build(net, members=2, seed=0)
    how = {"method": tepui.methods.DeepEnsemble(), "epochs": 1, "progress": "none"}
    tepui.fit(ensemble, data, out=tmp_path / "run", **how)
    tepui.Run.open(tmp_path / "run").evaluate(data)
    main(["report", str(tmp_path / "run")])
    page = (tmp_path / "run" / "report.html").read_text()
    assert not CONTROL.search(page)
    assert not CONTROL.search(capsys.readouterr().out)
