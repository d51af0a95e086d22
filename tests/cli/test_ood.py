"""Unfamiliar sets on the command line."""

import shutil

import pytest
import torch
from PIL import Image

import tepui
from refusals import refused
from tepui.cli.main import main
from tepui.data import Digits, UniformNoise, UnlabeledFolder, prepared_like
from tepui.evaluation import read_evaluation

SMALL = ["--model", "MLP(hidden=[8])", "--members", "2", "--epochs", "1"]
FEW = "few=UniformNoise(num_samples=40)"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("cli") / "run"
    main(["train", *SMALL, "--out", str(out)])
    return out


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    generator = torch.Generator().manual_seed(0)
    for number in range(3):
        pixels = torch.randint(256, (12, 20, 3), generator=generator).byte()
        Image.fromarray(pixels.numpy()).save(folder / f"{number}.png")
    return folder


@pytest.mark.slow
def test_evaluate_finds_unfamiliar_samples(trained, pictures, capsys):
    options = ["--corruptions", "none", "--overwrite"]
    sets = ["--ood", FEW, f"folder=UnlabeledFolder(path={pictures})"]
    main(["evaluate", str(trained), *options, *sets, "--ood", "same=Digits"])
    shown = capsys.readouterr().out
    assert "found by (AUROC)" in shown
    assert "mistakes" in shown
    assert "mutual information" in shown
    document = read_evaluation(trained)
    test = Digits(train=False)
    ood = {
        "few": UniformNoise(num_samples=40, like=test),
        "folder": prepared_like(UnlabeledFolder(pictures), test),
        "same": test,
    }
    again = tepui.evaluate(tepui.load(trained), test, ood=ood)
    assert document["ood"] == again.document()["ood"]
    assert document["ood"]["same"]["pds"]["auroc"] == 0.5
    assert list(tepui.read_logits(trained).ood) == ["few", "folder", "same"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("UniformNoise", "be written NAME=DATASET"),
        ("=UniformNoise", "be written NAME=DATASET"),
        ("a=", "a value is missing"),
        ("a=UnifromNoise", "did you mean 'UniformNoise'"),
        ("a=UniformNoise(path=x)", "argument of UniformNoise must be one of"),
        ("a=UnlabeledFolder(path=nowhere)", "must be a folder of images, got nowhere"),
        ("a=MRPC(root=nowhere)", "nowhere"),
    ],
)
def test_mistakes_end_in_one_line(value, message, trained, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["evaluate", str(trained), "--overwrite", "--ood", value])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_each_word_names_a_set(trained, tmp_path):
    measured = shutil.ignore_patterns("evaluations", "gallery*")
    fresh = shutil.copytree(trained, tmp_path / "run", ignore=measured)
    few = "few=UniformNoise(num_samples=7)"
    words = ["--corruptions", "none", "--ood", "plain=UniformNoise", few]
    main(["evaluate", str(fresh), *words])
    found = read_evaluation(fresh)["ood"]
    samples = {k: v["max_mean_probability"]["samples"] for k, v in found.items()}
    assert samples == {"plain": 10_000, "few": 7}


def test_two_sets_cannot_share_a_name(trained, capsys):
    assert "name each data set once" in refused(
        ["evaluate", str(trained), "--ood", "a=Digits", "a=SVHN"], capsys
    )
