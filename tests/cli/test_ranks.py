"""``torchrun … -m tepui``: one run, one voice, the folders of one process."""

import re
import subprocess

import pytest

from processes import LAUNCHER, environment_here
from refusals import refused
from tepui.cli.main import main
from tepui.core.storage import read_tensors
from training.cases import assert_same_bits

SMALL = ["--data", "Digits", "--model", "MLP(hidden=[8])"]
TRAIN = ["train", *SMALL, "--method", "SharpBalance", "--members", "3", "--epochs", "2"]
METHODS = ["--methods", "DeepEnsemble", "SED"]
COMPARE = ["compare", *SMALL, *METHODS, "--members", "3", "--ensembles", "1"]
COMPARE += ["--epochs", "2", "--set", "corruptions=none", "sharpness=20"]


def torchrun(folder, *words, size=2):
    """Run a command in a folder under torchrun; return what was said."""
    return subprocess.run(
        [*LAUNCHER, f"--nproc-per-node={size}", "-m", "tepui", *map(str, words)],
        cwd=folder,
        env=environment_here(),
        capture_output=True,
        check=False,
        text=True,
        timeout=600,
    )


def weights(folder):
    return read_tensors(folder / "ensemble.safetensors", "ensemble")[0]


@pytest.mark.slow
def test_train_needs_no_other_flag_and_one_rank_speaks(tmp_path):
    done = torchrun(tmp_path, *TRAIN)
    assert done.returncode == 0, done.stderr
    assert len(re.findall("trained 3 members", done.stdout)) == 1
    assert len(re.findall("epoch 2/2", done.stderr)) == 1
    assert [folder.name for folder in (tmp_path / "runs").iterdir()] == ["train-001"]
    main([*TRAIN, "--out", str(tmp_path / "one"), "--set", "progress=none"])
    assert_same_bits(
        weights(tmp_path / "runs" / "train-001"), weights(tmp_path / "one")
    )


@pytest.mark.slow
def test_compare_gives_the_comparison_of_one_process(tmp_path):
    done = torchrun(tmp_path, *COMPARE, "--out", "many", size=3)
    assert done.returncode == 0, done.stderr
    assert len(re.findall("report: ", done.stdout)) == 1
    main([*COMPARE, "--out", str(tmp_path / "one"), "--set", "progress=none"])
    many, one = tmp_path / "many", tmp_path / "one"
    for run in ("DeepEnsemble/0", "SED/0"):
        assert_same_bits(weights(many / run), weights(one / run))
        for file in ("evaluations/clean.json", "sharpness.json"):
            texts = [(folder / run / file).read_text() for folder in (many, one)]
            assert texts[0] == texts[1]
    assert {p.name for p in many.iterdir()} == {p.name for p in one.iterdir()}
    again = torchrun(tmp_path, *COMPARE, "--out", "many", "--resume", size=2)
    assert again.returncode == 0, again.stderr


@pytest.mark.slow
def test_evaluate_gives_the_files_of_one_process(tmp_path):
    names = ("clean.json", "clean.safetensors", "noise.json", "noise.safetensors")
    files = ("gallery.json", *(f"evaluations/{name}" for name in names))
    exam = ["evaluate", str(tmp_path / "run"), "--set", "batch_size=50"]
    exam += ["--corruptions", "none", "--ood", "noise=UniformNoise"]
    main([*TRAIN, "--out", str(tmp_path / "run"), "--set", "progress=none"])
    done = torchrun(tmp_path, *exam)
    assert done.returncode == 0, done.stderr
    assert len(re.findall("written to", done.stdout)) == 1
    many = [(tmp_path / "run" / file).read_bytes() for file in files]
    main([*exam, "--overwrite"])
    assert many == [(tmp_path / "run" / file).read_bytes() for file in files]


@pytest.mark.slow
def test_heads_on_an_extractor_are_trained_over_ranks(tmp_path):
    main([*TRAIN, "--out", str(tmp_path / "body"), "--set", "progress=none"])
    words = ["train", "--extractor", str(tmp_path / "body"), "--epochs", "2"]
    done = torchrun(tmp_path, *words, "--out", "many")
    assert done.returncode == 0, done.stderr
    main([*words, "--out", str(tmp_path / "one"), "--set", "progress=none"])
    assert_same_bits(weights(tmp_path / "many"), weights(tmp_path / "one"))


@pytest.mark.parametrize("command", ["predict", "report", "sweep"])
def test_other_commands_are_refused_in_a_sentence_that_says_what_to_do(
    command, monkeypatch, capsys, tmp_path
):
    """And which names the rank that says it."""
    for name, value in {"RANK": "1", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    words = {"sweep": ["--data=Digits", "--grid=rho=1"]}.get(command, [str(tmp_path)])
    with pytest.raises(SystemExit, match="2"):
        main([command, *words])
    assert capsys.readouterr().err == (
        "tepui (rank 1): command must be train, compare or evaluate under torchrun (2 "
        f"ranks); start tepui {command} once, without it, "
        f"got {command!r}\n"
    )


def test_an_environment_set_in_part_ends_in_a_message(monkeypatch, capsys, tmp_path):
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "tepui: RANK must be a number" in refused(
        [*TRAIN, "--out", str(tmp_path / "run")], capsys
    )
    assert not (tmp_path / "run").exists()
