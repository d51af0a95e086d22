"""Every row of a decision's tables is printed by the command beside it."""

import importlib
import json
import re
import runpy
import shutil
import sys
from pathlib import Path

import pytest

from pages import commands

ROOT = Path(__file__).parents[1]
# The page, the script that reads its results, and how many rows.
PAGES = [
    ("001_radius", "make_radius", 30),
    ("002_which_rule", "make_which_rule", 50),
    ("003_how_late", "make_how_late", 64),
    ("004_hundred_classes", "make_hundred_classes", 50),
    ("005_random_scores", "make_random_scores", 40),
    ("006_small_radii", "make_small_radii", 5),
    ("007_headline", "make_headline", 21),
    ("008_averaging", "make_averaging", 30),
    ("012_radius_again", "make_radius_again", 52),
    ("013_treated", "make_treated", 4),
]


@pytest.fixture
def printed(monkeypatch, tmp_path, capsys):
    """Return what a script prints when it reads the committed results."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.syspath_prepend(ROOT / "docs")
    monkeypatch.setattr(importlib.import_module("score_tables"), "IMAGES", tmp_path)

    def lines(script):
        importlib.import_module(script).main()
        return capsys.readouterr().out.splitlines()

    return lines


def cells_of(line):
    """Return what stands in a row, without empty cells and emphasis."""
    cells = line.replace("*", "").strip("| ").split("|")
    return [cell.strip() for cell in cells if cell.strip()]


def rows_of(page):
    """Return the rows of the tables below the answer, without their heads."""
    answer = page[page.index("## Answer") :]
    tables = re.findall(r"^\|.*\n\|[-:| ]+\|\n((?:\|.*\n)+)", answer, re.M)
    return [cells_of(line) for table in tables for line in table.splitlines()]


def holds(line, row):
    """Return whether a line has the cells of a row in their order."""
    there = iter(line)
    return all(cell in there for cell in row)


@pytest.mark.parametrize(
    ("name", "script", "count"), PAGES, ids=[page[0] for page in PAGES]
)
def test_rows_of_the_page_are_printed(printed, name, script, count):
    page = (ROOT / "docs" / "decisions" / f"{name}.md").read_text("utf-8")
    lines = [cells_of(line) for line in printed(script) if line[:1] == "|"]
    rows = rows_of(page)
    assert len(rows) == count
    assert [row for row in rows if not any(holds(line, row) for line in lines)] == []


# Scripts, and the folders of committed results that a rerun takes the place of.
RERUN = {
    "make_radius": ["001_radius"],
    "make_which_rule": ["002_which_rule"],
    "make_how_late": ["003_how_late"],
    "make_hundred_classes": ["004_hundred_classes"],
    "make_random_scores": ["005_random_scores"],
    "make_small_radii": ["006_small_radii"],
    "make_headline": ["007_headline"],
    "make_averaging": ["008_averaging"],
    "make_refresh": ["009_refresh"],
    "make_defaults": ["010_defaults"],
    "make_short_runs": ["011_short_runs"],
    "make_radius_again": ["012_radius_again", "012_radius_again_hundred"],
}
RESULTS = Path("docs", "results", "decisions")


@pytest.fixture
def pictures(monkeypatch, tmp_path):
    """A folder in place of that of the pages' pictures."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.syspath_prepend(ROOT / "docs")
    monkeypatch.chdir(ROOT)
    folder = tmp_path / "images"
    folder.mkdir()
    monkeypatch.setattr(importlib.import_module("score_tables"), "IMAGES", folder)
    return folder


@pytest.fixture
def read(pictures, monkeypatch, capsys):
    """Return what a command that names folders, or none, prints."""

    def lines(script, *folders):
        file = ROOT / "docs" / f"{script}.py"
        monkeypatch.setattr(sys, "argv", [str(file), *map(str, folders)])
        runpy.run_path(str(file), run_name="__main__")
        return capsys.readouterr().out.splitlines()

    return lines


