"""What holds for every command, and training and comparing by the command line."""

import inspect
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import webbrowser
from functools import partial
from importlib import import_module

import numpy as np
import pytest
import torch

import tepui
from refusals import refused
from tepui.cli.main import GROUPS, main

COMMANDS = " ".join(GROUPS.values()).split()
QUIET = ["--set", "progress=none"]
SMALL = ["--model", "MLP(hidden=[8])", "--members", "2", *QUIET]


def config_of(run):
    return json.loads((run / "run.json").read_text())["config"]


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    out = tmp_path_factory.mktemp("cli") / "comparison"
    main(["compare", *SMALL, "--epochs", "1", "--out", str(out)])
    return out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_at_most_fifteen_options_each_explained_and_three_examples(
    command, capsys
):
    main([command, "--help"])
    shown = capsys.readouterr().out
    examples = re.findall(r"^ tepui (\w+)", shown, re.MULTILINE)
    assert len(examples) == 3
    assert examples[0] == command
    assert {*examples} <= {*COMMANDS}
    assert "torch.nn" not in shown
    options = re.findall(r"^│ \*? *(--[a-z][\w-]*)", shown, re.MULTILINE)
    assert len(options) <= 15
    function = getattr(import_module(f"tepui.cli.{command}"), command)
    for name in inspect.signature(function).parameters:
        assert re.search(rf"^\s+{name}: \S", function.__doc__, re.MULTILINE)


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["--version"],
        ["train", "--help"],
        ["trian"],
        ["train", "--methd", "SAM"],
        ["train", "--method", "SMA"],
    ],
)
def test_help_and_mistakes_are_answered_without_torch(words):
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "tepui", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    loaded = set(re.findall(r"\| +([\w.]+)$", done.stderr, re.MULTILINE))
    assert "tepui.cli.main" in loaded
    assert not loaded & {"torch", "numpy", "scipy", "sklearn", "matplotlib", "PIL"}


def test_help_names_every_command_and_the_greeting_four(capsys):
    main(["--help"])
    shown = capsys.readouterr().out
    for name in COMMANDS:
        assert re.search(rf"^│ {name} +[A-Z]", shown, re.MULTILINE)
    main([])
    greeting = capsys.readouterr().out
    assert len(re.findall(r"^  tepui ", greeting, re.MULTILINE)) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], 'Did you mean "train"?'),
        (["train", "--methd", "SAM"], "Did you mean --method?"),
        (["train", "--out"], "requires an argument"),
        (["train", "--epochs", "x"], "whole number, got x"),
        (["train", "--epochs", "1.5"], "whole number, got 1.5"),
        (["train", "--epochs", "2", "--epochs", "3"], "specified multiple times"),
        (["compare", "--methods", "SMA"], "did you mean 'SAM'"),
        (["compare", "--resume"], "tepui: out must be given to resume"),
        (["train", "--method", "SAM(rho=-1)"], "rho must be non-negative"),
        (["train", "--method", "SAM(rho=1"], "method must be written such as"),
        (["train", "--method", "SAM(rho=1, rho=2)"], "rho is given twice"),
        (["train", "--method", "SAM(rh=1)"], "did you mean 'rho'?"),
        (["train", "--method", "Adam"], "method must be one of A2D,"),
        (["train", "--method", "os.path.join"], "method must be a class derived from"),
        (
            ["train", "--model", "no.such"],
            "tepui: model must name what can be imported",
        ),
        (["train", "--epochs", "0"], "tepui: epochs must be positive, got 0"),
        (["evaluate", "nowhere"], "no file or folder nowhere"),
        (["report", "nowhere"], "no file or folder nowhere"),
        (["train", "--set", "device=nowhere"], "device must name a device"),
        (["train", "--set", "bath_size=3"], "did you mean 'batch_size'?"),
        (["train", "--set", "batch_size"], "be given a value: --set NAME=VALUE"),
        (["train", "--set", "batch_size=x"], "batch_size must be an integer, got 'x'"),
        (["train", "--set", "track=os.system"], "track must be one of tensorboard"),
        (["train", "--set", "runner=graph", "offload=true"], "and they are offloaded"),
        (["train", "--augment", "RandAugment(level=40)"], "level must lie in [0, 30]"),
        (
            ["train", "--loss", "CrossEntropy(label_smoothing=1.5)"],
            "label_smoothing must lie in [0, 1]",
        ),
        (
            ["train", "--seeds", "1", "2", "--members", "3"],
            "--seeds must name one seed",
        ),
        (["train", "--members", "0"], "members must be positive, got 0"),
        (["compare", "--seeds", "1", "2", "3", "4"], "one seed per member (3)"),
        (["compare", "--ood", "UniformNoise"], "be written NAME=DATASET"),
        (["train", "--method", "A2D"], "unlabeled must be a data set for A2D"),
        (["train", "--config", "no.yaml"], "tepui: No such file or directory: no.yaml"),
    ],
)
def test_mistakes_end_in_one_message(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert message in refused(arguments, capsys)
    assert not (tmp_path / "runs").exists()


NO_MEMORY = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\nMore"),
    MemoryError(),
    RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to"),
    np._core._exceptions._ArrayMemoryError((9,), np.dtype(float)),
]


