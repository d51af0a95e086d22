"""Tables in CSV files, compared with scikit-learn's own preprocessing."""

import csv
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import tepui
from tepui.data import Preparation, Table
from tepui.data.files.cell_numbers import number_in, numbers_in
from tepui.data.files.table_rows import read_table
from tepui.data.preparation import preparation_of

NAMES = ["age", "city", "income", "sold", "price"]


def written(path, rows, names=NAMES, delimiter=","):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=delimiter).writerows([names, *rows])
    return path


def rows(count=60):
    draw = np.random.default_rng(0)
    return [
        [
            f"{draw.normal(40, 10):.3f}",
            str(draw.choice(["Bern", "Oslo", "Rome"])),
            f"{draw.normal(3e4, 5e3):.0f}",
            "yes" if draw.random() < 0.4 else "no",
            f"{draw.normal(2e5, 3e4):.2f}",
        ]
        for _ in range(count)
    ]


def ages(data):
    """Return the first column in its own unit."""
    standardized = data.inputs[:, 0].double()
    values = standardized * data.scaling.std[0] + data.scaling.mean[0]
    return [round(value, 3) for value in values.tolist()]


@pytest.fixture
def file(tmp_path):
    return written(tmp_path / "my.csv", rows())


def test_columns_are_those_of_scikit_learn(tmp_path):
    every = rows()
    folder = tmp_path / "parts"
    folder.mkdir()
    written(folder / "train.csv", every[:40])
    written(folder / "test.csv", every[40:])
    learned = np.array(every[:40], dtype=object)
    scaler = StandardScaler().fit(learned[:, [0, 2]].astype(float))
    words = OneHotEncoder(sparse_output=False).fit(learned[:, [1]])
    for train, part in ((True, every[:40]), (False, every[40:])):
        cells = np.array(part, dtype=object)
        numbers = scaler.transform(cells[:, [0, 2]].astype(float))
        hot = words.transform(cells[:, [1]])
        expected = np.column_stack([numbers[:, 0], hot, numbers[:, 1]])
        data = Table(folder, "sold", train, ignore=("price",))
        found = data.prepare(data.inputs)
        torch.testing.assert_close(
            found, torch.from_numpy(expected).float(), rtol=1e-4, atol=1e-4
        )
        assert [data.classes[label] for label in data.targets] == list(cells[:, 3])


def test_a_fixed_fifth_of_each_class_is_the_test_part(file, tmp_path):
    train, test = (Table(file, "sold", part) for part in (True, False))
    every = [row[3] for row in rows()]
    for label, name in enumerate(train.classes):
        assert int((test.targets == label).sum()) == round(0.2 * every.count(name))
    assert len(train) + len(test) == len(every)
    assert train.normalize is None  # inputs are standardized as they stand
    cells = sorted(map(float, read_table(file).cells["age"]))
    assert sorted([*ages(train), *ages(test)]) == pytest.approx(cells, abs=5e-4)
    # Rows that are added move no row of a part into the other.
    more = written(tmp_path / "more.csv", [*rows(), *rows(70)[60:]])
    after = {*ages(Table(more, "sold", False))}
    assert len({*ages(test)} - after) <= 2


def test_numbers_to_predict_are_standardized_and_units_lead_back(file):
    train, test = (Table(file, "price", part) for part in (True, False))
    assert train.classes == ()
    assert train.targets.dtype == torch.float32
    assert float(train.targets.mean()) == pytest.approx(0, abs=1e-5)
    assert float(train.targets.std(unbiased=False)) == pytest.approx(1, rel=1e-5)
    (mean,), (std,) = train.units.mean, train.units.std
    back = torch.cat([train.targets, test.targets]).double() * std + mean
    prices = sorted(float(row[4]) for row in rows())
    assert sorted(back.tolist()) == pytest.approx(prices, rel=1e-6)


