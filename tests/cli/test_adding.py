"""Each data set that a run is evaluated on has a file of its own."""

import shutil

import pytest
import torch

import tepui
from tepui.cli.main import main
from tepui.evaluation import read_evaluation, read_logits
from tepui.evaluation.gallery import read_gallery

SMALL = ["--model", "MLP(hidden=[8])", "--members", "2", "--epochs", "1"]
QUIET = ["--set", "progress=none"]
NOISE, BLUR = ["--ood", "noise=UniformNoise"], ["--ood", "far=UniformNoise(seed=1)"]


@pytest.fixture
def run(tmp_path):
    main(["train", *SMALL, *QUIET, "--out", str(tmp_path / "run")])
    copies = tepui.data.corrupted(tepui.data.Digits(train=False), types=["fog"])
    tepui.data.write_corrupted(copies, tmp_path / "copies")
    return tmp_path / "run"


def evaluation(run):
    return read_evaluation(run)


@pytest.mark.slow
def test_parts_are_the_same_as_the_whole(run, tmp_path, capsys):
    shifted = ["--copies", str(tmp_path / "copies")]
    main(["evaluate", str(run), *shifted])
    main(["evaluate", str(run), *NOISE])
    said = " ".join(capsys.readouterr().out.split())
    assert "beside corrupted from before" in said
    main(["evaluate", str(run), *BLUR])
    parts, logits, shown = evaluation(run), read_logits(run), read_gallery(run)
    shutil.rmtree(run / "evaluations")
    (run / "gallery.json").unlink()
    main(["evaluate", str(run), *shifted, *NOISE, *BLUR[1:]])
    whole, expected = evaluation(run), read_logits(run)
    assert parts == whole
    assert logits.ood.keys() == expected.ood.keys() == {"noise", "far"}
    for name, values in expected.ood.items():
        assert torch.equal(logits.ood[name], values)
    for cell, (values, labels) in expected.shifted.items():
        assert torch.equal(logits.shifted[cell][0], values)
        assert torch.equal(logits.shifted[cell][1], labels)
    assert shown == read_gallery(run)
    assert {each.data for each in shown.answers} == {"clean", "corrupted"}


@pytest.mark.slow
def test_what_is_there_is_measured_again_only_where_it_is_asked_for(run, capsys):
    words = ["evaluate", str(run), "--corruptions", "none", *NOISE]
    main(words)
    before = evaluation(run)
    for again in (words, words[:4]):
        with pytest.raises(SystemExit):
            main(again)
        assert "pass overwrite=True (--overwrite) to replace it" in " ".join(
            capsys.readouterr().err.split()
        )
    assert evaluation(run) == before
    main([*words, "--set", "rule=vote", "--overwrite"])
    assert evaluation(run)["rule"] == "vote"
    with pytest.raises(SystemExit):
        main(["evaluate", str(run), *BLUR])
    said = capsys.readouterr().err
    assert "differs in rule; to keep it, evaluate a copy of its folder" in said
    main(["evaluate", str(run), *BLUR, "--overwrite"])
    assert list(evaluation(run)["ood"]) == ["far"]


@pytest.mark.slow
def test_calibrating_renews_what_is_asked_for_and_keeps_the_rest(run, tmp_path, capsys):
    words = ["evaluate", str(run), "--copies", str(tmp_path / "copies")]
    main(words)
    main(["evaluate", str(run), *NOISE])
    before = evaluation(run)
    main(["calibrate", str(run), "--held-out", "test"])
    capsys.readouterr()
    main(["evaluate", str(run), "--corruptions", "none"])
    said = " ".join(capsys.readouterr().out.split())
    assert "beside corrupted, noise from before" in said
    only_clean = evaluation(run)
    assert only_clean["applied"]["clean"]["nll"] < before["clean"]["nll"]
    assert only_clean["applied"]["severities"] == {}
    for name in ("clean", "cells", "ood", "severities"):
        assert only_clean[name] == before[name]
    assert {*read_logits(run).ood} == {"noise"}
    main([*words, "--overwrite"])
    assert evaluation(run)["applied"]["severities"].keys() == {"1", "2", "3", "4", "5"}
    capsys.readouterr()
    main(["calibrate", str(run), "--held-out", "test", "--method", "vector"])
    main(words)
    assert evaluation(run)["ood"] == before["ood"]
    main(["report", str(run)])
