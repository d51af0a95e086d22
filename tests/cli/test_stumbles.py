"""Where a person stumbled once: what is said there now."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from rich.console import Console

import tepui
from data_layouts import picture
from refusals import refused
from tepui.cli import items
from tepui.cli.main import main
from tepui.core.spec import document
from tepui.methods import SAM, SharpBalance
from tepui.report import printed_table
from tepui.report.comparison import Comparison, MethodResult, differing
from tepui.studies import Record, Results

QUIET = ["--set", "progress=none"]
TWO = ["--model", "MLP(hidden=[8])", "--members", "2", *QUIET]
SMALL = [*TWO, "--epochs", "1"]


def test_resuming_where_nothing_is_begins_and_says_so(tmp_path, capsys):
    out = str(tmp_path / "run")
    main(["train", *SMALL, "--resume", "--out", out])
    assert f"nothing to continue in {out}" in capsys.readouterr().err
    assert tepui.load(out)
    main(["train", *SMALL, "--resume", "--out", out])
    assert "nothing to continue" not in capsys.readouterr().err


def test_what_train_names_next_can_be_run(tmp_path, capsys):
    rows = np.random.default_rng(0).random((24, 4), np.float32)
    arrays = {f"x_{part}": rows for part in ("train", "test")}
    arrays |= {f"y_{part}": np.arange(24) % 2 for part in ("train", "test")}
    np.savez(tmp_path / "table.npz", **arrays)
    table = ["--data", f"ArrayFile(path={tmp_path / 'table.npz'})"]
    for name, words, then in (
        ("digits", [], "evaluate"),
        ("held_out", ["--validation", "0.2"], "calibrate"),
        ("table", table, "evaluate"),
    ):
        out = str(tmp_path / name)
        main(["train", *SMALL, *words, "--out", out])
        said = capsys.readouterr().out.split("next: tepui ")[1].split()
        assert said[:2] == [then, out]
        if name != "digits":
            main(said)
            capsys.readouterr()


@pytest.fixture(scope="module")
def held_out(tmp_path_factory):
    run = tmp_path_factory.mktemp("stumbles") / "run"
    main(["train", *SMALL, "--validation", "0.2", "--out", str(run)])
    return run


def test_calibrate_says_what_it_gained(held_out, capsys):
    capsys.readouterr()
    main(["calibrate", str(held_out)])
    said = " ".join(capsys.readouterr().out.split())
    ensemble, (_, held) = (
        tepui.load(held_out),
        tepui.data.split(tepui.data.Digits(), 0.2, seed=0),
    )
    divisor = float(ensemble.calibration.divisor)
    after = ensemble.predict(held).probs
    ensemble.calibration = None
    before = ensemble.predict(held).probs
    rows = torch.arange(len(held))
    nlls = [float(-p[rows, held.targets].log().mean()) for p in (before, after)]
    eces = [
        float(tepui.metrics.ece(p.log()[None], held.targets)) for p in (before, after)
    ]
    assert f"temperature {divisor:.3g}: NLL" in said
    number = r"(\d+\.\d+)"
    found = re.search(f"NLL {number} → {number}, ECE {number} → {number} on th", said)
    assert [float(n) for n in found.groups()] == pytest.approx([*nlls, *eces], abs=2e-4)


def test_commands_end_in_what_to_do_next(held_out, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run = str(held_out)
    main(["measure", run, "--what", "diversity", "--out", "m1"])
    main(["evaluate", run, "--corruptions", "none"])
    main(["measure", run, "--what", "diversity", "--out", "m2"])
    main(["report", run])
    main(["predict", run])
    main(["export", run, "--to", "torch"])
    said = " ".join(capsys.readouterr().out.split())
    for line in (
        f"written to m1 next: tepui evaluate {run}",
        f"next: tepui report {run} --open",
        f"written to m2 next: tepui report {run}",
        f"report: {run}/report.html next: open {run}/report.html in a browser",
        "written to predictions.csv",
        f'next: torch.export.load("{run}/ensemble.pt2") answers without tepui',
    ):
        assert line in said
    assert "next: look at unfamiliar and uncertain rows in predictions.csv" in said


@pytest.mark.parametrize(("count", "words"), [(10, 200), (300, 1), (3, 1)])
def test_a_reproduced_table_fits_on_a_screen(
    count, words, monkeypatch, capsys, tmp_path
):
    record = {"dataset": "d", "architecture": "a", "metric": "pds", "unit": "none"}
    records = tuple(
        Record(
            item="a/b",
            method=f"m{n}",
            value=0.5,
            n=1,
            at={"others": "word " * words},
            **record,
        )
        for n in range(count)
    )
    monkeypatch.setattr(items, "console", lambda: Console(width=100, markup=False))
    items.show(Results("a/b", "title", "small", {}, {}, records), "a/b", tmp_path)
    shown = capsys.readouterr().out
    assert len(shown.splitlines()) <= 50
    more = "".join(shown.split())
    assert (f"morein{tmp_path / 'table.md'}" in more) == (count > 20)
    assert "m0" in shown


def test_columns_that_say_one_thing_are_told_once_below_a_table(
    monkeypatch, capsys, tmp_path
):
    about = {"dataset": "random_quadratic", "architecture": "a", "unit": "none"}
    axes = ("panel", "curve", "k", "eta", "regime", "source", "score")
    records = tuple(
        Record(
            item="a/b",
            method="sharpbalance",
            metric="sharpness",
            value=0.5,
            n=3,
            at={"rho": f"0.{n}"} | {axis: f"one {axis}" for axis in axes},
            **about,
        )
        for n in range(5)
    )
    monkeypatch.setattr(items, "console", lambda: Console(width=80, markup=False))
    items.show(Results("a/b", "title", "small", {}, {}, records), "a/b", tmp_path)
    shown = capsys.readouterr().out
    cells = [line.strip("│┃").split() for line in shown.splitlines() if "│" in line]
    assert cells == [[f"0.{n}", "│", "0.5"] for n in range(5)]
    told = ", ".join(f"{axis}: one {axis}" for axis in axes)
    assert (
        "in every row above: dataset: random_quadratic, method: sharpbalance, "
        f"{told}, metric: sharpness, paper: none, n: 3"
    ) in " ".join(shown.split())


@pytest.mark.parametrize("size", ["smoke", "smoke+epochs=1", "small"])
def test_numbers_of_a_smoke_test_are_said_to_mean_nothing(
    size, monkeypatch, capsys, tmp_path
):
    monkeypatch.setattr(items, "console", lambda: Console(width=200, markup=False))
    about = {"dataset": "d", "architecture": "a", "metric": "pds", "unit": "none"}
    record = Record(item="a/b", method="m", value=0.5, n=1, **about)
    items.show(Results("a/b", "title", size, {}, {}, (record,)), "a/bc", tmp_path)
    shown = " ".join(capsys.readouterr().out.split())
    smoke = size.startswith("smoke")
    # Under the table, and at the end.
    assert shown.count("shows only that the recipe runs: its numbers") == 2 * smoke
    assert ("next: tepui reproduce a/bc --size small" in shown) == smoke


def test_only_what_differs_is_named_when_a_run_is_resumed(tmp_path, capsys):
    words = ["train", *SMALL, "--out", str(tmp_path / "run")]
    main([*words, "--method", "SAM(rho=0.1)"])
    other = ["--method", "SAM(rho=0.2)", "--set", "batch_size=32", "--resume"]
    said = refused([*words, *other], capsys)
    assert "batch_size must be what the run in" in said
    assert "(64) to resume it, got 32; so must method" in said
    assert "{" not in said


def test_another_number_of_members_is_said_when_a_run_is_resumed(tmp_path, capsys):
    words = ["train", "--epochs", "1", *QUIET, "--resume", "--out", tmp_path / "run"]
    net = ["--model", "MLP(hidden=[8])"]
    main([*map(str, words), *net, "--members", "2"])
    said = refused([*words, *net, "--members", "3", "--set", "batch_size=32"], capsys)
    assert "members must be what the run in" in said
    assert "was started with (2) to resume it, got 3; so must batch_size; give" in said
    assert "or begin another run in a new folder" in said
    other = ["--model", "MLP(hidden=[4])", "--members", "2"]
    said = refused([*words, *other], capsys)
    assert "started with (0.config.hidden.0: 8) to resume it, got 4" in said
    assert "layers" not in said


def test_a_diverged_run_says_what_to_do(tmp_path, capsys):
    rate = ["--optimizer", "SGD(lr=1e30)"]
    said = refused(["train", *SMALL, *rate, "--out", str(tmp_path / "run")], capsys)
    assert "must stay finite" in said
    assert "begin another run in a new folder (--out), with a lower learning" in said
    corrected = ["train", *SMALL, "--out"]
    for words in (["predict"], ["evaluate"], ["report"], corrected):
        said = refused([*words, tmp_path / "run"], capsys)
        assert "diverged and has no ensemble (" in said
        assert "must stay finite" in said
        assert "begin another in a new folder, with a lower learning rate or " in said
        assert "clip_norm=1 (--set clip_norm=1)" in said
        assert "resume" not in said
        assert "tepui evaluate" not in said


def test_heads_that_diverged_are_not_offered_to_be_resumed(tmp_path, capsys):
    main(["train", *SMALL, "--out", str(tmp_path / "body")])
    heads = ["train", "--extractor", tmp_path / "body", "--epochs", "1"]
    heads += ["--out", tmp_path / "run"]
    refused([*heads, "--optimizer", "SGD(lr=1e30)"], capsys)
    said = refused(heads, capsys)
    assert "diverged and has no ensemble (" in said
    assert "resume" not in said


def test_a_run_that_has_not_ended_is_not_to_be_evaluated(tmp_path, capsys):
    stopped = ["--epochs", "2", "--set", "stop_after=1", "--out", str(tmp_path / "run")]
    main(["train", *TWO, *stopped])
    said = refused(["report", tmp_path / "run"], capsys)
    assert "has not ended; finish it with resume=True (--resume)" in said
    assert "tepui evaluate" not in said


def test_a_resumed_comparison_keeps_its_methods(tmp_path, capsys):
    out = tmp_path / "all"
    words = ["compare", *SMALL, "--ensembles", "1", "--set", "corruptions=none"]
    words += ["sharpness=0", "--resume", "--out", str(out), "--methods"]
    main([*words, "SAM"])
    main([*words, "GSAM"])
    document = json.loads((out / "results.json").read_text())
    assert [*document["settings"]["runs"]] == ["SAM", "GSAM"]
    capsys.readouterr()
    said = refused([*words, "DeepEnsemble", "--set", "batch_size=32"], capsys)
    assert "methods must hold those of" in said
    assert "(SAM, GSAM), since these differ: batch_size, got 'DeepEnsemble'" in said
    assert not (out / "DeepEnsemble").exists()


def test_a_table_says_which_hyperparameters_differ():
    kinds = {"SAM": SAM(rho=0.1), "SharpBalance": SharpBalance(rho=0.3)}
    methods = [MethodResult(n, document(m), ()) for n, m in kinds.items()]
    assert differing(methods) == {"rho": {"SAM": 0.1, "SharpBalance": 0.3}}
    assert differing(methods[:1]) == {}


def test_the_caption_of_a_table_names_them(monkeypatch):
    rows = "tepui.report.tables.rows"
    monkeypatch.setattr(rows, lambda comparison: ())
    monkeypatch.setattr("tepui.report.tables.measures_of", lambda comparison: ())
    kinds = {"SAM": SAM(rho=0.1), "SharpBalance": SharpBalance(rho=0.3)}
    methods = tuple(MethodResult(n, document(m), ()) for n, m in kinds.items())
    table = printed_table(Comparison("both", {}, {}, methods))
    assert str(table.caption) == "methods differ in rho: SAM 0.1, SharpBalance 0.3"


def test_warnings_are_shown_without_the_place_in_the_source(tmp_path):
    script = (
        "import warnings, tepui.cli.doctor as d, tepui.cli.main as m\n"
        "def doctor():\n    warnings.warn('mind this')\n"
        "d.doctor = doctor\n"
        "m.main(['doctor'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stderr == "warning: mind this\n"


def test_training_names_images_that_cannot_be_read(tmp_path, capsys):
    made = [
        picture(tmp_path / f"photos/{kind}/{number}.png", size=(8, 8))
        for kind in ("cat", "dog")
        for number in range(8)
    ]
    bad = made[1], made[6], made[12]
    for file in bad:
        file.write_bytes(b"no image")
    data = ["--data", f"ImageFolder(path={tmp_path / 'photos'})"]
    said = refused(["train", *data, *SMALL, "--out", str(tmp_path / "run")], capsys)
    named = {file for file in made if f"{file} must be a valid image: " in said}
    assert named
    assert named <= {*bad}


def test_options_that_hold_something_else_are_told_what_to_write(tmp_path, capsys):
    (tmp_path / "photos").mkdir()
    folder = ["--data", f"ImageFolder(path={tmp_path / 'photo'})"]
    for words, told in (
        (
            ["--set", "early_stopping=7"],
            "early_stopping must be written such as EarlyStopping(patience=5), got 7",
        ),
        (
            ["--loss", "CrossEntropy(class_weights=balance)"],
            "got 'balance' (did you mean 'balanced'?)",
        ),
        (["--set", "device=gpu"], "device must name a device, got 'gpu'; there is cpu"),
        (folder, f"path must be a folder of images, got {tmp_path / 'photo'}"),
    ):
        out = tmp_path / "run"
        said = refused(["train", *SMALL, *words, "--out", out], capsys)
        assert told in said
        assert "<class" not in said
        assert not out.exists()


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("photos", "ImageFolder(path=photos)"),
        ("t.csv", "Table(path=t.csv, target=COLUMN)"),
        ("t.parquet", "Table(path=t.parquet, target=COLUMN)"),
        ("x.npz", "ArrayFile(path=x.npz)"),
    ],
)
def test_a_path_that_is_no_data_set_is_told_how_it_is_written(
    name, written, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).mkdir() if name == "photos" else (tmp_path / name).touch()
    for option, text in (("--data", name), ("--ood", f"far={name}")):
        said = refused(["compare", option, text], capsys)
        assert f"tepui: {option} must be written {written}, got '{name}'" in said


def test_a_diverged_run_on_a_table_is_not_told_to_scale_it(tmp_path, capsys):
    lines = [f"{n}.5,{n % 7}.25" for n in range(40)]
    (tmp_path / "my.csv").write_text("\n".join(["size,price", *lines]))
    data = ["--data", f"Table(path={tmp_path / 'my.csv'}, target=price)"]
    data += ["--loss", "MSE", "--set", "batch_size=8"]
    rate, out = ["--optimizer", "AdamW(lr=1e25)"], tmp_path / "run"
    said = refused(["train", *SMALL, *data, *rate, "--out", out], capsys)
    assert "scale them" not in said  # a table has standardized both
    for command in ("evaluate", "calibrate"):
        assert "diverged and has no ensemble" in refused([command, out], capsys)


def test_corrupted_data_are_not_blamed_for_an_image(tmp_path, capsys):
    made = [
        picture(tmp_path / f"photos/{part}/{kind}/{number}.png", size=(8, 8))
        for part in ("train", "test")
        for kind in ("cat", "dog")
        for number in range(2)
    ]
    data = ["--data", f"ImageFolder(path={tmp_path / 'photos'})"]
    main(["train", *SMALL, *data, "--out", str(tmp_path / "run")])
    made[-1].write_bytes(b"no image")
    said = refused(["evaluate", tmp_path / "run"], capsys)
    assert f"{made[-1]} must be a valid image" in said
    assert "corruptions=none" not in said


@pytest.mark.parametrize("command", ["train", "compare"])
def test_a_corrected_command_runs_in_the_folder_of_the_refused_one(
    command, held_out, tmp_path, capsys
):
    words = [command, "--members", "2", "--epochs", "1", *QUIET]
    words += ["--out", str(tmp_path / "out")]
    if command == "train":
        words += ["--extractor", str(held_out)]
    else:
        words += ["--ensembles", "1", "--methods", "SAM"]
        words += ["--set", "corruptions=none", f"extractor={held_out}"]
    assert "class_weights must hold one number for each" in refused(
        [*words, "--loss", "CrossEntropy(class_weights=[1, 2])"], capsys
    )
    main(words)
    made = {"train": "heads/ensemble.safetensors", "compare": "results.json"}
    assert (tmp_path / "out" / made[command]).is_file()
