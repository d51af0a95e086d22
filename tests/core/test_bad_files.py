"""What is no good file is refused by every reader, in one sentence with its name."""

import io
import os
import pickle
import signal
from itertools import product
from pathlib import Path

import pytest
import torch

import tepui
from tepui.cli.config import options_in
from tepui.core.provenance import command_line
from tepui.core.spec import read
from tepui.core.storage import (
    check_tensors,
    read_all,
    read_document,
    read_lines,
    read_tensors,
    sealed_line,
    write_document,
    write_tensors,
)
from tepui.ensembles.foreign_weights import ensemble_of
from tepui.studies.results import Results, read_results, write_results
from tepui.training import Run

CODE = "class Net:\n    pass\n\n\ndef net():\n    return 1\n"


def results(file):
    write_results(file.parent, Results("a/b", "a", "small", {}, {}, ()))
    return file.parent / "results.json"


def weights(file):
    torch.save({"weight": torch.ones(2)}, file)


# For each reader: the file's name, what writes a good one, and what reads it.
READERS = {
    "document": (
        "a.json",
        lambda file: write_document(file, "kind", {"a": [1, 2.5]}),
        lambda file: read_document(file, "kind"),
    ),
    "lines": (
        "a.jsonl",
        lambda file: file.write_text(sealed_line("kind", {"a": 1}) * 2),
        lambda file: read_lines(file, "kind"),
    ),
    "tensors": (
        "a.safetensors",
        lambda file: write_tensors(file, "kind", {"x": torch.ones(9)}, {"a": 1}),
        lambda file: read_tensors(file, "kind"),
    ),
    "checked tensors": (
        "a.safetensors",
        lambda file: write_tensors(file, "kind", {"x": torch.ones(9)}, {"a": 1}),
        lambda file: check_tensors(file, "kind"),
    ),
    "tensors of others": (
        "a.safetensors",
        lambda file: write_tensors(file, "kind", {"x": torch.ones(9)}, {"a": 1}),
        read_all,
    ),
    "weights of torch": (
        "a.pt",
        weights,
        lambda file: ensemble_of([file], lambda: torch.nn.Linear(2, 1)),
    ),
    "an ensemble": (
        "ensemble.safetensors",
        lambda file: tepui.Ensemble.build(tepui.models.MLP, members=1).save(
            file.parent, overwrite=True
        ),
        tepui.load,
    ),
    "records": ("results.json", results, lambda file: read_results(file.parent)),
    "a run": (
        "run.json",
        lambda file: write_document(file, "run", {"config": {}, "environment": {}}),
        lambda file: Run(file.parent).config,
    ),
    "options": (
        "a.yaml",
        lambda file: file.write_text("method: SAM(rho=0.1)\nset: {batch_size: 9}\n"),
        lambda file: options_in(str(file), "train"),
    ),
    "code of one's own": (
        "own_code.py",
        lambda file: file.write_text(CODE),
        lambda file: read(f"{file}:net", "function", own=True),
    ),
}


def refused_permission(file, patch):
    opened = io.open

    def forbidden(path, *arguments, **options):
        if str(path) == str(file):
            raise PermissionError(13, "Permission denied", str(file))
        return opened(path, *arguments, **options)

    patch.setattr(io, "open", forbidden)


def without(file):
    file.unlink(missing_ok=True)
    return file


BAD = {
    "empty": lambda file, _: file.write_bytes(b""),
    "cut": lambda file, _: file.write_bytes(
        file.read_bytes()[: 2 * len(file.read_bytes()) // 3 - 1]
    ),
    "pickle": lambda file, _: file.write_bytes(pickle.dumps(command_line)),
    "picture": lambda file, _: file.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(99)),
    "other encoding": lambda file, _: file.write_bytes("a: é\n".encode("utf-16")),
    "fifo": lambda file, _: os.mkfifo(without(file)),
    "folder": lambda file, _: without(file).mkdir(),
    "broken link": lambda file, _: without(file).symlink_to(file.parent / "gone"),
    "no file": lambda file, _: without(file),
    "no permission": refused_permission,
}


# An empty log has no lines yet, a folder without run.json no settings; YAML knows
# UTF-16.
GOOD = {
    *(("lines", "empty"), ("options", "other encoding")),
    *(("a run", "no file"), ("a run", "broken link")),
}


def fail(*_):
    raise AssertionError("it waits")


@pytest.mark.parametrize(
    ("reader", "bad"), [each for each in product(READERS, BAD) if each not in GOOD]
)
def test_it_is_refused_in_one_sentence_with_its_name(
    reader, bad, tmp_path, monkeypatch
):
    name, write, read_it = READERS[reader]
    file = tmp_path / "here" / name
    file.parent.mkdir()
    write(file)
    BAD[bad](file, monkeypatch)
    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(20)
    try:
        with pytest.raises((ValueError, OSError)) as refused:
            read_it(file)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    said = str(refused.value)
    assert "\n" not in said
    assert str(file) in said or Path(said).name == name
