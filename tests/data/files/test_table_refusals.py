"""What a table is refused for, one fault at a time."""

import csv

import pytest

from table_files import NAMES, labeled, rows, written
from tepui.data import Table
from tepui.data.files.table_rows import read_table
from tepui.data.preparation import preparation_of


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "must hold names of columns and rows"),
        (b"a,b\n", "must hold names of columns and rows"),
        (b"a,a\n1,2\n", r"a name of its own in its first line, got \['a'\]"),
        (b"a,y\n1,x\n2\n", r"line 3 of .* must have 2 cells"),
        (b"\xff\xfe\x00", "must be a table in UTF-8 text"),
        (b"a,y\n1,x\n2,x\n", "must hold at least two classes"),
        (b"a,y" + 9 * b"\n1,.5", "column 'y'.* two different numbers .* got 0.5"),
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
    with pytest.raises(ValueError, match=r"'name' of .* at most 100 .*ignore"):
        Table(path, "y")


def test_numbers_beyond_float32_are_refused_with_their_place(tmp_path):
    path = labeled(tmp_path, [str(row) for row in range(20)])
    known = preparation_of(Table(path, "y"))
    new = written(tmp_path / "new.csv", [["1"], ["1e200"]], ["t"])
    with pytest.raises(
        ValueError, match=r"'t' in line 3 of .* training rows .*'1e200'"
    ):
        known.table(new)


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


LONG = csv.field_size_limit() + 1


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"t,{LONG * 'y'}\n1,a\n2,b\n", 1),
        (f"t,y\n1,a\n2,{LONG * 'b'}\n3,a\n", 3),
        (f't,y\n1,a\n2,"{LONG * "b"}"\n3,a\n', 3),
    ],
    ids=["name", "cell", "cell in marks"],
)
def test_cells_that_are_too_long_are_named_as_such(text, line, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"line {line} of .* characters") as found:
        Table(path, "y")
    said = str(found.value)
    assert f"must be a row of cells with at most {LONG - 1} characters" in said
    assert "quotation" not in said
    assert len(said) < 300 + len(str(path))


def test_a_mark_that_is_open_is_named_where_it_swallows_too_much(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('t,y\n1,a\n2,"b\n' + (LONG // 4 + 1) * "3,a\n" + "4,b\n")
    said = f"quotation marks .*not closed within {LONG - 1} characters"
    with pytest.raises(ValueError, match=rf"line 3 .*{said}"):
        Table(path, "y")


def test_a_first_line_may_be_longer_than_a_cell(tmp_path):
    """All of it is one cell for a sign that does not part it."""
    names = [f"{number:0200}" for number in range(LONG // 200 + 1)]
    row = ";".join(["1"] * len(names))
    path = tmp_path / "t.csv"
    path.write_text("\n".join([";".join(names), *[row] * 3]))
    assert [*read_table(path).cells] == names


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