@pytest.mark.parametrize(
    ("cells", "kind", "classes"),
    [
        (["1", "0", "10", "2"], None, ("0", "1", "2", "10")),
        (["b", "a", "10", "2"], None, ("2", "10", "a", "b")),
        (["1", "0", "10", "2"], "numbers", ()),
        (["0.5", "1", "2", "3"], None, ()),
        (["0.5", "1", "2", "3"], "classes", ("0.5", "1", "2", "3")),
        ([str(number) for number in range(21)], None, ()),
    ],
)
def test_what_the_target_holds_follows_from_its_cells(cells, kind, classes, tmp_path):
    table = [[str(row), cell] for row, cell in enumerate(cells * 5)]
    path = written(tmp_path / "t.csv", table, ["x", "y"])
    assert Table(path, "y", kind=kind).classes == classes


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_signs_between_columns_are_found(delimiter, tmp_path):
    path = written(tmp_path / "t.csv", rows(), delimiter=delimiter)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())  # as spreadsheets begin
    found = read_table(path)
    assert list(found.cells) == NAMES
    assert found.cells["city"] == [row[1] for row in rows()]
    assert found.lines[0] == 2


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(st.floats(-1e6, 1e6), st.sampled_from("abc")),
        min_size=10,
        max_size=40,
    )
)
def test_new_rows_are_read_as_training_rows_were(tmp_path_factory, cells):
    folder = tmp_path_factory.mktemp("table")
    table = [[repr(n), w, "xy"[row % 2]] for row, (n, w) in enumerate(cells)]
    path = written(folder / "t.csv", table, ["n", "w", "y"])
    learned = Table(path, "y")
    kept = Preparation.of(preparation_of(learned).document())
    again = kept.table(path)
    places = {tuple(row): None for row in again.tolist()}
    assert all(tuple(row) in places for row in learned.prepare(learned.inputs).tolist())
    assert len(again) == len(cells)


def test_unknown_words_are_zeros_and_further_columns_are_ignored(file, tmp_path):
    known = preparation_of(Table(file, "sold", ignore=("price",)))
    path = written(
        tmp_path / "new.csv",
        [["1", "3e4", "Paris", "40"], ["2", "3e4", "Rome", "40"]],
        ["other", "income", "city", "age"],
    )
    found = known.table(path)
    assert found[:, 1:4].tolist() == [[0, 0, 0], [0, 0, 1]]
    assert torch.equal(found[0, [0, 4]], found[1, [0, 4]])


def test_rows_are_a_file_or_what_was_read_of_it(file, tmp_path):
    known = preparation_of(Table(file, "sold", ignore=("price",)))
    new = written(tmp_path / "new.csv", [["40", "Riga", "3e4"]], NAMES[:3])
    read = read_table(new)
    assert torch.equal(known.table(rows=new), known.table(rows=read))
    found = known.gaps(rows=str(new))
    assert found.unknown_words == known.gaps(rows=read).unknown_words == {"city": [0]}


def test_missing_values_are_filled_where_that_is_asked_for(tmp_path):
    table = rows()
    table[3][0], table[5][1] = "", "NA"
    path = written(tmp_path / "t.csv", table)
    data = Table(path, "sold", missing="fill", ignore=("price",))
    known = Preparation.of(preparation_of(data).document())
    found = known.table(path)
    assert float(found[3, 0]) == pytest.approx(0, abs=1e-5)
    assert found[5, 1:4].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ((2, 0, ""), {}, r"column 'age' in line 4 of .* must hold a value .*fill"),
        ((2, 1, "NA"), {}, r"column 'city' in line 4 of .* must hold a value"),
        (
            (2, 3, ""),
            {"missing": "fill"},
            r"column 'sold' in line 4 of .* hold a value",
        ),
        ((2, 0, "4O"), {}, r"column 'age' in line 4 .* a number, as in most rows, got"),
        (
            (2, 0, "inf"),
            {},
            r"column 'age' in line 4 .* must be a finite number, got 'inf'",
        ),
        ((0, 0, "1"), {"target": "solt"}, r"target must be one of .*mean 'sold'"),
        ((0, 0, "1"), {"ignore": ("x",)}, r"ignore must be one of age, city"),
        ((0, 0, "1"), {"kind": "number"}, r"kind must be one of classes, numbers"),
        ((0, 0, "1"), {"kind": "numbers"}, r"column 'sold' in line \d+ .* a number"),
        ((0, 0, "1"), {"ignore": NAMES}, r"must hold columns beside the target"),
    ],
)
def test_what_cannot_be_read_is_named(change, options, message, tmp_path):
    table = rows()
    row, column, cell = change
    table[row][column] = cell
    path = written(tmp_path / "t.csv", table)
    options = {"target": "sold", **options}
    options["ignore"] = tuple(options.get("ignore", ()))
    with pytest.raises(ValueError, match=message):
        Table(path, **options)


