import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import pytest
import torch

from refusals import refused
from tepui.cli.items import items_named, show
from tepui.cli.main import main
from tepui.cli.plan import workers_for
from tepui.cli.values import Size
from tepui.core.storage import read_document, write_document
from tepui.papers.recipe import PAPERS, Order
from tepui.papers.recipe import Size as SizeOfRecipes
from tepui.studies.executors import Processes, Slurm
from tepui.studies.job import Job
from tepui.studies.results import read_results
from tepui.studies.store import BEGINNINGS, Store

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
def test_a_panel_is_made_and_said_where(made):
    folder, _ = made
    found = read_results(folder / "out/smoke/sharpbalance/figure7a")
    assert {record.item for record in found.records} == {"sharpbalance/figure7a"}


def test_runs_of_seconds_are_not_saved_after_every_epoch(made):
    files = [*(made[0] / "store").rglob("checkpoint.json")]
    saved = [read_document(file, "checkpoint") for file in files]
    ended = {each["generation"] for each in saved if len(each["history"]) == 2}
    assert ended == {1, 2}  # those that go on from another's first part begin saved


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda document: document["settings"].update(panels=["b"], epochs=9),
            "was made with other settings (epochs, panels); --overwrite makes it again",
        ),
        (lambda document: document.pop("item"), "damaged (KeyError('item'))"),
    ],
)
def test_other_results_are_not_taken_for_those_asked_for(
    change, message, made, tmp_path, capsys
):
    folder, _ = made
    before = folder / "out/smoke/sharpbalance/figure7a/results.json"
    file = tmp_path / "smoke/sharpbalance/figure7a/results.json"
    document = read_document(before, "results")
    change(document)
    write_document(file, "results", document)
    place = ["--out", str(tmp_path), "--store", str(tmp_path / "store")]
    assert message in refused(
        ["reproduce", "sharpbalance/figure7a", "--size", "smoke", *place], capsys
    )
    assert read_document(file, "results") == document
    assert not (tmp_path / "store").exists()


def test_results_say_where_their_ensembles_were_trained(made, tmp_path):
    folder, _ = made
    store = tmp_path / "store"
    shutil.copytree(folder / "store", store)
    first = sorted(store.glob("*/run.json"))[0]
    document = read_document(first, "run")
    document["environment"]["hardware"] = "a GPU"
    write_document(first, "run", document)
    place = ["--out", str(tmp_path), "--store", str(store)]
    main(["reproduce", "sharpbalance/figure7a", "--size", "smoke", *place])
    found = read_results(tmp_path / "smoke/sharpbalance/figure7a").environment
    kinds = {row["hardware"] for row in found["trained_on"]}
    assert kinds == {"a GPU", found["hardware"]}


def started(folder):
    """Begin to make a panel in a process of its own."""
    words = ["--size", "smoke", "--out", f"{folder}/out", "--store", f"{folder}/store"]
    command = [sys.executable, "-m", "tepui", "reproduce", "sharpbalance/figure7a"]
    # What a shell does to jobs in the background would be inherited: to ignore SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            [*command, *words, "--workers", "1"],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    finally:
        signal.signal(signal.SIGINT, before)


def finished(folder):
    """Return all trained ensembles with the time of writing; the outcome comes last."""
    files = [
        f.with_name("ensemble.safetensors") for f in folder.glob("store/*/outcome.json")
    ]
    return {file: file.stat().st_mtime_ns for file in files}


@pytest.mark.slow
def test_interrupted_and_started_again_ends_as_uninterrupted(made, tmp_path):
    place = "out/smoke/sharpbalance/figure7a/results.json"
    kept = {}
    for number, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)):
        process = started(tmp_path)
        while len(finished(tmp_path)) <= len(kept) and process.poll() is None:
            time.sleep(0.005)
        process.send_signal(number)
        assert process.wait(300) == code
        assert not (tmp_path / place).exists()
        kept |= finished(tmp_path)
    assert started(tmp_path).wait(900) == 0
    assert 2 <= len(kept) < len(finished(tmp_path)) == 8
    assert kept.items() <= finished(tmp_path).items()
    whole, again = (
        read_document(folder / place, "results") for folder in (made[0], tmp_path)
    )
    assert {**again, "environment": 0} == {**whole, "environment": 0}


def test_a_folder_without_its_last_file_is_written_again(made):
    folder, words = made
    out = folder / "out/smoke/sharpbalance/figure7d"
    out.mkdir()
    (out / "results.csv").write_text("cut off")
    main(["reproduce", "sharpbalance/figure7d", *words])
    assert read_results(out).records
    assert (out / "results.csv").read_text() != "cut off"