@pytest.mark.parametrize("error", NO_MEMORY, ids=lambda error: type(error).__name__)
def test_a_lack_of_memory_is_one_sentence_with_a_remedy(error, monkeypatch, capsys):
    def full():
        raise error

    monkeypatch.setattr("tepui.cli.main.build", full)
    said = refused(["evaluate", "run"], capsys)
    assert said.startswith("tepui: out of memory (")
    assert "; lower --set batch_size=N" in said
    assert "More" not in said


def test_another_error_of_torch_is_shown_where_it_arose(monkeypatch):
    broken = partial(torch.matmul, torch.zeros(2, 3), torch.zeros(2, 3))
    monkeypatch.setattr("tepui.cli.main.build", broken)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        main(["train"])


def test_an_interruption_ends_in_a_word(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("tepui.cli.main.build", interrupted)
    with pytest.raises(SystemExit) as stop:
        main(["train"])
    assert stop.value.code == 130
    assert capsys.readouterr().err == "tepui: interrupted\n"


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_a_stopped_run_says_how_to_continue(number, code, tmp_path, capsys):
    words = ["train", "--epochs", "999", "--members", "1", "--out", str(tmp_path / "r")]
    words += ["--model", "ConvNet(width=1)", *QUIET]

    def stop():
        while not (tmp_path / "r" / "checkpoint.json").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=stop)
    thread.start()
    try:
        with pytest.raises(SystemExit) as stopped:
            main(words)
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)
    assert stopped.value.code == code
    said = capsys.readouterr().err
    way = f"tepui: to continue: tepui train --resume --out {tmp_path / 'r'}"
    assert way in said
    assert ("interrupted" in said) == (number == signal.SIGINT)


def test_report_opens_the_page_where_asked(compared, tmp_path, monkeypatch, capsys):
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda url: bool(opened.append(url)))
    main(["report", str(compared), "--out", str(tmp_path)])
    assert opened == []
    main(["report", str(compared), "--out", str(tmp_path), "--overwrite", "--open"])
    assert opened == [(tmp_path / "report.html").as_uri()]
    said = " ".join(capsys.readouterr().out.split())
    assert said.count(f"next: open {tmp_path / 'report.html'} in a browser") == 2
    monkeypatch.setattr(webbrowser, "open", lambda url: True)
    main(["report", str(compared), "--out", str(tmp_path), "--overwrite", "--open"])
    assert "next: open" not in capsys.readouterr().out


@pytest.mark.slow
def test_the_command_line_and_python_have_the_same_defaults(tmp_path):
    main(["train", "--epochs", "1", *QUIET, "--out", str(tmp_path / "command")])
    tepui.fit(
        tepui.Ensemble.build(tepui.models.ConvNet, members=3),
        tepui.data.Digits(),
        method=tepui.methods.DeepEnsemble(),
        epochs=1,
        out=tmp_path / "python",
        progress="none",
    )
    assert config_of(tmp_path / "command") == config_of(tmp_path / "python")