def refusal(make):
    """Return the lines of what refuses a table."""
    with pytest.raises(ValueError, match="must be a table that can be read") as raised:
        make()
    return str(raised.value).splitlines()


def test_all_faults_of_the_columns_are_named_at_once_in_both_parts(tmp_path):
    table = rows()
    changes = [(row, 0, "") for row in range(1, 9)]  # of both parts, here or there
    changes += [(2, 1, "NA"), (3, 2, "3O"), (4, 2, "inf"), (5, 2, "1,5")]
    for row, column, cell in changes:
        table[row][column] = cell
    path = written(tmp_path / "t.csv", table, delimiter=";")
    for train in (True, False):
        first, *lines, hint = refusal(lambda part=train: Table(path, "sold", part))
        assert first == f"{path} must be a table that can be read, got 12 faults:"
        assert lines == [
            "  column 'age' in line 3 must hold a value, got ''",
            "  column 'age' in line 4 must hold a value, got ''",
            "  column 'city' in line 4 must hold a value, got 'NA'",
            "  column 'age' in line 5 must hold a value, got ''",
            "  column 'income' in line 5 must be a number, as in most rows, got '3O'",
            "  column 'age' in line 6 must hold a value, got ''",
            "  column 'income' in line 6 must be a finite number, got 'inf'",
            "  column 'age' in line 7 must hold a value, got ''",
            "  column 'income' in line 7 must have a decimal point and no comma "
            "(12.5, not 12,5), got '1,5'",
            "  column 'age' in line 8 must hold a value, got ''",
            "  and 2 more",
        ]
        assert "--data.missing fill" in hint


def test_all_faults_of_a_target_are_named_at_once(tmp_path):
    table = rows()
    table[0][4], table[1][4], table[2][4] = "", "cheap", "?"
    path = written(tmp_path / "t.csv", table)
    assert refusal(lambda: Table(path, "price", kind="numbers"))[1:] == [
        "  column 'price' in line 2 must hold a value, got ''",
        "  column 'price' in line 3 must be a number, got 'cheap'",
        "  column 'price' in line 4 must hold a value, got '?'",
    ]
    parts = tmp_path / "parts"
    parts.mkdir()
    written(parts / "train.csv", rows())
    new = rows()
    new[0][3], new[1][3] = "perhaps", "never"
    written(parts / "test.csv", new)
    assert refusal(lambda: Table(parts, "sold", train=False))[1:] == [
        "  column 'sold' in line 2 must be a class of the training rows, got 'perhaps'",
        "  column 'sold' in line 3 must be a class of the training rows, got 'never'",
    ]