@pytest.mark.slow
def test_what_is_complete_is_written_while_the_rest_is_made(tmp_path, monkeypatch):
    module = sys.modules["tepui.studies.store"]
    train, begun = module.train, set()

    def stopping(*args, **settings):
        if settings["out"].parent.name != BEGINNINGS:
            begun.add(settings["out"])
        if len(begun) > 8:
            raise ValueError("stopped")
        return train(*args, **settings)

    monkeypatch.setattr(module, "train", stopping)
    names = ["sharpbalance/figure7a", "sharpbalance/figure13a"]
    place = ["--out", str(tmp_path / "out"), "--store", str(tmp_path / "store")]
    with pytest.raises(SystemExit):
        main(["reproduce", *names, "--size", "smoke", *place, "--workers", "1"])
    assert (tmp_path / "out/smoke/sharpbalance/figure7a/results.json").exists()
    assert not (tmp_path / "out/smoke/sharpbalance/figure13a/results.json").exists()


def test_a_long_plan_is_looked_through_once_while_it_is_carried_out(
    tmp_path, monkeypatch
):
    done, asked, made = set(), [], []

    def steps_left(job, store):
        asked.append(job.trial.digest)
        return 0 if job.trial.digest in done else 1

    def carry_out(jobs, store, *, ended, **settings):
        asked.clear()
        for job in jobs:
            done.add(job.trial.digest)
            assert not made
            ended()

    monkeypatch.setattr(Job, "steps_left", steps_left)
    monkeypatch.setattr("tepui.studies.jobs.carry_out", carry_out)
    papers = sys.modules["tepui.papers.reproduce"]
    monkeypatch.setattr(papers, "make", lambda *args: made.append(args))
    monkeypatch.setattr("tepui.cli.items.show", lambda *args: None)
    place = ["--out", str(tmp_path / "out"), "--store", str(tmp_path / "store")]
    many = ["--size", "smoke", "--ensembles", "30"]
    main(["reproduce", "sharpbalance/figure7a", *many, *place])
    assert len(made) == 1
    assert len(done) > 100
    assert len(asked) < 2 * len(done)


def test_overwriting_keeps_trained_ensembles(made):
    folder, words = made
    runs = {path: path.stat().st_mtime_ns for path in folder.glob("store/*/run.json")}
    main(["reproduce", "sharpbalance/figure7a", *words, "--overwrite"])
    assert runs
    assert all(path.stat().st_mtime_ns == time for path, time in runs.items())


def test_another_panel_of_the_same_data_trains_nothing(made, capsys):
    _, words = made
    main(["reproduce", "sharpbalance/figure7d", *words, "--dry-run"])
    shown = lines(capsys)
    assert "all, each ensemble once" not in shown
    row = next(line for line in shown.splitlines() if "figure7d" in line)
    assert [cell.strip() for cell in row.split("│")[2:5]] == ["8", "8", "0"]


def test_the_plan_shows_each_panel_and_shared_work_once(made, capsys):
    folder, words = made
    items = ["sharpbalance/figure7a", "sharpbalance/figure7d"]
    fresh = [*words[:-1], str(folder / "fresh")]
    main(["reproduce", *items, *fresh, "--dry-run"])
    rows = [line for line in lines(capsys).splitlines() if line.startswith("│")]
    shown = [[cell.strip() for cell in row.split("│")[1:5]] for row in rows]
    assert [row[0] for row in shown[:3]] == [*items, "all, each ensemble once"]
    assert shown[0][1:] == shown[1][1:] == shown[2][1:] == ["8", "0", "24"]


def test_list_names_figures_and_diagrams(capsys):
    main(["reproduce", "--list"])
    shown = lines(capsys)
    assert "sharpbalance/figure7 " in shown
    assert "diagram" in shown


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


