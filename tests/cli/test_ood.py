"""Unfamiliar sets on the command line."""

import shutil

import pytest

from refusals import refused
from tepui.cli.main import main
from tepui.evaluation import read_evaluation

SMALL = ["--model", "MLP(hidden=[8])", "--members", "2", "--epochs", "1"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("cli") / "run"
    main(["train", *SMALL, "--out", str(out)])
    return out


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["UniformNoise"], "be written NAME=DATASET"),
        (["=UniformNoise"], "be written NAME=DATASET"),
        (["a="], "a value is missing"),
        (["a=UnifromNoise"], "did you mean 'UniformNoise'"),
        (["a=UniformNoise(path=x)"], "argument of UniformNoise must be one of"),
        (["a=UnlabeledFolder(path=nowhere)"], "no image or folder of images nowhere"),
        (["a=MRPC(root=nowhere)"], "nowhere"),
        (["a=Digits", "a=SVHN"], "name each data set once"),
        (["--shifted", "UniformNoise"], "be written NAME=DATASET"),
    ],
)
def test_mistakes_end_in_one_line(values, message, trained, capsys):
    words = ["evaluate", trained, "--overwrite", "--ood", *values]
    assert message in refused(words, capsys)


def test_each_word_names_a_set(trained, tmp_path):
    measured = shutil.ignore_patterns("evaluations", "gallery*")
    fresh = shutil.copytree(trained, tmp_path / "run", ignore=measured)
    few = "few=UniformNoise(num_samples=7)"
    words = ["--corruptions", "none", "--ood", "plain=UniformNoise", few]
    main(["evaluate", str(fresh), *words])
    found = read_evaluation(fresh)["ood"]
    samples = {k: v["max_mean_probability"]["samples"] for k, v in found.items()}
    assert samples == {"plain": 10_000, "few": 7}