def test_all_faults_of_new_rows_are_named_at_once(file, tmp_path):
    known = preparation_of(Table(file, "sold", ignore=("price", "city")))
    names = ["age", "income"]
    new = written(tmp_path / "new.csv", [["x", "1"], ["", "2"], ["3", "y"]], names)
    assert refusal(lambda: known.table(new))[1:4] == [
        "  column 'age' in line 2 must be a number, got 'x'",
        "  column 'age' in line 3 must hold a value, got ''",
        "  column 'income' in line 4 must be a number, got 'y'",
    ]
    far = written(tmp_path / "far.csv", [["1e200", "1"], ["1", "-1e200"]], names)
    rule = "must be less far from the training rows (a model computes in float32)"
    assert refusal(lambda: known.table(far))[1:] == [
        f"  column 'age' in line 2 {rule}, got '1e200'",
        f"  column 'income' in line 3 {rule}, got '-1e200'",
    ]


def test_columns_that_new_rows_lack_come_with_all_other_faults(file, tmp_path):
    known = preparation_of(Table(file, "sold"))
    cells = [["x", "1e200"], ["2"], ["3", "3e4"]]
    new = written(tmp_path / "new.csv", cells, ["price", "income"])
    assert refusal(lambda: known.table(new))[1:] == [
        "  it must have columns 'age', 'city', got ['price', 'income']",
        "  column 'price' in line 2 must be a number, got 'x'",
        "  column 'income' in line 2 must be less far from the training rows (a model "
        "computes in float32), got '1e200'",
        "  line 3 must have 2 cells, as many as there are columns, got 1",
    ]
    assert refusal(lambda: known.gaps(new))[1:] == [
        "  it must have columns 'age', 'city', got ['price', 'income']",
        "  line 3 must have 2 cells, as many as there are columns, got 1",
    ]


def test_all_columns_and_lines_that_are_wrong_as_a_whole_are_named(tmp_path):
    table = [[f"p{n}", f"q{n}", "", "ab"[n % 2]] for n in range(200)]
    path = written(tmp_path / "t.csv", table, ["one", "two", "three", "y"])
    assert refusal(lambda: Table(path, "y", missing="fill"))[1:] == [
        "  column 'one' must hold numbers, or at most 100 different words, got "
        + repr("160 different words, such as 'p0'"),
        "  column 'two' must hold numbers, or at most 100 different words, got "
        + repr("160 different words, such as 'q0'"),
        "  column 'three' must hold values, got 'none'",
        "  (leave it out by --data.ignore)",
    ]
    path.write_text("t,y\n1,a\n2\n3,b,4\n")
    assert refusal(lambda: Table(path, "y"))[1:] == [
        "  line 3 must have 2 cells, as many as there are columns, got 1",
        "  line 4 must have 2 cells, as many as there are columns, got 3",
    ]