def change_one_accuracy(folder):
    """Write another number into the last file of a folder."""
    file = max(folder.glob("*.json"))
    first = r'((?<!individual_)accuracy": (?:[\s{[]|"[^"]*":)*)[\d.]+'
    text, count = re.subn(first, r"\g<1>0.5", file.read_text(), count=1)
    assert count == 1
    file.write_text(text)


@pytest.mark.parametrize(("script", "names"), RERUN.items(), ids=[*RERUN])
def test_a_rerun_is_read_from_its_folder_and_drawn_into_it(
    read, pictures, tmp_path, script, names
):
    told, *committed = read(script)
    asked = ", ".join(str(RESULTS / name) for name in names)
    assert told.split("; beside them, ")[0] == f"from {asked}"
    drawn = {file.name for file in pictures.iterdir()}
    shutil.rmtree(pictures)  # where nothing can be written from now on
    own = [shutil.copytree(ROOT / RESULTS / name, tmp_path / name) for name in names]
    change_one_accuracy(own[-1])
    told, *rerun = read(script, *own)
    asked = ", ".join(map(str, own))
    assert told.split("; beside them, ")[0] == f"from {asked}"
    assert rerun != committed
    assert {file.name for folder in own for file in folder.glob("*.png")} == drawn


@pytest.mark.parametrize(("script", "names"), RERUN.items(), ids=[*RERUN])
def test_the_page_reads_the_folders_that_its_commands_write(script, names):
    lines = commands(ROOT / "docs" / "decisions" / f"{names[0]}.md")
    written = [out for line in lines for out in re.findall(r"--out (\S+)", line)]
    written = [out.removesuffix("/radii.json") for out in written]
    (told,) = [line for line in lines if f"docs/{script}.py" in line]
    asked = told.partition(".py ")[2].split()
    assert len(asked) == len(names)
    assert {*asked} <= {*written}


def test_what_is_committed_beside_a_rerun_is_told(read, tmp_path):
    told = read(
        "make_averaging", shutil.copytree(RESULTS / "008_averaging", tmp_path / "a")
    )
    assert told[0].endswith(f"; beside them, from {RESULTS / '002_which_rule'}")


@pytest.mark.parametrize(
    ("folders", "says"),
    [
        (["a", "b"], "FOLDER must be given 0 or 1 times, got 2"),
        (["nowhere"], "FOLDER must be a folder of results, got nowhere"),
    ],
)
def test_folders_that_cannot_be_read_are_told(read, capsys, folders, says):
    with pytest.raises(SystemExit):
        read("make_headline", *folders)
    assert capsys.readouterr().err.endswith(f"error: {says}\n")


def test_a_rerun_of_one_block_has_no_radius(read, tmp_path):
    results = json.loads((RESULTS / "001_radius" / "runs.json").read_text())
    first = [result for result in results if result["block"] == 0]
    (tmp_path / "runs.json").write_text(json.dumps(first))
    says = "complete blocks: 1, of 2 at least: no answer"
    assert read("make_radius", tmp_path)[1:] == [says]


def test_a_rerun_of_the_printed_jobs_alone_is_read(read, tmp_path):
    for job in ("cifar10", "features", "flights"):
        shutil.copy(RESULTS / "010_defaults" / f"{job}.json", tmp_path)
    lines = read("make_defaults", tmp_path)
    assert {"cifar10", "features", "flights"} <= {*lines}
    assert not any("new less old" in line for line in lines)
    alone = RESULTS / "010_defaults" / "cifar10_alone_SharpBalance_rho=0.05.json"
    shutil.copy(alone, tmp_path)
    with pytest.raises(ValueError, match="must have deep ensembles: in their file"):
        read("make_defaults", tmp_path)


def test_the_table_of_the_pilot_is_printed(monkeypatch, capsys):
    monkeypatch.syspath_prepend(ROOT / "docs")
    script = importlib.import_module("make_pilot_picture")
    monkeypatch.setattr(script.plt.Figure, "savefig", lambda *_, **__: None)
    script.main()
    printed = capsys.readouterr().out.splitlines()
    page = (ROOT / "docs" / "cifar10_pilot.md").read_text("utf-8")
    assert len(printed) == 10
    assert [line for line in printed if line not in page] == []
