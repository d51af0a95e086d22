"""``tepui export``: a run as one file, compared before it is written."""

import pytest
import torch

import tepui
from refusals import refused
from tepui.cli.main import main

SMALL = ["--model", "MLP(hidden=[8])", "--members", "2", "--set", "progress=none"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("export") / "run"
    main(["train", *SMALL, "--epochs", "1", "--out", str(out)])
    return out


def test_a_run_becomes_one_file(run, tmp_path, capsys):
    file = tmp_path / "digits.pt2"
    words = ["export", str(run), "--to", "torch", "--out", str(file)]
    main(words)
    shown = capsys.readouterr().out
    assert "largest difference from the ensemble" in " ".join(shown.split())
    joined = "".join(shown.split())
    assert f'next:torch.export.load("{file}")answerswithouttepui' in joined
    test = tepui.data.Digits(train=False)
    with torch.no_grad():
        found = torch.export.load(file).module()(test.inputs[:9])  # as they are stored
    expected = tepui.load(run).predict(test)
    assert torch.equal(found["labels"], expected.labels[:9])
    torch.testing.assert_close(found["probs"], expected.probs[:9], rtol=0, atol=1e-5)
    assert "pass --overwrite to replace it" in refused(words, capsys)


def test_a_difference_beyond_the_tolerance_ends_in_words(run, capsys):
    options = ["--to", "onnx", "--tolerance", "1e-12"]
    assert "must differ from the ensemble's by at most 1e-12" in refused(
        ["export", str(run), *options], capsys
    )
    assert not (run / "ensemble.onnx").exists()


@pytest.mark.parametrize(
    ("to", "name", "ending"),
    [("onnx", "one.pt2", ".onnx"), ("torch", "one.ONNX", ".pt2")],
)
def test_an_ending_of_the_other_format_is_refused(
    to, name, ending, run, tmp_path, capsys
):
    with pytest.raises(SystemExit):
        main(["export", str(run), "--to", to, "--out", str(tmp_path / name)])
    shown = capsys.readouterr().err
    assert f"--out must end in {ending} with --to {to}, got" in shown
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_without_a_format_the_ending_decides(run, tmp_path, capsys):
    main(["export", str(run), "--out", str(tmp_path / "one.PT2")])
    assert torch.export.load(tmp_path / "one.PT2").module()
    capsys.readouterr()
    assert "--out must end in .onnx or .pt2, got" in refused(
        ["export", str(run), "--out", str(tmp_path / "two.bin")], capsys
    )
    assert [file.name for file in tmp_path.iterdir()] == ["one.PT2"]
