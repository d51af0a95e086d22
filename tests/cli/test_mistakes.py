"""Mistakes in commands and files are told in words, with the nearest name."""

import re

import pytest

from tepui.cli.main import main

SAID = {
    "tran": "COMMAND must be one of .*, got 'tran' \\(did you mean 'train'\\?\\)",
    "train --epohcs 3": (
        r"--epohcs must be an option of tepui train \(did you mean '--epochs'\?\)"
    ),
    "train --epochs x": "--epochs must be a whole number, got 'x'",
    "train --members": "--members must be followed by a value",
    "train --keep bst": (
        r"--keep must be one of last, best, got 'bst' \(did you mean 'best'\?\)"
    ),
    "train --clip-norm x": "--clip-norm must be a number or null, got 'x'",
    "train --method SAM --method.rho x": (
        "--method.rho must be a number or several numbers, got 'x'"
    ),
    "train --method SAM --method.roh 1": (
        r"method.roh must be an argument of SAM \(rho, .*\) \(did you mean 'rho'\?\)"
    ),
    "predict": "RUN must be given: tepui predict RUN",
}
FILES = {
    "epohcs: 3": r"epohcs must be an option of tepui train \(did you mean 'epochs'\?\)",
    "method: {class_path: SAM, init_args: {roh: 1}}": (
        r"method.roh must be an argument of SAM \(rho, .*\) \(did you mean 'rho'\?\)"
    ),
}


def said(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert "usage" not in error
    return error


@pytest.mark.parametrize("written", SAID)
def test_a_mistake_is_told_in_words(written, capsys):
    error = said(written.split(), capsys)
    first = error.splitlines()[0]
    assert re.fullmatch("tepui: " + SAID[written], first), first


@pytest.mark.parametrize("content", FILES)
def test_a_mistake_in_a_file_is_told_in_words(content, tmp_path, capsys):
    file = tmp_path / "train.yaml"
    file.write_text(content)
    error = said(["train", "--config", str(file)], capsys)
    first, second = error.splitlines()
    assert re.fullmatch("tepui: " + FILES[content], first), first
    assert second == "tepui train --help shows all options"


def test_tepui_alone_greets_with_what_a_newcomer_needs(capsys):
    main([])
    out = capsys.readouterr().out
    for command in ("compare", "train", "evaluate", "predict"):
        assert f"\n  tepui {command}" in out
    assert max(map(len, out.splitlines())) <= 88


def test_doctor_says_what_is_there(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("TEPUI_DATA", str(tmp_path))
    (tmp_path / "cifar-10-batches-bin").mkdir()
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == "timm" else True
    )
    main(["doctor"])
    out = " ".join(capsys.readouterr().out.split())
    assert "cifar-10-batches-bin" in out
    assert 'missing timm: pip install "tepui[vision]"' in out
    assert "missing transformers" not in out
