"""The whole road of a table: trained, calibrated, tested, predicted, compared."""

import csv
import random
from pathlib import Path

import pytest

import tepui
from refusals import refused
from tepui.cli.main import main


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


PRICE = ["--data", "Table(path=my.csv, target=price, ignore=[sold, name])"]
HOW = ["--members", "2", "--validation", "0.3", "--set", "progress=none"]
HOW += ["--optimizer", "AdamW(lr=0.01)", "--set", "batch_size=16"]


def answers(file):
    with Path(file).open(newline="") as opened:
        return list(csv.DictReader(opened))


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


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("my.csv", "data must be written Table(path=my.csv, target=COLUMN)"),
        ("ArrayFile(path=none)", "none must exist"),
        ("ImageFolder(path=none)", "path must be a folder of images, got none"),
        ("Table(path=no.csv, target=x)", "no.csv must exist"),
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
            "for a cross-entropy (tepui.losses.",
        ),
    ],
)
def test_mistakes_name_what_is_wrong(data, message, table, capsys):
    assert message in refused(["train", "--data", data, "--out", "run"], capsys)
    assert not (table / "run").exists()
