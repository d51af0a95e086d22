"""The whole road of a table: trained, calibrated, tested, predicted, compared."""

import csv
import random
from pathlib import Path

import numpy as np
import pytest

import tepui
from refusals import refused
from tepui.cli.main import main
from tepui.evaluation import new_samples
from tepui.evaluation.shards import ShardedPredictions, predict_shards


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draw, lines = random.Random(0), ["age,city,sold,price,name"]
    for row in range(150):
        age, city = draw.gauss(40, 10), draw.choice(["Bern", "Oslo", "Rome"])
        high = age + 20 * (city == "Rome") > 45
        sold = "yes" if high != (row % 10 == 0) else "no"  # a tenth is wrong
        lines.append(f"{age:.1f},{city},{sold},{200_000 + 3000 * age:.2f},N{row}")
    (tmp_path / "my.csv").write_text("\n".join(lines))
    return tmp_path


SOLD = ["--data", "Table(path=my.csv, target=sold, ignore=[price, name])"]
PRICE = ["--data", "Table(path=my.csv, target=price, ignore=[sold, name])"]
HOW = ["--members", "2", "--validation", "0.3", "--set", "progress=none"]
HOW += ["--optimizer", "AdamW(lr=0.01)", "--set", "batch_size=16"]


def answers(file):
    with Path(file).open(newline="") as opened:
        return list(csv.DictReader(opened))


def said(capsys):
    return " ".join(capsys.readouterr().out.split())


def test_classes_from_the_file_to_answers_about_new_rows(table, capsys):
    main(["train", *SOLD, *HOW, "--epochs", "20", "--out", "run"])
    assert "next: tepui calibrate run" in said(capsys)
    main(["calibrate", "run"])
    main(["evaluate", "run"])
    output = capsys.readouterr()
    assert "no corrupted data, since inputs are not images" in output.err
    assert "corrupted" not in output.out
    main(["report", "run"])
    assert "my.csv, to predict sold" in (table / "run/report.html").read_text()
    (table / "new.csv").write_text("city,age\nOslo,20\nOslo,60\nParis,70\n")
    main(["predict", "run", "new.csv", "--out", "out.csv"])
    told = said(capsys)
    found = answers("out.csv")
    unknown = "words that the training rows do not have, seen as none of theirs"
    assert f"{unknown}: 1 in city ('Paris' in row 2)" in told
    assert "missing values" not in told
    assert "unlike the training data (level 0.99" in told
    assert "level 0.99 wants 99 held-out samples, got 36: of inputs like those" in told
    assert [row["class"] for row in found] == ["no", "yes", "yes"]
    assert "target" not in found[0]
    main(["predict", "run", "--out", "test.csv"])
    assert len(answers("test.csv")) == 30


def test_numbers_are_answered_in_the_unit_of_the_table(table, capsys):
    loss = ["--loss", "GaussianNLL"]
    main(["train", *PRICE, *loss, *HOW, "--epochs", "40", "--out", "run"])
    main(["calibrate", "run", "--coverage", "0.8"])
    main(["evaluate", "run"])
    (table / "new.csv").write_text("age,city\n40,Oslo\n50,Rome\n")
    capsys.readouterr()
    main(["predict", "run", "new.csv", "--out", "out.csv"])
    for row, truth in zip(answers("out.csv"), (320_000, 350_000), strict=True):
        assert float(row["mean"]) == pytest.approx(truth, rel=0.05)
        assert float(row["lower_0.9"]) < float(row["mean"]) < float(row["upper_0.9"])
        assert float(row["conformal_lower_0.8"]) < float(row["conformal_upper_0.8"])
        spread = float(row["aleatoric_variance"]) + float(row["epistemic_variance"])
        assert float(row["std"]) == pytest.approx(spread**0.5, rel=1e-4)
        assert "target" not in row
    own = tepui.load("run").predict("new.csv")
    bounds = zip(
        ("lower", "upper"), own.interval(0.9), own.conformal_interval, strict=True
    )
    in_python = {name: getattr(own, name) for name in ("mean", "std")}
    in_python["epistemic_variance"] = own.epistemic
    for name, bound, conformal in bounds:
        in_python |= {f"{name}_0.9": bound, f"conformal_{name}_0.8": conformal}
    for name, values in in_python.items():
        written = [float(row[name]) for row in answers("out.csv")]
        assert values[:, 0].tolist() == pytest.approx(written, rel=1e-4)
    main(["predict", "run", "--out", "test.csv"])
    targets = {round(float(row["target"])) for row in answers("test.csv")}
    assert targets <= {round(float(row["price"])) for row in answers("my.csv")}


