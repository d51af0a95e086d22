"""Tables, compared with scikit-learn's own preprocessing; what they are refused for."""

import time

import numpy as np
import pandas
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import tepui
from table_files import NAMES, labeled, rows, written
from tepui.data import Preparation, Table
from tepui.data.preparation import preparation_of


@pytest.fixture
def table_file(tmp_path):
    return written(tmp_path / "my.csv", rows())


def kept(data):
    """Return what an ensemble keeps of a table, from its file."""
    return Preparation.of(preparation_of(data).document())


def ages(data):
    """Return the first column in its own unit."""
    standardized = data.inputs[:, 0].double()
    values = standardized * data.scaling.std[0] + data.scaling.mean[0]
    return [round(value, 3) for value in values.tolist()]


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
        torch.testing.assert_close(found, torch.from_numpy(expected).float())
        assert [data.classes[label] for label in data.targets] == list(cells[:, 3])


def test_a_fixed_fifth_of_each_class_is_the_test_part(table_file, tmp_path):
    train, test = (Table(table_file, "sold", part) for part in (True, False))
    every = [row[3] for row in rows()]
    for label, name in enumerate(train.classes):
        assert int((test.targets == label).sum()) == round(0.2 * every.count(name))
    assert len(train) + len(test) == len(every)
    assert train.normalize is None  # inputs are standardized as they stand
    cells = sorted(float(row[0]) for row in rows())
    assert sorted([*ages(train), *ages(test)]) == pytest.approx(cells, abs=5e-4)
    # Rows that are added move no row of a part into the other.
    more = written(tmp_path / "more.csv", [*rows(), *rows(70)[60:]])
    after = {*ages(Table(more, "sold", False))}
    assert len({*ages(test)} - after) <= 2


def test_numbers_to_predict_are_standardized_and_units_lead_back(table_file):
    train, test = (Table(table_file, "price", part) for part in (True, False))
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
        (["True", "False", "True", "True"], None, ("False", "True")),
        (["1", "0", "10", "2"], "numbers", ()),
        (["0.5", "1", "2", "3"], None, ()),
        (["0.5", "1", "2", "3"], "classes", ("0.5", "1", "2", "3")),
        ([str(number) for number in range(21)], None, ()),
        ([str(number) for number in range(20)], None, tuple(map(str, range(20)))),
    ],
)
def test_what_the_target_holds_follows_from_its_cells(cells, kind, classes, tmp_path):
    table = [[f"{row}.5", cell] for row, cell in enumerate(cells * 5)]
    path = written(tmp_path / "t.csv", table, ["x", "y"])
    assert Table(path, "y", kind=kind).classes == classes


def as_frame(file):
    return pandas.read_csv(file)


def as_parquet(file):
    pandas.read_csv(file).to_parquet(file.with_suffix(".parquet"))
    return file.with_suffix(".parquet")


def as_excel(file):
    pandas.read_csv(file).to_excel(file.with_suffix(".xlsx"), index=False)
    return file.with_suffix(".xlsx")


def as_semicolons(file):
    text = file.read_text().replace(",", ";")
    file.write_bytes(b"\xef\xbb\xbf\n" + text.encode())  # as spreadsheets begin
    return file


def as_tabs(file):
    file.write_text(file.read_text().replace(",", "\t"))
    return file


FORMS = [as_frame, as_parquet, as_excel, as_semicolons, as_tabs]


@pytest.mark.parametrize("form", FORMS)
def test_a_table_is_the_same_in_every_form(form, table_file):
    expected = Table(table_file, "sold", train=False)
    new = preparation_of(expected).table(table_file)
    source = form(table_file)
    found = Table(source, "sold", train=False)
    assert torch.equal(found.inputs, expected.inputs)
    assert torch.equal(found.targets, expected.targets)
    assert found.columns == expected.columns
    assert torch.equal(preparation_of(expected).table(source), new)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.floats(-1e6, 1e6), st.sampled_from("abc"), st.dates(), st.booleans()
        ),
        min_size=10,
        max_size=40,
    )
)
def test_new_rows_are_read_as_training_rows_were(tmp_path_factory, cells):
    folder = tmp_path_factory.mktemp("table")
    table = [[*row, "xy"[n % 2]] for n, row in enumerate(cells)]
    path = written(folder / "t.csv", table, ["n", "w", "d", "b", "y"])
    keep = ("n", "d")
    learned, tested = (Table(path, "y", part, keep=keep) for part in (True, False))
    again = kept(learned).apply(path)
    expected = torch.cat([learned.inputs, tested.inputs]).tolist()
    assert sorted(again.inputs.tolist()) == sorted(expected)
    assert again.remarks == learned.remarks + tested.remarks or not learned.remarks
    one = kept(learned).table(pandas.DataFrame(again_rows(path)))
    assert torch.equal(one, again.inputs)


