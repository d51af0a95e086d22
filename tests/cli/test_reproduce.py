import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from refusals import refused
from tepui.cli.items import show, workers_for
from tepui.cli.main import main
from tepui.core.storage import read_lines
from tepui.studies.executors import Processes, Slurm
from tepui.studies.results import read_results, results_of

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def lines(capsys):
    return capsys.readouterr().out


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    words = ["--size", "smoke", "--out", f"{folder}/out", "--store", f"{folder}/store"]
    main(["reproduce", "sharpbalance/figure7a", *words, "--workers", "1"])
    return folder, words


@pytest.mark.slow
def test_what_is_there_is_kept_and_the_rest_is_made(made, capsys):
    folder, words = made
    file = folder / "out/smoke/sharpbalance/figure7a/results.json"
    before = file.stat().st_mtime_ns
    main(["reproduce", "sharpbalance/figure7a", "rethinking/figure1", *words])
    shown = lines(capsys).replace("\n", "")
    assert "figure7a is there; --overwrite makes it again" in shown
    assert file.stat().st_mtime_ns == before
    read_results(folder / "out/smoke/rethinking/figure1")


def test_a_folder_without_its_last_file_is_written_again(made):
    folder, words = made
    out = folder / "out/smoke/sharpbalance/figure7d"
    out.mkdir()
    (out / "results.csv").write_text("cut off")
    main(["reproduce", "sharpbalance/figure7d", *words])
    assert read_results(out).records
    assert (out / "results.csv").read_text() != "cut off"


def test_the_plan_shows_each_panel_and_shared_work_once(made, capsys):
    folder, words = made
    items = ["sharpbalance/figure7a", "sharpbalance/figure7d"]
    fresh = [*words[:-1], str(folder / "fresh")]
    main(["reproduce", *items, *fresh, "--dry-run"])
    rows = [line for line in lines(capsys).splitlines() if line.startswith("│")]
    shown = [[cell.strip() for cell in row.split("│")[1:5]] for row in rows]
    assert [row[0] for row in shown[:3]] == [*items, "all, each ensemble once"]
    assert shown[0][1:] == shown[1][1:] == shown[2][1:] == ["8", "0", "24"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "the name of a figure or table must be given, such as sharpbalance"),
        (["sharpbalance/figure77"], "near: sharpbalance/figure7"),
        (["sharpbalance/figure6"], "has no numbers to make"),
        (["sharpbalance/figure7", "--device", "gpu"], "device must be one that torch"),
    ],
)
def test_mistakes_are_named(words, message, capsys):
    assert message in refused(["reproduce", *words], capsys)


def test_missing_data_say_how_to_get_them(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TEPUI_DATA", str(tmp_path / "data"))
    words = ["--size", "paper", "--out", f"{tmp_path}/o", "--store", f"{tmp_path}/s"]
    assert "tepui data fetch CIFAR10" in refused(
        ["reproduce", "sharpbalance/figure7d", *words], capsys
    )
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("kind", "executor", "asked", "workers"),
    [
        ("cpu", Processes(), None, None),
        ("cpu", Processes(), 7, 7),
        ("cuda", Processes(), None, 1),
        ("cuda", Processes(), 3, 3),
        ("mps", Processes(), None, 1),
        ("xpu", Slurm(), None, None),
    ],
)
def test_on_a_device_but_the_cpu_one_worker(kind, executor, asked, workers):
    store = SimpleNamespace(device=torch.device(kind))
    assert workers_for(asked, store, executor) == workers


def words_for(folder):
    place = ["--out", f"{folder}/out", "--store", f"{folder}/store"]
    return ["--size", "smoke", *place, "--workers", "1"]


