"""Mistakes in a configuration are told with the file, or the pipe, that holds them."""

import io

import pytest

from tepui.cli.main import main

CASES = {
    "method: 3": "--method must be a method by its name, or by the path of a class of "
    "yours, got '3'",
    "method: [SAM]": "--method must be a method by its name, or by the path of a class "
    "of yours, got \"['SAM']\"",
    "schedule: 3": "--schedule must be a schedule by its name, such as Cosine, got '3'",
    "data: 3": "--data must be a data set by its name, or by the path of a class of "
    "yours (a torch Dataset), got '3'",
    "method: {class_path: 3}": "method.class_path must be the name of a class, or its "
    "path, got 3",
    "method: {class_path: SAM, init_args: 3}": "method.init_args must be arguments "
    "with their values, {NAME: VALUE, ...}, got 3",
    "method: Nothing": "method must name a class of tepui, got 'Nothing'",
    "early-stopping: 3": "early-stopping must be written early_stopping in a file, got "
    "'early-stopping'",
    "epochs: x": "--epochs must be a whole number, got 'x'",
    "method: {SAM: {rho: 0.1}}": 'method must be written "SAM(rho=0.1)" or '
    "{class_path: SAM, init_args: {...}}, got {'SAM': {'rho': 0.1}}",
    "method: {name: sam, rho: 0.1}": 'method must be written "SAM(rho=0.1)" or '
    "{class_path: SAM, init_args: {...}}, got {'name': 'sam', 'rho': 0.1}",
    "{method: SAM, rho: 0.1}": "tepui train has no option rho (did you mean, in a "
    "file, 'method: {class_path: CLASS, init_args: {rho: VALUE}}'?)",
    "learning_rate: 0.1": "tepui train has no option learning_rate (did you mean, in "
    "a file, 'optimizer: {class_path: CLASS, init_args: {lr: VALUE}}'?)",
    "validation: lots": "validation must be a share, such as 0.2, or name a class of "
    "tepui, got 'lots'",
    "epohcs: 3": "tepui train has no option epohcs (did you mean 'epochs'?)",
}


def said(words, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["train", *words])
    return capsys.readouterr().err.splitlines()[0]


@pytest.mark.parametrize("text", CASES)
@pytest.mark.parametrize("more", [[], ["--print-config"]])
def test_a_mistake_is_told_with_where_it_stands(text, more, tmp_path, capsys):
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    told = said(["--config", str(file), *more], capsys)
    assert told == f"tepui: {CASES[text]} (in {file})"


def test_a_file_in_another_folder_is_told_as_it_is_written(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "mine.yaml").write_text("method: Nothing\n")
    told = said(["--config", "below/mine.yaml"], capsys)
    assert told.endswith("got 'Nothing' (in below/mine.yaml)")


@pytest.mark.parametrize("text", CASES)
def test_a_pipe_is_called_one(text, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    told = said(["--config", "-"], capsys)
    assert told == f"tepui: {CASES[text]} (in the piped configuration)"


@pytest.mark.parametrize("text", ["epochs", "a: [", "a: 1: 2"])
def test_a_pipe_of_no_options_is_named(text, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    told = said(["--config", "-"], capsys)
    assert told.startswith("tepui: the piped configuration must ")


def test_of_several_files_that_one_is_named_whose_value_is_read(tmp_path, capsys):
    first, second, third = (tmp_path / f"{n}.yaml" for n in range(3))
    first.write_text("epochs: 3\n")
    second.write_text("epochs: x\n")
    third.write_text("members: 2\n")
    files = [
        word for file in (first, second, third) for word in ("--config", str(file))
    ]
    assert said(files, capsys).endswith(f"(in {second})")


def test_what_is_typed_stands_in_no_file(tmp_path, capsys):
    file = tmp_path / "mine.yaml"
    file.write_text("epochs: 3\nmethod: SAM\n")
    for typed in (["--epochs", "x"], ["--method.rho", "x"]):
        told = said(["--config", str(file), *typed], capsys)
        assert told.endswith("got 'x'")
