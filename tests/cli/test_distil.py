"""One network learns from a run on the command line as it does from Python."""

import pytest
import torch

import tepui
from tepui.cli.main import main
from tepui.models import ConvNet

SMALL = ["--epochs", "1", "--set", "batch_size=64", "progress=none"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("distil") / "run"
    main(["train", "--members", "2", "--out", str(folder), *SMALL])
    return folder


def test_the_command_does_what_the_function_does(run, tmp_path, capsys):
    out = tmp_path / "student"
    words = ["--temperature", "2", "--seed", "5", "--validation", "0.2"]
    main(["distil", str(run), *words, "--out", str(out), *SMALL])
    assert f"next: tepui evaluate {out}" in capsys.readouterr().out
    data = tepui.data.Digits()
    how = {"temperature": 2.0, "seed": 5, "validation": 0.2, "batch_size": 64}
    again = tepui.distil(
        tepui.load(run), data, ConvNet, epochs=1, progress="none", **how
    )
    (student,) = tepui.load(out).members
    state = again.ensemble.members[0].state_dict()
    assert all(state[n].equal(t) for n, t in student.state_dict().items())
    main(["evaluate", str(out), "--corruptions", "none"])
    main(["calibrate", str(out)])
    before = (out / "run.json").read_bytes()
    main(["distil", str(run), *words, "--out", str(out), "--resume", *SMALL])
    assert (out / "run.json").read_bytes() == before


def test_another_architecture_can_learn(run, tmp_path):
    out = tmp_path / "student"
    main(["distil", str(run), "--model", "MLP", "--out", str(out), *SMALL])
    assert tepui.load(out).logits(torch.rand(2, 1, 8, 8)).shape == (1, 2, 10)