def test_a_page_of_numbers_names_the_column(table):
    loss = ["--loss", "GaussianNLL"]
    main(["train", *PRICE, *loss, *HOW, "--epochs", "1", "--out", "run"])
    main(["calibrate", "run", "--coverage", "0.9"])
    main(["evaluate", "run"])
    main(["report", "run"])
    page = (table / "run/report.html").read_text()
    assert "my.csv, to predict price" in page
    assert "Coverage of conformal intervals" in page
    assert "conformal sets" not in page


def test_rows_are_called_by_their_places_and_by_what_is_carried_over(table, capsys):
    main(["train", *PRICE, *HOW, "--epochs", "1", "--loss", "MSE", "--out", "run"])
    (table / "new.csv").write_text("id,age,city\n\nx7,40,Oslo\ny9,50,Rome\n")
    main(["predict", "run", "new.csv", "--carry", "id", "city", "--out", "out.csv"])
    rows = answers("out.csv")
    assert [*rows[0]][:4] == ["sample", "row", "id", "city"]
    called = [tuple(row[n] for n in ("sample", "row", "id")) for row in rows]
    assert called == [("0", "0", "x7"), ("1", "1", "y9")]
    run = tepui.Run.open("run")
    found = run.predict("new.csv", carry="id")
    assert found.named == {"row": [0, 1], "id": ["x7", "y9"]}
    assert "largest for row " in str(found)
    written = [float(row["mean"]) for row in rows]
    assert found.mean[:, 0].tolist() == pytest.approx(written, rel=1e-6)
    own = run.predict(carry=["name", "price"])  # the test part of the run's file
    lines = (table / "my.csv").read_text().splitlines()
    for row, name, price in zip(*own.named.values(), strict=True):
        cells = lines[row + 1].split(",")
        assert [float(cells[3]), cells[4]] == [price, name]
    main(["predict", "run", "--carry", "price", "--out", "own.csv"])
    for row in answers("own.csv"):
        assert float(row["target"]) == pytest.approx(float(row["price"]), rel=1e-6)
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["predict", "run", "new.csv", "--carry", "Id", "--overwrite"])
    assert "carry must be one of id, age, city, got 'Id'" in capsys.readouterr().err


def test_missing_values_that_are_filled_are_said(table, capsys):
    text = (table / "my.csv").read_text().replace("Bern", "", 3)
    (table / "my.csv").write_text(text)
    main(["train", *SOLD, *HOW, "--epochs", "1", "--out", "run"])
    (table / "new.csv").write_text("city,age,x\nOslo,,1\n,60,1\nOslo,?,1\nRiga,1,1\n")
    capsys.readouterr()
    main(["predict", "run", "new.csv", "--out", "out.csv"])
    told = said(capsys)
    filled = "numbers filled by the mean of the training rows"
    assert f"missing values, {filled}: 2 in age (row 0), 1 in city (row 1)" in told
    assert "seen as none of theirs: 1 in city ('Riga' in row 3)" in told
    assert "columns that were not learned: x" in told
    remarks = tepui.load("run").preparation.apply("new.csv").remarks
    assert len(remarks) == 3
    assert all(" ".join(words.split()) in told for words in remarks)