@pytest.mark.parametrize(("processors", "workers"), [({1}, 1), ({0, 2, 5}, 3)])
def test_on_a_cpu_as_many_workers_as_processors_that_may_be_used(
    processors, workers, tmp_path, monkeypatch
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: processors, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    store = Store(tmp_path, device="cpu")
    for size in ("small", "paper"):
        assert workers_for(None, store, size, Processes()) == workers
        assert workers_for(7, store, size, Processes()) == 7


def test_without_a_say_of_the_system_all_processors_count(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert workers_for(None, Store(tmp_path, device="cpu"), "small", Processes()) == 4


@pytest.mark.parametrize("kind", ["mps", "xpu"])
def test_on_any_other_device_one_worker(kind):
    store = SimpleNamespace(device=torch.device(kind))
    assert workers_for(None, store, "small", Processes()) == 1
    assert workers_for(None, store, "small", Slurm()) is None


@pytest.mark.parametrize(
    ("size", "gibibytes", "workers"),
    [("small", 140, 16), ("small", 24, 6), ("smoke", 3, 1), ("paper", 140, 1)],
)
def test_a_gpu_has_as_many_workers_as_fit_into_it(
    monkeypatch, size, gibibytes, workers
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(16), raising=False)
    memory = (gibibytes * 2**30, 141 * 2**30)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: memory)
    store = SimpleNamespace(device=torch.device("cuda"))
    assert workers_for(None, store, size, Processes()) == workers


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
    said = " ".join(each["what"] for each in found.settings["differs"])
    assert "cifar10: ensembles 1 for 3, epochs 1 for 200" in said
    assert {record.n for record in found.records} == {1}
    assert [*dict.fromkeys(record.method for record in found.records)] == [
        "sam",
        "deep_ensemble",
    ]
    plain = read_results(folder / "out/smoke" / item)
    assert plain.size == "smoke"
    assert "overrides" not in plain.settings


def test_the_released_rule_is_trained_beside_the_papers(made, capsys):
    folder, words = made
    found = read_results(folder / "out/smoke/sharpbalance/figure7a")
    assert {"sharpbalance", "sharpbalance_released"} <= {
        r.method for r in found.records
    }
    given = ["--methods", "sharpbalance_released"]
    main(["reproduce", "sharpbalance/figure7a", *words, *given, "--dry-run"])
    row = next(line for line in lines(capsys).splitlines() if "figure7a" in line)
    assert [cell.strip() for cell in row.split("│")[2:5]] == ["2", "2", "0"]


def test_the_plan_says_what_differs_from_the_paper(made, capsys):
    _, words = made
    items = ["sharpbalance/figure7a", "sharpbalance/figure7b"]
    main(["reproduce", *items, *words, "--dry-run"])
    shown = " ".join(lines(capsys).replace("│", " ").split())
    assert "what differs from the paper" in shown
    # On a narrow terminal a sentence is broken, each cell by itself.
    assert "seeds are 0, 1," in shown
    assert "SharpBalance begins" in shown


OF_OTHERS = "--size must be one of paper, small, smoke for"
HAVE = "got 'medium' (which sharpbalance/figure7, sharpbalance/figure8, "


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("sharpbalance/table4", f"{OF_OTHERS} sharpbalance/table4, {HAVE}"),
        ("sharpbalance/figure7c", "panels must be among those that medium size has"),
        ("sed/table1", f"{OF_OTHERS} sed/table1, {HAVE}"),
        ("sed", f"{OF_OTHERS} sed, {HAVE}"),
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


def test_a_table_says_what_its_errors_are(capsys):
    results = read_results(EXAMPLES.parent / "results/small/sharpbalance/table2")
    show(results, results.item, Path("out"))
    assert "±: standard error of the mean; n: how many" in lines(capsys)


@pytest.mark.parametrize(
    ("item", "replaced"),
    [
        ("small/sharpbalance/table2", "corrupted Digits for cifar10_c"),
        ("small/rethinking/table1", "Digits for cifar10, corrupted Digits for"),
        ("medium/sharpbalance/table2", ""),
        ("small/sharpbalance/figure2", ""),
    ],
)
def test_a_table_says_what_its_data_were(item, replaced, capsys):
    results = read_results(EXAMPLES.parent / "results" / item)
    show(results, results.item, Path("out"))
    said = " ".join(lines(capsys).split())
    assert (f"not the paper's data: {replaced}" in said) == bool(replaced)
    assert ("not the paper's data" in said) == bool(replaced)
    if item.endswith("table2"):
        used = "corrupted Digits" if replaced else "corrupted CIFAR10"
        assert used in said


@pytest.mark.parametrize(
    ("command", "more", "shown"),
    [
        ("reproduce", [], "own_figure_of_a_test │"),
        ("sweep", ["--grid", "rho=0.1,0.2"], "1 search, 2 ensembles"),
    ],
)
def test_a_recipe_in_a_file_of_this_folder_is_named_by_it(
    command, more, shown, tmp_path, monkeypatch, capsys
):
    (tmp_path / "own_figure_of_a_test.py").write_text(
        (EXAMPLES / "recipe.py").read_text()
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    main([command, "own_figure_of_a_test", "--size", "smoke", *more, "--dry-run"])
    assert shown in " ".join(lines(capsys).split())


def test_sizes_are_those_of_recipes():
    assert get_args(Size) == get_args(SizeOfRecipes)


def test_all_is_what_the_papers_print(tmp_path):
    order = Order("smoke")
    papers = {item.name.split("/")[0] for item in items_named(["all"], order, tmp_path)}
    assert papers == {*PAPERS}