def test_faults_of_lines_columns_and_target_are_one_error(tmp_path):
    table = [[f"p{n}", str(n), "red", "yes" if n % 2 else "no"] for n in range(200)]
    table[3][1], table[5][3] = "4O", ""
    names = ["name", "size", "color", "sold"]
    path = written(tmp_path / "t.csv", table, names)
    lines = path.read_text().splitlines()
    lines[7], lines[9] = "6,red,no", 'p8,8,"red" one,no'
    path.write_text("\n".join(lines))
    for train in (True, False):
        first, *found = refusal(lambda part=train: Table(path, "sold", part))
        assert first.endswith("got 5 faults:")
        assert found == [
            "  column 'name' must hold numbers, or at most 100 different words, got "
            + repr("158 different words, such as 'p0'"),
            "  column 'size' in line 5 must be a number, as in most rows, got '4O'",
            "  column 'sold' in line 7 must hold a value, got ''",
            "  line 8 must have 4 cells, as many as there are columns, got 3",
            "  line 10 must be a row whose quotation marks are closed at the ends of "
            "cells (',' expected after '\"'), got 'p8,8,\"red\" one,no'",
            "  (leave it out by --data.ignore)",
        ]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("t,u,y\n1,2,a\n2,2,a\n3,2,a\n4,2,b,\n5,2,b,\n", 2),  # no two classes
        ("t,u,y\n1,NA,a\n2,NA,b\n3,1,b,\n4,1,a,\n", 2),  # no values in u
        ('t,u,y\n1,NA,a\n2,NA,b\n3,"1,b\n4,1,a\n5,1,b\n6,"1,a\n7,1,b,c\n', 2),
    ],
)
def test_lines_that_are_left_out_give_no_further_faults(text, count, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(text)
    first, *found = refusal(lambda: Table(path, "y"))
    assert first.endswith(f"got {count} faults:")
    assert all(line.startswith("  line ") for line in found)


def test_faults_of_both_files_of_a_folder_are_one_error(tmp_path):
    learned, tested = rows(), rows()
    learned[0][0], learned[1][4] = "", "cheap"
    tested[2][3], tested[3][3] = "never", ""
    tested[4][2] = "1e200"
    written(tmp_path / "train.csv", learned)
    written(tmp_path / "test.csv", [row[1:] for row in tested], NAMES[1:])
    for train in (True, False):
        first, *found, hint = refusal(lambda part=train: Table(tmp_path, "sold", part))
        assert first == f"{tmp_path} must be a table that can be read, got 6 faults:"
        assert found == [
            "  column 'age' in line 2 of train.csv must hold a value, got ''",
            "  column 'price' in line 3 of train.csv must be a number, as in most "
            "rows, got 'cheap'",
            "  test.csv must have a column 'age', got ['city', 'income', 'sold', "
            "'price']",
            "  column 'sold' in line 4 of test.csv must be a class of the training "
            "rows, got 'never'",
            "  column 'sold' in line 5 of test.csv must hold a value, got ''",
            "  column 'income' in line 6 of test.csv must be less far from the "
            "training rows (a model computes in float32), got '1e200'",
        ]
        assert "--data.missing fill" in hint
    written(tmp_path / "train.csv", rows())
    with pytest.raises(ValueError, match=r"^.*test\.csv must have a column 'age', got"):
        Table(tmp_path, "city", ignore=("sold", "income"))


def test_numbers_to_predict_are_checked_in_both_files(tmp_path):
    tested = rows()
    tested[0][4], tested[1][4], tested[2][4] = "cheap", "1e200", ""
    written(tmp_path / "train.csv", rows())
    written(tmp_path / "test.csv", tested)
    found = refusal(lambda: Table(tmp_path, "price"))
    assert found[0].startswith(f"{tmp_path / 'test.csv'} must be a table")
    assert found[1:] == [
        "  column 'price' in line 2 must be a number, got 'cheap'",
        "  column 'price' in line 4 must hold a value, got ''",
    ]
    tested[0][4] = tested[2][4] = "1"
    written(tmp_path / "test.csv", tested)
    with pytest.raises(ValueError, match=r"'price' in line 3 .* less far .*'1e200'"):
        Table(tmp_path, "price")


def test_all_unknown_names_of_columns_are_named_at_once(file):
    with pytest.raises(ValueError, match="with the columns that are named") as raised:
        Table(file, "solt", ignore=("prize", "age,city", "x", "income"))
    known = ", ".join(NAMES)
    assert str(raised.value).splitlines() == [
        f"{file} must be a table with the columns that are named, got 3 faults:",
        f"  target must be one of {known}, got 'solt' (did you mean 'sold'?)",
        "  ignore must have a word for each column (age city), got 'age,city'",
        f"  ignore must be one of {known}, got 'prize' (did you mean 'price'?), 'x'",
    ]


def test_of_many_faults_one_of_each_kind_is_shown(tmp_path):
    names = [f"c{number}" for number in range(14)]
    table = [["1"] * 14 + ["ab"[row % 2]] for row in range(80)]
    for row in range(30):
        table[row][0] = ""
    table[60][1], table[70][2] = "x", ""
    path = written(tmp_path / "t.csv", table, [*names, "y"])
    first, *found, _ = refusal(lambda: Table(path, "y"))
    assert first.endswith("got 32 faults:")
    assert found == [
        *(f"  column 'c0' in line {n} must hold a value, got ''" for n in range(2, 10)),
        "  column 'c1' in line 62 must be a number, as in most rows, got 'x'",
        "  column 'c2' in line 72 must hold a value, got ''",
        "  and 22 more",
    ]
    for column in range(14):
        table[5][column] = "x"
    written(path, table, [*names, "y"])
    *found, _ = refusal(lambda: Table(path, "y"))
    assert found[-2:] == [
        "  and 35 more",
        "  (columns, too: 'c9', 'c10', 'c11', 'c12', 'c13')",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "must hold names of columns and rows"),
        (b"a,b\n", "must hold names of columns and rows"),
        (b"a,a\n1,2\n", r"a name of its own in its first line, got \['a'\]"),
        (b"a,y\n1,x\n2\n", r"line 3 of .* must have 2 cells"),
        (b"\xff\xfe\x00", "must be a table in UTF-8 text"),
        (b"a,y\n1,x\n2,x\n", "must hold at least two classes"),
        (b"a,y\n1,x\n2,z\n", "must leave at least one row in each part"),
    ],
)
def test_broken_files_are_named(text, message, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=message):
        Table(path, "y" if b"y" in text else "a")