def test_overrides_are_recorded_and_filed_apart(made, capsys):
    folder, words = made
    item = "sharpbalance/figure7a"
    given = ["--epochs", "1", "--ensembles", "1", "--methods", "sam", "deep_ensemble"]
    main(["reproduce", item, *words, *given, "--workers", "1"])
    label = "smoke+epochs=1+ensembles=1+methods=sam,deep_ensemble"
    found = read_results(folder / "out" / label / item)
    assert found.size == label
    assert found.settings["overrides"] == {
        "epochs": 1,
        "ensembles": 1,
        "methods": ["sam", "deep_ensemble"],
    }
    assert found.settings["cifar10"]["epochs"] == 1
    said = " ".join(found.settings["differs"])
    assert "cifar10: epochs 1 for 200, ensembles 1 for 3" in said
    assert {record.n for record in found.records} == {1}
    assert [*dict.fromkeys(record.method for record in found.records)] == [
        "sam",
        "deep_ensemble",
    ]
    plain = read_results(folder / "out/smoke" / item)
    assert plain.size == "smoke"
    assert "overrides" not in plain.settings


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("sharpbalance/table4", "size must be one of paper, small, smoke, got 'm"),
        ("sharpbalance/figure7c", "panels must be among those that medium size has"),
        ("sed/table1", "size must be one of paper, small, smoke, got 'medium'"),
        ("sed", "size must be one that sed has, got 'medium'"),
    ],
)
def test_what_medium_size_does_not_have_is_refused(item, message, capsys):
    assert message in refused(
        ["reproduce", item, "--size", "medium", "--dry-run"], capsys
    )


def test_a_whole_paper_is_what_medium_size_has_of_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TEPUI_DATA", str(tmp_path))
    place = ["--store", str(tmp_path / "store"), "--dry-run"]
    main(["reproduce", "sharpbalance", "--size", "medium", *place])
    shown = lines(capsys)
    assert "sharpbalance/figure7 " in shown
    assert "sharpbalance/table4 " not in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sharpbalance/figure2", "--epochs", "3"], "epochs must be left out"),
        (["sharpbalance/figure7a", "--epochs", "0"], "epochs must be positive"),
        (["sharpbalance/figure7a", "--members", "-1"], "members must be positive"),
        (["sharpbalance/figure7a", "--methods", "sm"], "methods must be one of"),
        (["rethinking/table1", "--ensembles", "2"], "ensembles must be left out"),
        (["tests.nothing"], "item must name a module with a recipe, got 'tests."),
        (["tepui.papers.recipe"], "must hold a Recipe named RECIPE"),
    ],
)
def test_what_a_recipe_cannot_take_is_refused(words, message, tmp_path, capsys):
    assert message in refused(["reproduce", *words, *words_for(tmp_path)], capsys)
    assert not (tmp_path / "store").exists()


@pytest.mark.slow
def test_a_recipe_of_ones_own_is_made_by_the_path_of_its_module(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(EXAMPLES.parent)
    monkeypatch.setattr(sys, "path", [*sys.path])
    main(["reproduce", "examples.recipe", *words_for(tmp_path)])
    found = read_results(tmp_path / "out/smoke/examples.recipe")
    assert [record.at["rho"] for record in found.find(dataset="digits")] == [
        0,
        0.05,
        0.2,
    ]
    assert {record.n for record in found.records} == {2}
    assert (
        "| examples/recipe | digits | sam | 0.05 |"
        in (tmp_path / "out/smoke/examples.recipe/table.md").read_text()
    )


def committed(name):
    file = EXAMPLES.parents[1] / "research" / "papers.jsonl"
    every = map(results_of, read_lines(file, "results"))
    return next(each for each in every if f"{each.size}/{each.item}" == name)


@pytest.mark.parametrize(
    ("item", "replaced"),
    [
        ("small/sharpbalance/table2", "corrupted Digits for cifar10_c"),
        ("small/rethinking/table1", "Digits for cifar10, corrupted Digits for"),
        ("medium/sharpbalance/table2", ""),
    ],
)
def test_a_table_says_what_its_data_were(item, replaced, capsys):
    results = committed(item)
    show(results, Path("out"))
    said = " ".join(lines(capsys).split())
    assert (f"not the paper's data: {replaced}" in said) == bool(replaced)
    assert ("not the paper's data" in said) == bool(replaced)