def again_rows(path):
    """Return the rows of a file as a service has them: each by the names of columns."""
    return [*pandas.read_csv(path).to_dict("records")]


def test_unknown_words_are_zeros_and_further_columns_are_reported(table_file, tmp_path):
    known = preparation_of(Table(table_file, "sold", ignore=("price",)))
    path = written(
        tmp_path / "new.csv",
        [["1", "3e4", "Paris", "40"], ["2", "3e4", "Rome", "40"]],
        ["other", "income", "city", "age"],
    )
    found = known.apply(path)
    assert found.inputs[:, 1:4].tolist() == [[0, 0, 0], [0, 0, 1]]
    assert torch.equal(found.inputs[0, [0, 4]], found.inputs[1, [0, 4]])
    assert found.targets.tolist() == [-1, -1]
    assert found.remarks == (
        "words that the training rows do not have, seen as none of theirs: "
        "1 in city ('Paris' in row 0)",
        "columns that were not learned: other",
    )


def test_missing_values_are_filled_and_flagged(tmp_path):
    table = rows()
    table[3][0] = table[7][0] = table[8][0] = ""
    table[5][1], table[6][1] = "NA", "?"
    path = written(tmp_path / "t.csv", table)
    data = Table(path, "sold", ignore=("price",))
    found = kept(data).apply(path)
    numbers, flags = found.inputs[:, 0], found.inputs[:, 1]
    assert numbers[[3, 7, 8]].tolist() == pytest.approx([0, 0, 0], abs=1e-6)
    assert flags.nonzero()[:, 0].tolist() == [3, 7, 8]
    assert found.inputs[5:7, 2:6].tolist() == [[1, 0, 0, 0]] * 2
    assert found.inputs[:, 2:6].sum(1).tolist() == [1] * 60
    assert found.inputs.shape == (60, 7)
    known = [float(row[0]) for row in table if row[0]]
    assert data.columns[0].fill == pytest.approx(np.mean(known), rel=0.1)
    said = (
        "numbers filled by the mean of the training rows: 3 in age (row 3), 2 in city"
    )
    assert any(said in remark for remark in found.remarks)
    # Of columns without gaps in the training rows, too, but they have no flag.
    whole = kept(Table(written(tmp_path / "w.csv", rows()), "sold", ignore=("price",)))
    again = whole.apply(path)
    assert again.inputs[[3, 7, 8], 0].tolist() == pytest.approx([0, 0, 0], abs=1e-6)
    assert again.inputs[5, 1:4].tolist() == [0, 0, 0]
    assert any(said in remark for remark in again.remarks)


@pytest.mark.parametrize(
    "cells",
    [
        pandas.date_range("2024-01-31", periods=40, freq="7D"),
        [f"2024-0{1 + n % 7}-1{n % 10}" for n in range(40)],
        [f"2024-05-1{n % 9} 1{n % 10}:30" for n in range(40)],
        [f"2024-05-{10 + n % 9}T00:00:00+02:00" for n in range(40)],
    ],
)
def test_dates_are_numbers_of_days(cells):
    frame = pandas.DataFrame({"t": cells, "y": ["a", "b"] * 20})
    data = Table(frame, "y", keep=("t",))
    assert [column.kind for column in data.columns] == ["date"]
    naive = [pandas.Timestamp(cell) for cell in cells]
    epoch = pandas.Timestamp(0, tz=naive[0].tz)
    days = [(each - epoch).total_seconds() / 86_400 for each in naive]
    known = kept(data)
    own = known.in_units(known.table(frame))[:, 0]
    assert own.tolist() == pytest.approx(days, abs=1e-3)


def test_words_with_a_date_among_them_are_no_dates(tmp_path):
    (column,) = Table(labeled(tmp_path, ["2024-05-01", "later"] * 30), "y").columns
    assert (column.kind, column.words) == ("word", ("2024-05-01", "later"))


def test_categories_are_words_whatever_they_hold():
    sizes = pandas.Categorical([3, 1, 3, 2] * 10)
    frame = pandas.DataFrame({"size": sizes, "y": [0, 1] * 20})
    (column,) = Table(frame, "y").columns
    assert (column.kind, column.words) == ("word", ("1", "2", "3"))


def test_control_characters_become_blanks(tmp_path):
    names = ["a\x1b[2Jb", "y"]
    path = written(tmp_path / "t.csv", [["x\x1b[0m", "\x07k"], ["z", "l"]] * 9, names)
    data = Table(path, "y")
    assert data.columns[0].name == "a [2Jb"
    assert data.columns[0].words == ("x [0m", "z")
    assert data.classes == ("k", "l")


