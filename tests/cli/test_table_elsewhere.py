"""Runs of tables in commands that do not read tables themselves."""

import csv
from pathlib import Path

import pytest

import tepui
from refusals import refused
from tepui.cli.main import main
from tepui.evaluation import read_evaluation

DATA = ["--data", "Table(path=flats.csv, target=price)"]
HOW = ["--loss", "MSE", "--members", "2", "--epochs", "1", "--set", "progress=none"]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The folder of a run that learned prices of flats from their sizes."""
    monkeypatch.chdir(tmp_path)
    rows = [f"{30.5 + n},{1000.5 * n}" for n in range(60)]
    (tmp_path / "flats.csv").write_text("\n".join(["size,price", *rows]))
    main(["train", *DATA, *HOW, "--out", "run"])
    return "run"


def said(capsys):
    return " ".join(capsys.readouterr().out.split())


@pytest.fixture
def elsewhere(run, tmp_path):
    """Flats of another town, in another order of columns, as the run reads them."""
    rows = [f"{900.5 * n},{40 + n}" for n in range(10)]
    (tmp_path / "town.csv").write_text("\n".join(["price,size", *rows]))
    return tepui.data.Table("flats.csv", "price").rows_of("town.csv")


def found_in(run):
    return read_evaluation(run)


def test_another_table_is_a_shift_read_by_the_rows_of_the_run(run, elsewhere):
    main(["evaluate", run, "--shifted", "town=Table(path=town.csv)"])
    (cell,) = found_in(run)["cells"]
    assert cell["rmse"] == tepui.evaluate(tepui.load(run), elsewhere).clean.rmse


def test_all_rows_of_another_table_are_tested_on(run, elsewhere, capsys):
    main(["evaluate", run, "--data", "Table(path=town.csv)"])
    assert "run: 10 samples" in said(capsys)
    expected = tepui.evaluate(tepui.load(run), elsewhere).clean
    assert found_in(run)["clean"]["rmse"] == expected.rmse


def test_another_table_without_targets_is_predicted_as_its_file_is(run, tmp_path):
    (tmp_path / "new.csv").write_text("size\n40\n41\n")
    main(["predict", run, "new.csv", "--out", "a.csv"])
    main(["predict", run, "--data", "Table(path=new.csv)", "--out", "b.csv"])
    assert Path("a.csv").read_text() == Path("b.csv").read_text()


def test_targets_of_another_table_stand_beside_its_predictions(run, elsewhere):
    main(["predict", run, "--data", "Table(path=town.csv)", "--out", "a.csv"])
    with Path("a.csv").open(newline="") as file:
        targets = [float(row["target"]) for row in csv.DictReader(file)]
    assert targets == pytest.approx([900.5 * n for n in range(10)], abs=0.1)


def test_a_table_that_was_learned_from_is_no_shift(run, capsys):
    few = ["--members", "2", "--epochs", "1", "--ensembles", "1", "--out", "out"]
    for words in (["evaluate", run], ["compare", *DATA, "--loss", "MSE", *few]):
        with pytest.raises(SystemExit):
            main([*words, "--shifted", "own=Table(path=flats.csv)"])
        message = "shifted own must be other data than members learn from, got"
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--data", "Table(path=town.csv, target=size)"],
            "target must be that of the run's own rows (price), got 'size'",
        ),
        (
            ["--data", "Table(path=town.csv, ignore=[size])"],
            "must be without ignore and kind: columns are read as",
        ),
        (["--shifted", "town=towns/b"], "data must be one of"),
        (["--ood", "far=b.csv"], "data must"),
    ],
)
def test_mistakes_about_other_tables_are_named(words, message, run, elsewhere, capsys):
    assert message in refused(["evaluate", run, *words], capsys)


def test_a_table_is_no_shift_of_other_data(elsewhere, capsys):
    quick = ["--members", "2", "--epochs", "1", "--set", "progress=none"]
    main(["train", "--out", "digits", *quick])
    table = "Table(path=a.csv, target=b)"
    error = refused(["evaluate", "digits", "--shifted", f"town={table}"], capsys)
    assert "shifted town must be no table where the data of the run are none" in error


@pytest.mark.parametrize("command", ["evaluate", "compare"])
def test_noise_for_a_table_is_refused(run, command, capsys):
    words = {"evaluate": [run], "compare": [*DATA, *HOW, "--out", "both"]}[command]
    error = refused([command, *words, "--ood", "noise=UniformNoise"], capsys)
    rule = "ood noise must be data in the form of the test data, which are no images"
    assert f"{rule}, got 'UniformNoise'" in error


def test_words_that_no_training_row_has_are_told_of_a_shift(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{n}.5,{('Oslo', 'Bern')[n % 2]},{n % 3 > 0}" for n in range(60)]
    head = "size,city,sold"
    Path("here.csv").write_text("\n".join([head, *rows]))
    there = "\n".join([head, *rows[:9]]).replace("Oslo", "Roma")
    Path("there.csv").write_text(there)
    data = ["--data", "Table(path=here.csv, target=sold)"]
    quick = ["--members", "1", "--epochs", "1", "--set", "progress=none"]
    main(["train", *data, "--out", "run", *quick])
    said = (
        r"shifted there: words that the training rows .* 5 in city \('Roma' in row 0\)"
    )
    with pytest.warns(UserWarning, match=said):
        main(["evaluate", "run", "--shifted", "there=Table(path=there.csv)"])