def test_new_rows_are_read_once_and_parts_no_more_than_needed(
    table, capsys, monkeypatch
):
    main(["train", *SOLD, *HOW, "--epochs", "1", "--out", "run"])
    new, reads = table / "new.csv", []

    def predicting(*arguments, **options):
        new.unlink(missing_ok=True)  # what is needed of it was read
        return predict_shards(*arguments, **options)

    def reading(shards):
        reads.append(shards.samples)
        return shards_of(shards)

    shards_of = ShardedPredictions.shards
    monkeypatch.setattr(new_samples, "predict_shards", predicting)
    monkeypatch.setattr(ShardedPredictions, "shards", reading)
    new.write_text("city,age\nRiga,20\n")
    capsys.readouterr()
    main(["predict", "run", "new.csv", "--out", "out.csv"])
    assert "seen as none of theirs: 1 in city ('Riga' in row 0)" in said(capsys)
    assert reads == [1]  # to write them
    main(["calibrate", "run", "--coverage", "0.9"])
    main(["predict", "run", "--out", "test.csv"])
    assert reads == [1, 30, 30]  # to write and to count them


def test_names_of_columns_are_taken_whole(table, capsys):
    names = ["hours per week", "income (USD)", "no", "1", "a, b", "{x", "null"]
    with (table / "odd.csv").open("w", newline="") as file:
        rows = [["age", *names, "sold"]]
        rows += [
            [row / 2, *[f"{n}{row}" for n in names], "yn"[row % 2]]
            for row in range(150)
        ]
        csv.writer(file).writerows(rows)
    data = ["--data", f"Table(path=odd.csv, target=sold, ignore={names})"]
    how = [*HOW, "--epochs", "1", "--out", "run"]
    main(["train", *data, *how])
    (table / "new.csv").write_text("age\n3\n4\n")
    main(["predict", "run", "new.csv", "--out", "out.csv"])
    assert len(answers("out.csv")) == 2


def test_a_comparison_needs_no_further_option(table, capsys):
    how = ["--methods", "DeepEnsemble", "SAM", "--members", "2", "--ensembles", "1"]
    how += [
        "--epochs",
        "1",
        "--set",
        "sharpness=0",
        "progress=none",
        "--out",
        "compared",
    ]
    main(["compare", *SOLD, *how])
    output = capsys.readouterr()
    assert "no corrupted data, since inputs are not images" in output.err
    assert "next: tepui report compared --open" in output.out
    (table / "new.csv").write_text("age,city\n40,Oslo\n")
    main(["predict", "compared/SAM/0", "new.csv", "--out", "out.csv"])
    assert len(answers("out.csv")) == 1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("my.csv", "--data must be written Table(path=my.csv, target=COLUMN)"),
        ("ArrayFile(path=none)", "none must exist"),
        ("ImageFolder(path=none)", "path must be a folder of images, got none"),
        ("Table(path=no.csv, target=x)", "no.csv must exist; its folder holds my.csv"),
        ("Table(path=my.csv)", "Table: missing a required argument: 'target'"),
        (
            "Table(path=my.csv, target=sell)",
            "target must be one of age, city, sold, price, name, got 'sell'",
        ),
        (
            "Table(path=my.csv, target=sold)",
            "column 'name' of my.csv must hold numbers, dates such as 2024-05-31, or",
        ),
        (
            "Table(path=my.csv, target=sold, ignore=[x, name])",
            "ignore must be one of age, city, sold, price, name, got 'x'",
        ),
        (
            "Table(path=my.csv, target=price, ignore=[name])",
            "--loss must be given for numbers to predict, such as MSE or GaussianN",
        ),
    ],
)
def test_mistakes_name_what_is_wrong(data, message, table, capsys):
    assert message in refused(["train", "--data", data, "--out", "run"], capsys)
    assert not (table / "run").exists()


def test_tables_and_arrays_are_not_mixed_up(table, capsys):
    main(["train", *SOLD, *HOW, "--epochs", "1", "--out", "run"])
    (table / "short.csv").write_text("age\n40\n")
    np.save(table / "rows.npy", np.zeros((2, 2)))
    for inputs, message in (
        ("rows.npy", "rows.npy must be a table: 'utf-8' codec can't decode"),
        ("short.csv", "short.csv must have 1 column more: city, got ['age']"),
    ):
        with pytest.raises(SystemExit):
            main(["predict", "run", inputs])
        assert message in capsys.readouterr().err