def test_names_and_other_long_lists_of_words_are_refused(tmp_path):
    table = [[f"person {row}", "ab"[row % 2]] for row in range(200)]
    path = written(tmp_path / "t.csv", table, ["name", "y"])
    with pytest.raises(ValueError, match=r"'name' of .* at most 100 .*--data.ignore"):
        Table(path, "y")


def test_an_ensemble_reads_tables_by_itself(file, tmp_path):
    train = Table(file, "sold", ignore=("price",))
    ensemble = tepui.Ensemble.build(lambda: torch.nn.Linear(5, 2), members=2, seed=0)
    method = tepui.methods.DeepEnsemble()
    tepui.fit(ensemble, train, method=method, epochs=1, progress="none")
    ensemble.save(tmp_path / "saved")
    kept = tepui.load(tmp_path / "saved", lambda: torch.nn.Linear(5, 2))
    found = kept.predict(str(file))
    assert len(found.labels) == 60
    assert set(found.label_names) <= {"yes", "no"}
    with pytest.raises(ValueError, match="standardized by the rows that the ensemble"):
        kept.preparation.dataset(Table(file, "price"))


def labeled(path, cells, name="t", delimiter=","):
    """Write one column beside a target of two classes."""
    table = [[cell, "ab"[row % 2]] for row, cell in enumerate(cells)]
    return written(path / "t.csv", table, [name, "y"], delimiter)


def test_numbers_are_rounded_only_when_they_are_standardized(tmp_path):
    for first, step in ((1_700_000_000, 1), (0, 1e39), (1e300, 1e306)):
        cells = [first + step * row for row in range(100)]
        path = labeled(tmp_path, map(repr, cells))
        data = Table(path, "y")
        found = Preparation.of(preparation_of(data).document()).table(path)
        assert {*data.inputs[:, 0].tolist()} < {*found[:, 0].tolist()}
        # Whatever their unit, evenly spaced numbers are spaced as those from 0 to 99.
        plain = preparation_of(Table(labeled(tmp_path, map(str, range(100))), "y"))
        expected = plain.table(tmp_path / "t.csv")
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_numbers_beyond_float32_are_refused_with_their_place(tmp_path):
    path = labeled(tmp_path, [str(row) for row in range(20)])
    known = preparation_of(Table(path, "y"))
    new = written(tmp_path / "new.csv", [["1"], ["1e200"]], ["t"])
    with pytest.raises(
        ValueError, match=r"'t' in line 3 of .* training rows .*'1e200'"
    ):
        known.table(new)


