"""Choosing hyperparameters on the command line."""

import json

import pytest

from data_layouts import picture
from refusals import refused
from tepui.cli.main import main
from tepui.cli.searching import document
from tepui.data import Digits
from tepui.methods import SAM
from tepui.models import MLP
from tepui.papers.recipe import Order, look_up
from tepui.papers.writing import as_json
from tepui.studies.specifications import Samples, Trial
from tepui.studies.sweep import Outcome, Row, searches
from tepui.training import TrainingSpec


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


GRID = ["sharpbalance/figure7a", "--size", "smoke", "--grid", "rho=0.05,0.2"]


def test_a_sweep_writes_what_it_chose(place, capsys):
    main(["sweep", *GRID, "fraction=0.4,1", "--workers", "1"])
    shown = capsys.readouterr().out
    # the rule of the paper and that of the released code
    assert "2 searches, 8 ensembles, 0 trained, 20 member-epochs left" in shown
    folder = place / "sweeps" / "smoke" / "sharpbalance" / "figure7a" / "fraction+rho"
    written = json.loads((folder / "sweep.json").read_text())
    assert written["grid"] == {"rho": [0.05, 0.2], "fraction": [0.4, 1]}
    assert written["ensembles"] == 1
    assert len(written["searches"]) == 2
    for found in written["searches"]:
        cells = found["cells"]
        assert [cell["values"] for cell in cells] == [
            {"rho": rho, "fraction": share} for rho in (0.05, 0.2) for share in (0.4, 1)
        ]
        best = max(cells, key=lambda c: (c["accuracy"], [-n for n in c["nll"]]))
        assert found["chosen"] == best["values"]
    assert (folder / "table.md").read_text().count("| * |") == 2
    assert "exists; pass overwrite" in refused(
        ["sweep", *GRID, "fraction=0.4,1"], capsys
    )
    main(["sweep", *GRID, "fraction=0.4,1", "--dry-run"])
    assert "8 trained, 0 member-epochs left" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sharpbalance/figure7x", "--grid", "rho=1"], "near: sharpbalance/figure7a"),
        (["sharpbalance/figure6", "--grid", "rho=1"], "has no methods to vary"),
        (
            ["sharpbalance/figure2", "--grid", "rho=1"],
            "recipe must train and test ensembles",
        ),
        (["sharpbalance/table7"], "grid must name at least one hyperparameter"),
        (["sharpbalance/table7", "--grid", "rho"], "be written NAME=VALUE"),
        (["sharpbalance/table7", "--grid", "rho=0.1,"], "be written NAME=VALUE"),
        (
            ["sharpbalance/table7", "--grid", "rho=1", "rho=2"],
            "each hyperparameter once",
        ),
        (["sharpbalance/table7", "--grid", "rho=NaN"], "rho must be float for SAM"),
        (["sharpbalance/table7", "--grid=fration=1"], "did you mean 'fraction'"),
        (
            ["sharpbalance/table7", "--grid", "alpha=0.1", "fraction=0.4"],
            "{'alpha': ['GSAM'], 'fraction': ['SharpBalance']}",
        ),
    ],
)
def test_mistakes_are_named_before_anything_is_trained(words, message, place, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["sweep", "--size", "smoke", *words])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
    assert not any(place.iterdir())


def test_what_sees_test_data_is_left_out(place, capsys):
    words = ["sed/table1", "--size", "smoke", "--dry-run", "--ensembles", "2"]
    main(["sweep", *words, "--grid", "weight=0.1,1"])
    shown = capsys.readouterr().out
    assert "1 search, 4 ensembles" in shown  # two weights, two repetitions
    assert "DivDis, A2D left out: their unlabeled data are test data" in shown


def test_extractors_are_not_searched(place, capsys):
    main(["sweep", "sed/figure3", "--size", "smoke", "--dry-run", "--grid", "epochs=3"])
    shown = capsys.readouterr().out
    assert "2 searches, 2 ensembles" in shown  # one for each weight of the figure


def test_values_that_diverge_are_written_down_as_such(place, capsys):
    words = ["sharpbalance/figure7a", "--size", "smoke", "--workers", "1"]
    main(["sweep", *words, "--grid", "lr=0.1,1e30", "rho=0.05"])
    folder = place / "sweeps" / "smoke" / "sharpbalance" / "figure7a" / "lr+rho"
    written = json.loads((folder / "sweep.json").read_text())
    for found in written["searches"]:
        assert found["chosen"] == {"lr": 0.1, "rho": 0.05}
        assert [cell["diverged"] for cell in found["cells"]] == [False, True]
        assert found["cells"][1]["accuracy"] == []
    table = (folder / "table.md").read_text()
    assert table.count("| 1e+30 | 0.05 | diverged |") == len(written["searches"]) == 3
    assert "training diverged at all values of the grid" in refused(
        ["sweep", *words, "--grid", "lr=1e30"], capsys
    )


