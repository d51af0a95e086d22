"""Mistakes in commands and files are told in words, with the nearest name."""

import re
import sys

import pytest

from tepui.cli.files_named import check_no_files
from tepui.cli.main import main, read

SAID = {
    "tran": "COMMAND must be one of .*, got 'tran' \\(did you mean 'train'\\?\\)",
    "--epochs 3 train": (
        r"COMMAND must come before options \(tepui COMMAND --help shows its own\), got "
        "'--epochs'"
    ),
    "train --flurb": "tepui train has no option --flurb",
    "train --ensembles 3": r"tepui train has no option --ensembles \(tepui compare .*",
    "train --epohcs 3": (
        r"tepui train has no option --epohcs \(did you mean '--epochs'\?\)"
    ),
    # What is not written out is refused, lest a script change its meaning.
    "train --epoch 3": (
        r"tepui train has no option --epoch \(did you mean '--epochs'\?\)"
    ),
    "train --val 0.2": (
        r"tepui train has no option --val \(did you mean '--validation'\?\)"
    ),
    "compare --ensemble 2": (
        r"tepui compare has no option --ensemble \(did .* '--ensembles'\?\)"
    ),
    "predict runs/sam --overwrit": (
        r"tepui predict has no option --overwrit \(did .* '--overwrite'\?\)"
    ),
    "evaluate runs/sam --detectors": (
        r"tepui evaluate has no option --detectors \(tepui calibrate has it\)"
    ),
    "train --method SAM --rho 0.05": (
        r"tepui train has no option --rho \(did you mean '--method.rho'\?\)"
    ),
    "train --lr 0.1": (
        r"tepui train has no option --lr \(did you mean '--optimizer.lr'\?\)"
    ),
    "calibrate runs/sam --coverage 90": (
        "--coverage must lie between 0 and 1, such as 0.9 for 90 %, got 90.0"
    ),
    "train --data.path my.csv": (
        "--data.path must be no table without --data Table; type --data Table "
        "--data.path my.csv --data.target COLUMN, got 'my.csv'"
    ),
    "train --keep best": '--validation must be given to keep the "best" weights',
    "train --resume": "--out must be given to resume a run",
    "train --method A2D": (
        "--unlabeled must be a data set for A2D, .*, but it was not given"
    ),
    "reproduce": (
        "the name of a figure or table must be given, such as tepui reproduce .*"
    ),
    "compare --methods SED SAM(rho=-1)": "rho must be non-.*, got -1.0",
    "evaluate runs/sam --corruptions fog": (
        "--corruptions must be one of none, cifar, .*, imagenet or null, got 'fog'"
    ),
    "train --method Mine": "--method must .* 'Mine'; .* path, such as mypackage.Mine",
    "compare --methods SAM(rho=0.1) Mine": "--methods must .*, such as mypackage.Mine",
    "train --method SAN": r"--method must .*, got 'SAN' \(did you mean 'S.*\?\)",
    "train --validation fractions.Fraction": (
        r"--validation must be a number or a data set by its name, or by the path of a "
        r"class of yours \(a torch Dataset\) or null, got 'fractions.Fraction'"
    ),
    "train --data fractions.Fraction": (
        r"--data must be a data set by its name, or by the path of a class of yours "
        r"\(a torch Dataset\), got 'fractions.Fraction'"
    ),
    "train --model fractions.Fraction": (
        r"--model must be a model by its name, or by the path of a class of yours "
        r"\(a torch Module\) or null, got 'fractions.Fraction'"
    ),
    "train --optimizer Mine": "--optimizer must be one of SGD, AdamW, got 'Mine'",
    "train --epochs x": "--epochs must be a whole number, got 'x'",
    "train --members": "--members must be followed by a value",
    "train --keep bst": (
        r"--keep must be one of last, best, got 'bst' \(did you mean 'best'\?\)"
    ),
    "train --class-weights balance": (
        "--class-weights must be several numbers or balanced or null, got 'balance' "
        r"\(did you mean 'balanced'\?\)"
    ),
    "train --class-weights balanced 2": (
        "--class-weights must be a number, got 'balanced'; balanced, alone, takes .*"
    ),
    "train --loss CrossEntropy --loss.class-weights balance": (
        "--loss.class-weights must be several numbers or balanced or null, got "
        r"'balance' \(did you mean 'balanced'\?\)"
    ),
    "train --loss Quantiles(level=[0.1,0.9])": (
        r"loss.level must be an argument of Quantiles \(levels\) \(did .* 'levels'\?\)"
    ),
    "train --loss Quantiles(levels=[])": (
        r"levels must rise within \(0, 1\), at least one of them, got \(\)"
    ),
    "train --loss Quantiles --loss.levels": (
        r"levels must rise within \(0, 1\), at least one of them, got \(\)"
    ),
    "train --loss Quantiles(levels=2)": (
        "--loss.levels must be several values, got '2'"
    ),
    "train --loss Quantiles(0.1,0.9)": (
        r"--loss must be written NAME or .*, got 'Quantiles\(0.1,0.9\)'"
    ),
    "train --loss Quantile(levels=[0.1])": (
        r"--loss must be one of .*, got 'Quantile' \(did you mean 'Quantiles'\?\)"
    ),
    "train --loss CrossEntropy(label_smoothing=2)": (
        r"label_smoothing must lie in \[0, 1\], got 2.0"
    ),
    "train --clip-norm x": "--clip-norm must be a number or null, got 'x'",
    "train --method SAM --method.rho x": (
        "--method.rho must be a number or several numbers, got 'x'"
    ),
    "train --method SAM --method.roh 1": (
        r"method.roh must be an argument of SAM \(rho, .*\) \(did you mean 'rho'\?\)"
    ),
    "compare --methods SharpBalance(base=SAM(roh=1))": (
        r"methods.base.roh must be an argument of SAM \(rho, .*\) \(did .* 'rho'\?\)"
    ),
    "predict": "RUN must be given: tepui predict RUN",
    "train --model MLP --model.hiden [8]": (
        r"model.hiden must be an argument of MLP \(.*\) \(did you mean 'hidden'\?\)"
    ),
    "train --model MLP --model.hidden x": (
        "--model.hidden must be several values, got 'x'"
    ),
    "train --model.width x": "--model.width must be a whole number, got 'x'",
    "train --optimizer.lr x": (
        "--optimizer.lr must be a number or several numbers, got 'x'"
    ),
    "train --optimizer.lrr 1": (
        r"optimizer.lrr must be an argument of SGD or AdamW \(.*\) \(did .* 'lr'\?\)"
    ),
    "train --optimizer AdamW --optimizer.lr x": (
        "--optimizer.lr must be a number or several numbers, got 'x'"
    ),
    "train --optimizer AdamW --optimizer.momentum 1": (
        r"optimizer.momentum must be an argument of AdamW \(lr, .*\)"
    ),
    "train --data ImageFolder --data.path x --data.size big": (
        "--data.size must be a whole number or null, got 'big'"
    ),
    "train --data ImageFolder": ("--data.path must be given with --data ImageFolder"),
    "train --data ArrayFile": "--data.path must be given with --data ArrayFile",
    "evaluate x --data ArrayFile": "--data.path must be given with --data ArrayFile",
    "train --unlabeled ImageFolder": (
        "--unlabeled.path must be given with --unlabeled ImageFolder"
    ),
    "train --data my/table.csv": (
        "--data must name a data set; for this table type --data Table --data.path "
        "my/table.csv --data.target COLUMN, got 'my/table.csv'"
    ),
    "train --data mine.npz": (
        "--data must .* type --data ArrayFile --data.path mine.npz, got 'mine.npz'"
    ),
    "train --data photos/": (
        "--data must .* type --data ImageFolder --data.path photos/, got 'photos/'"
    ),
    "train --data photos/1.jpg": (
        "--data must .* type --data ImageFolder --data.path photos, got .*"
    ),
    "train --method A2D --unlabeled photos/": (
        "--unlabeled must .* type --unlabeled UnlabeledFolder --unlabeled.path photos/,"
        " got 'photos/'"
    ),
}
FILES = {
    "early_stopping: 3": (
        r"--early-stopping must be written with its options \(in a file, "
        r"early_stopping: \{patience: 5\}\) or null, got '3'"
    ),
    "optimizer: 0.1": "--optimizer must be SGD or AdamW or null, got '0.1'",
    "class_weights: balance": (
        "--class-weights must be several numbers or balanced or null, got 'balance' "
        r"\(did you mean 'balanced'\?\)"
    ),
    "epohcs: 3": r"tepui train has no option epohcs \(did you mean 'epochs'\?\)",
    "ensembles: 3": r"tepui train has no option ensembles \(tepui compare has it\)",
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


@pytest.mark.slow
@pytest.mark.parametrize("written", SAID)
def test_a_mistake_is_told_in_words(written, capsys):
    error = said(written.split(), capsys)
    first = error.splitlines()[0]
    assert re.fullmatch("tepui: " + SAID[written], first), first


@pytest.mark.parametrize(
    "words",
    [
        ["train", "--data", "ImageFolder"],
        ["compare", "--data", "Table", "--methods", "SAM"],
        ["evaluate", "run", "--ood", "far=UnlabeledFolder"],
        ["train", "--epochs", "x"],
        ["train", "further"],
        ["evaluate"],
    ],
)
def test_the_help_of_the_same_command_is_named(words, capsys):
    assert said(words, capsys).splitlines()[1:] == [
        f"tepui {words[0]} --help shows all options"
    ]


def test_a_folder_in_the_place_of_a_data_set_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    (tmp_path / "Digits").mkdir()
    error = said(["train", "--data", "photos"], capsys)
    assert "type --data ImageFolder --data.path photos, got 'photos'" in error
    check_no_files([("--data", "Digits")])


@pytest.mark.parametrize("content", FILES)
def test_a_mistake_in_a_file_is_told_in_words(content, tmp_path, capsys):
    file = tmp_path / "train.yaml"
    file.write_text(content)
    error = said(["train", "--config", str(file)], capsys)
    first, second = error.splitlines()
    place = re.escape(f" (in {file})")
    assert re.fullmatch(f"tepui: {FILES[content]}{place}", first), first
    assert second == "tepui train --help shows all options"


@pytest.mark.parametrize("text", ["methods: {SAM: {rho: 0.1}}", "methods: 3"])
def test_methods_that_are_no_list_are_told_how_to_write_one(text, tmp_path, capsys):
    file = tmp_path / "compare.yaml"
    file.write_text(text)
    first, _ = said(["compare", "--config", str(file)], capsys).splitlines()
    example = 'methods: [DeepEnsemble, "SAM(rho=0.1)"]'
    assert f"--methods must be a list of methods (in a file, {example}) or nul" in first
    file.write_text(example)
    assert len(read(["compare", "--config", str(file)])[1]["methods"]) == 2


WAY = """
from dataclasses import dataclass
from tepui.methods import MemberMethod

@dataclass(frozen=True, kw_only=True)
class Way(MemberMethod):
    width: int = 2

    def gradient(self, member, batch):
        return member.gradient(batch)
"""


@pytest.mark.parametrize(
    "written",
    [
        ["compare", "--methods", "SAM", "mistaken_way.Way(widht=3)"],
        ["train", "--method", "mistaken_way.Way", "--method.widht", "3"],
    ],
)
def test_arguments_of_a_method_of_ones_own_are_told(
    written, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "mistaken_way", raising=False)
    (tmp_path / "mistaken_way.py").write_text(WAY)
    first = said(written, capsys).splitlines()[0]
    told = r"widht must be an argument of Way \(width\) \(did you mean 'width'\?\)"
    assert re.search(told, first), first


def test_tepui_alone_greets_with_what_a_newcomer_needs(capsys):
    main([])
    out = capsys.readouterr().out
    for command in ("compare", "train", "evaluate", "predict"):
        assert f"\n  tepui {command}" in out
    for kind in ("ImageFolder", "Table"):
        assert f"tepui train --data {kind} --data.path" in out
    assert max(map(len, out.splitlines())) <= 88


@pytest.mark.slow
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