@pytest.mark.parametrize(
    "cells", [["0.1"], ["123456.789"], ["1e300"], ["0.3", "0.30000000000000004"]]
)
def test_what_varies_by_rounding_alone_does_not_vary(cells, tmp_path):
    table = [[cells[row % len(cells)], str(row)] for row in range(97)]
    path = written(tmp_path / "t.csv", table, ["t", "n"])
    data = Table(path, "n")
    assert data.scaling.std == (1.0,)
    assert float(data.inputs.abs().max()) <= 1e-15 * max(1, abs(float(cells[0])))
    assert Table(path, "t", kind="numbers").units.std == (1.0,)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('t,y\n1,a\n2,"b\n3,a\n4,b\n', 3),
        ('t,y\n1,a\n2,"b\n3,a\n4,"b\n5,a\n', 3),
        ('t,y\n"1"0,a\n2,b\n', 2),
    ],
)
def test_stray_quotation_marks_swallow_no_rows(text, line, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"line {line} of .* quotation marks"):
        Table(path, "y")


def test_cells_of_several_lines_are_read(tmp_path):
    path = labeled(tmp_path, ["one\ntwo", 'he said "no", and went'] * 5)
    found = read_table(path)
    assert found.cells["t"][:2] == ["one\ntwo", 'he said "no", and went']
    assert found.lines[:2] == [3, 4]


@pytest.mark.parametrize("share", [1, 2])
def test_decimal_commas_are_no_words(share, tmp_path):
    cells = [f"{row % 9},5" if row % share == 0 else str(row % 9) for row in range(40)]
    path = labeled(tmp_path, cells, delimiter=";")
    with pytest.raises(ValueError, match=r"'t' in line 2 .* decimal point .*'0,5'"):
        Table(path, "y")
    with pytest.raises(ValueError, match=r"'t' in line 2 .* decimal point .*'0,5'"):
        Table(path, "t")


def test_a_column_of_infinities_is_refused(tmp_path):
    path = labeled(tmp_path, ["inf"] * 20)
    with pytest.raises(
        ValueError, match=r"'t' in line 2 must be a finite number, got 'inf'"
    ):
        Table(path, "y")


def test_a_class_is_written_in_one_way(tmp_path):
    path = labeled(tmp_path, ["0", "1", "1.0"] * 9)
    with pytest.raises(ValueError, match=r"'t' of .* in one way, got '1 and 1.0'"):
        Table(path, "t")


def test_an_empty_first_line_does_not_decide_what_parts_columns(tmp_path):
    path = labeled(tmp_path, map(str, range(20)), delimiter=";")
    path.write_text("\n \n" + path.read_text())
    found = read_table(path)
    assert list(found.cells) == ["t", "y"]
    assert found.lines[0] == 4


def test_classes_of_single_rows_are_named_as_what_is_wrong(tmp_path):
    path = labeled(tmp_path, [str(row) for row in range(150)])
    with pytest.raises(
        ValueError, match="150 rows of 150 classes, none of which has th"
    ):
        Table(path, "t", kind="classes")


def test_words_are_not_said_to_stand_among_numbers(tmp_path):
    path = labeled(tmp_path, ["1"] * 20)
    with pytest.raises(ValueError, match=r"'y' in line 2 must be a number, got 'a'"):
        Table(path, "y", kind="numbers")


def test_a_table_is_shown_in_a_line(file):
    assert repr(Table(file, "sold", ignore=("price",))) == (
        "Table(48 rows, 3 columns (age, city, income), target sold (2 classes))"
    )
    assert str(Table(file, "price", train=False)) == (
        "Table(12 rows, 4 columns (age, city, income, sold), target price (numbers))"
    )


CELLS = st.one_of(
    st.floats().map(str),
    st.integers(-(10**6), 10**6).map(str),
    st.sampled_from(["", "?", "nan", "1_0", "1,5", "Bern", " 7", "1e999", "0x1"]),
)


@given(st.lists(CELLS, min_size=1))
def test_columns_are_read_as_their_cells_are(cells):
    expected = [number_in(cell) for cell in cells]
    found = [None if math.isnan(n) else n for n in numbers_in(cells).tolist()]
    assert found == expected
