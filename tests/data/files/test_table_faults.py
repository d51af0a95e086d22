"""All faults of tables are named at once."""

import pytest

from table_files import NAMES, rows, written
from tepui.data import Table
from tepui.data.preparation import preparation_of


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
        assert 'missing="fill"' in hint


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


def test_all_faults_of_new_rows_are_named_at_once(table_file, tmp_path):
    known = preparation_of(Table(table_file, "sold", ignore=("price", "city")))
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


def test_columns_that_new_rows_lack_come_with_all_other_faults(table_file, tmp_path):
    known = preparation_of(Table(table_file, "sold"))
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
        "  (leave it out by ignore)",
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
            "  (leave it out by ignore)",
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
        assert 'missing="fill"' in hint
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


def test_all_unknown_names_of_columns_are_named_at_once(table_file):
    with pytest.raises(ValueError, match="with the columns that are named") as raised:
        Table(table_file, "solt", ignore=("prize", "age,city", "x", "income"))
    known = ", ".join(NAMES)
    assert str(raised.value).splitlines() == [
        f"{table_file} must be a table with the columns that are named, got 3 faults:",
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