ORDERED = {
    "counted": range(40),
    "counted down": range(40, 0, -1),
    "in order": [n * n for n in range(40)],
    "without a gap": [7 * n % 40 for n in range(40)],
    "whole floats": [float(n) for n in range(40)],
    "dates": pandas.date_range("2024-01-01", periods=40),
    "dates that repeat": [f"2024-01-{1 + n // 4:02d}" for n in range(40)],
}


@pytest.mark.parametrize("name", ORDERED)
def test_columns_that_look_like_row_numbers_are_refused_unless_named(name):
    """A table that is sorted by its outcome is learned by its row numbers."""
    cells = [*ORDERED[name]]
    frame = pandas.DataFrame({"row": cells, "x": [0.5, 1] * 20, "y": ["a", "b"] * 20})
    with pytest.raises(
        ValueError, match=r"'row' of the table must be left out .*order"
    ):
        Table(frame, "y", train=False)
    assert len(Table(frame, "y", ignore=("row",)).columns) == 1
    learned = Table(frame, "y", keep=("row",))
    assert len(learned.columns) == 2
    assert len(learned.rows_of(frame)) == 40  # of new rows nothing is asked


@pytest.mark.parametrize(
    "cells",
    [
        [n + 0.5 for n in range(40)],
        [n // 2 for n in range(40)],
        [11 * n % 41 * 3 for n in range(40)],
        ["2024-01-02", "2024-01-01"] * 20,
        ["2024-01-02"] * 40,
        [*range(39), None],
    ],
)
def test_other_columns_are_no_row_numbers(cells):
    assert len(Table(pandas.DataFrame({"x": cells, "y": [0, 1] * 20}), "y").columns)


def test_an_ensemble_reads_tables_by_itself(table_file, tmp_path):
    train = Table(table_file, "sold", ignore=("price",))
    ensemble = tepui.Ensemble.build(lambda: torch.nn.Linear(5, 2), members=2, seed=0)
    method = tepui.methods.DeepEnsemble()
    tepui.fit(ensemble, train, method=method, epochs=1, progress="none")
    ensemble.save(tmp_path / "saved")
    again = tepui.load(tmp_path / "saved", lambda: torch.nn.Linear(5, 2))
    found = again.predict(str(table_file))
    assert len(found.labels) == 60
    assert set(found.label_names) <= {"yes", "no"}
    frame = pandas.read_csv(table_file)
    assert torch.equal(again.predict(frame).probs, found.probs)
    with pytest.raises(ValueError, match="standardized by the rows that the ensemble"):
        again.preparation.apply(Table(table_file, "price"))
    other = tepui.Ensemble.build(lambda: torch.nn.Linear(5, 2), members=1, seed=0)
    with pytest.raises(ValueError, match="ensemble must have learned from a table"):
        other.predict(frame)


def test_validation_rows_are_standardized_as_the_training_rows(table_file, tmp_path):
    train = Table(table_file, "sold", ignore=("price",))
    later = written(tmp_path / "later.csv", rows()[:30])
    ensemble = tepui.Ensemble.build(lambda: torch.nn.Linear(5, 2), members=1, seed=0)
    how = {"method": tepui.methods.DeepEnsemble(), "epochs": 1, "progress": "none"}
    for known in (train.rows_of(later), Table(table_file, "sold", False, ("price",))):
        tepui.fit(ensemble, train, validation=known, **how)
    other = Table(later, "sold", ignore=("price",))
    with pytest.raises(ValueError, match="validation must be standardized by the rows"):
        tepui.fit(ensemble, train, validation=other, **how)


@pytest.mark.parametrize(("first", "step"), [(1_700_000_000, 1), (0, 1e39)])
def test_numbers_are_rounded_only_when_they_are_standardized(first, step, tmp_path):
    def evenly(first, step):
        cells = [first + step * row for row in range(100)]
        data = Table(labeled(tmp_path, map(repr, cells)), "y", keep=("t",))
        return kept(data).table(tmp_path / "t.csv")

    # Whatever their unit, evenly spaced numbers are spaced as those from 0 to 99.
    torch.testing.assert_close(evenly(first, step), evenly(0, 1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("cells", [["0.1"], ["123456.789"], ["0.3", "0.3" + "0" * 15]])
def test_what_varies_by_rounding_alone_does_not_vary(cells, tmp_path):
    table = [[cells[row % len(cells)], f"{row}.5"] for row in range(97)]
    path = written(tmp_path / "t.csv", table, ["t", "n"])
    data = Table(path, "n")
    assert data.scaling.std == (1.0,)
    assert float(data.inputs.abs().max()) <= 1e-9


def test_wide_tables_are_read_in_linear_time():
    def seconds(width):
        draw = np.random.default_rng(0).normal(size=(40, width))
        frame = pandas.DataFrame(draw).assign(y=["a", "b"] * 20)
        begun = time.process_time()
        assert Table(frame, "y").inputs.shape == (32, width)
        return time.process_time() - begun

    seconds(10)
    assert seconds(4000) < 20 * seconds(500)  # eight times as wide


@pytest.mark.parametrize(
    ("cell", "options", "message"),
    [
        ((2, 3, ""), {}, r"'sold' of .* hold a value in every row, got '.*' in row 2"),
        ((2, 0, "4O"), {}, r"'age' of .* finite numbers .*, got '4O' in row 2"),
        ((2, 0, "4,5"), {}, r"'age' of .* a decimal point, got '4,5' in row 2"),
        ((2, 0, "inf"), {}, r"column 'age' .* finite numbers .*, got 'inf' in row 2"),
        (None, {"target": "solt"}, r"target must be one of .*mean 'sold'"),
        (None, {"ignore": ("x",)}, r"ignore must be one of age, city"),
        (None, {"keep": ("cty",)}, r"keep must be one of age, .*mean 'city'"),
        (None, {"kind": "number"}, r"kind must be one of classes, numbers"),
        (None, {"kind": "numbers"}, r"column 'sold' of .* finite numbers"),
        (None, {"ignore": (*NAMES[:3], NAMES[4])}, "columns beside the target"),
        (None, {"target": 3}, "target must be a string, got 3"),
        (None, {"path": 3}, r"path must be a path or a pandas\.DataFrame, got 3"),
    ],
)
def test_what_cannot_be_read_is_named(cell, options, message, tmp_path):
    table = rows()
    if cell is not None:
        table[cell[0]][cell[1]] = cell[2]
    path = written(tmp_path / "t.csv", table, delimiter=";")
    options["ignore"] = tuple(options.get("ignore", ()))
    with pytest.raises(ValueError, match=message):
        Table(**{"path": path, "target": "sold", **options})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a,y\n", "must hold rows, got 0"),
        (b"a,y\n1,x\n2,y,3\n", "Expected 2 fields in line 3, saw 3"),
        (b"a,y\n1,x,7\n2,z,8\n", "must be a table: Length of header"),
        (b'a,y\n1,x\n2,"z\n3,x\n', "must be a table: .*EOF inside string"),
        ("a,y\n1,Gr\u00fcn\n".encode("latin-1"), "must be a table: 'utf-8' codec"),
        (b"a,y\n1,x\n2\n", "column 'y' of .* must hold a value in every row"),
        (b"a,y\n1,x\n2,x\n", "must hold at least two classes, got .'x'"),
        (b"a,y" + 9 * b"\n1,.5", "column 'y' .* two different numbers .*0.5"),
        (b"a,y\n1,x\n2,z\n", "must leave at least one row in each part"),
        (b"a,y" + 9 * b"\n,x\n,z", "column 'a' of .* must hold values"),
    ],
)
def test_broken_files_are_named(text, message, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=message) as raised:
        Table(path, "y")
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_names_and_other_long_lists_of_words_are_refused(tmp_path):
    path = labeled(tmp_path, [f"person {row}" for row in range(200)])
    with pytest.raises(ValueError, match=r"'t' of .* at most 100 .*got \"160, such"):
        Table(path, "y")


def test_numbers_beyond_float32_are_refused(table_file, tmp_path):
    known = preparation_of(Table(table_file, "sold", ignore=("price", "city")))
    new = written(tmp_path / "new.csv", [["1", "2"], ["1e200", "2"]], ["age", "income"])
    with pytest.raises(ValueError, match=r"new\.csv must hold numbers nearer"):
        known.table(new)


def test_columns_and_classes_that_new_rows_lack_are_named(table_file, tmp_path):
    train = Table(table_file, "sold")
    new = written(tmp_path / "new.csv", [["1", "2"]], ["price", "income"])
    with pytest.raises(ValueError, match=r"must have 2 columns more: age, city, got"):
        train.rows_of(new)
    without = written(tmp_path / "new.csv", [r[:3] + r[4:] for r in rows()],
                      [*NAMES[:3], "price"])  # fmt: skip
    with pytest.raises(ValueError, match="must have a column 'sold', got"):
        train.rows_of(without)
    later = rows()
    later[4][3] = "never"
    with pytest.raises(
        ValueError, match="classes of the training rows, got 'never' in"
    ):
        train.rows_of(written(tmp_path / "later.csv", later))


@pytest.mark.parametrize("share", [1, 2])
def test_decimal_commas_are_no_words(share, tmp_path):
    cells = [f"{row % 9},5" if row % share == 0 else str(row % 9) for row in range(40)]
    path = labeled(tmp_path, cells, delimiter=";")
    with pytest.raises(ValueError, match=r"'t' of .* decimal point, got '0,5'"):
        Table(path, "y")