def test_a_missing_likelihood_is_written_as_missing():
    how = TrainingSpec(method=SAM(), epochs=1)
    trial = Trial(Samples(Digits), MLP, how, seeds=(0,))
    (planned,) = searches([trial], {"rho": [0.1]})
    scores = {"accuracy": (0.5,), "individual_accuracy": (0.5,), "nll": (None,)}
    row = Row({"rho": 0.1}, scores)
    written = document(planned, Outcome((row,), row))
    assert json.loads(as_json(written))["cells"][0]["nll"] == [None]


@pytest.mark.parametrize(
    ("item", "name", "found"),
    [
        ("sharpbalance/figure5", "rho", 3),  # two widths and a sparsity
        ("sharpbalance/figure8a", "rho", 5),  # SAM, SharpBalance of two and three
        ("rethinking/table1", "rho", 3),  # plain, augmented, decayed
        ("sed/figure3", "weight", 1),
        ("sed/table2", "weight", 2),  # SED of two sizes
    ],
)
def test_searches_of_a_recipe_are_told_apart_and_repeated(item, name, found):
    _, recipe, panels = look_up(item)
    trials = [
        work.trial for work in recipe.plan(Order("smoke", panels)) if work.evaluations
    ]
    planned = searches(trials, {name: [0.1, 0.2]}, ensembles=2)
    assert len({each.label for each in planned}) == len(planned) == found
    for each in planned:
        for cell in each.combinations:
            firsts = [trial.seeds[0] for trial in cell.trials]
            assert firsts == ([0] if item.startswith("rethinking") else [0, 1000])


OWN = ["sweep", "--data", "Digits", "--model", "MLP(hidden=[8])", "--method", "SAM"]
OWN += ["--epochs", "1", "--members", "2"]


def test_a_job_of_ones_own_is_swept(place, capsys):
    words = [*OWN, "--grid", "rho=0.05,0.2", "lr=0.1", "--workers", "1"]
    words += ["--loss", "CrossEntropy(class_weights=[1, 1, 1, 1, 1, 1, 1, 1, 1, 2])"]
    words += ["--set", "batch_size=256", "schedule=Cosine(warmup=1)"]
    main([*words, "--ensembles", "2"])
    assert "1 search, 4 ensembles" in capsys.readouterr().out
    (file,) = place.rglob("sweep.json")
    assert file.parent == place / "sweeps" / "own" / "Digits-MLP-SAM" / "lr+rho"
    written = json.loads(file.read_text())
    assert (written["recipe"], written["size"]) == (None, None)
    (found,) = written["searches"]
    assert [cell["values"]["rho"] for cell in found["cells"]] == [0.05, 0.2]
    assert all(len(cell["accuracy"]) == 2 for cell in found["cells"])
    best = max(found["cells"], key=lambda c: (sum(c["accuracy"]), -sum(c["nll"])))
    assert found["chosen"] == best["values"]
    training = found["base"]["training"]
    assert training["batch_size"] == 256
    assert training["schedule"]["warmup"] == 1
    assert training["loss"]["class_weights"] == [*[1.0] * 9, 2.0]
    assert found["base"]["model"]["hidden"] == [8]
    main([*words, "--ensembles", "2", "--dry-run"])
    assert "4 trained, 0 member-epochs left" in capsys.readouterr().out


def test_data_that_changed_are_trained_on_again(place, capsys):
    for name in ("ant", "bee"):
        for image in range(10):
            picture(place / "photos" / name / f"{image}.png", size=(8, 8))
    words = ["sweep", "--data", "ImageFolder(path=photos)", "--epochs", "1"]
    words += ["--members", "1", "--grid", "lr=0.1,0.2", "--workers", "1"]
    main(words)
    picture(place / "photos" / "ant" / "new.png", size=(8, 8))
    capsys.readouterr()
    main([*words, "--dry-run"])
    assert "0 trained" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sweep", "--grid", "rho=1"], "--data must be given, or the name of a figure"),
        (["sweep", *GRID, "--data", "Digits"], "data must be left out with a recipe"),
        (
            ["sweep", *GRID, "--set", "batch_size=8"],
            "batch_size must be left out with a",
        ),
        (["sweep", *GRID, "--epochs", "3"], "epochs must be left out with a recipe"),
        (
            ["sweep", *GRID, "--loss", "CrossEntropy(label_smoothing=0.1)"],
            "loss must be left out with a recipe",
        ),
        ([*OWN, "--grid", "lr=0.1", "--size", "paper"], "--size must go with a recipe"),
        ([*OWN, "--grid", "alpha=1"], "grid must be one of"),
        (
            ["sweep", "--data", "Digits", "--method", "A2D", "--grid", "lr=0.1"],
            "--method must name a method that needs no unlabeled data",
        ),
    ],
)
def test_what_a_sweep_cannot_take_is_said(words, message, place, capsys):
    assert message in refused(words, capsys)
