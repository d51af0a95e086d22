"""Tables in CSV files, compared with scikit-learn's own preprocessing."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import tepui
from table_files import NAMES, labeled, rows, written
from tepui.data import Preparation, Table
from tepui.data.files.cell_numbers import number_in, numbers_in
from tepui.data.files.table_rows import read_table
from tepui.data.preparation import preparation_of


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
        torch.testing.assert_close(
            found, torch.from_numpy(expected).float(), rtol=1e-4, atol=1e-4
        )
        assert [data.classes[label] for label in data.targets] == list(cells[:, 3])


def test_a_fixed_fifth_of_each_class_is_the_test_part(table_file, tmp_path):
    train, test = (Table(table_file, "sold", part) for part in (True, False))
    every = [row[3] for row in rows()]
    for label, name in enumerate(train.classes):
        assert int((test.targets == label).sum()) == round(0.2 * every.count(name))
    assert len(train) + len(test) == len(every)
    assert train.normalize is None  # inputs are standardized as they stand
    cells = sorted(map(float, read_table(table_file).cells["age"]))
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


def test_unknown_words_are_zeros_and_further_columns_are_ignored(table_file, tmp_path):
    known = preparation_of(Table(table_file, "sold", ignore=("price",)))
    path = written(
        tmp_path / "new.csv",
        [["1", "3e4", "Paris", "40"], ["2", "3e4", "Rome", "40"]],
        ["other", "income", "city", "age"],
    )
    found = known.table(path)
    assert found[:, 1:4].tolist() == [[0, 0, 0], [0, 0, 1]]
    assert torch.equal(found[0, [0, 4]], found[1, [0, 4]])


def test_rows_are_a_file_or_what_was_read_of_it(table_file, tmp_path):
    known = preparation_of(Table(table_file, "sold", ignore=("price",)))
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


def test_an_ensemble_reads_tables_by_itself(table_file, tmp_path):
    train = Table(table_file, "sold", ignore=("price",))
    ensemble = tepui.Ensemble.build(lambda: torch.nn.Linear(5, 2), members=2, seed=0)
    method = tepui.methods.DeepEnsemble()
    tepui.fit(ensemble, train, method=method, epochs=1, progress="none")
    ensemble.save(tmp_path / "saved")
    kept = tepui.load(tmp_path / "saved", lambda: torch.nn.Linear(5, 2))
    found = kept.predict(str(table_file))
    assert len(found.labels) == 60
    assert set(found.label_names) <= {"yes", "no"}
    with pytest.raises(ValueError, match="standardized by the rows that the ensemble"):
        kept.preparation.apply(Table(table_file, "price"))


@pytest.mark.parametrize("day", ["2024-05-{:02d}", "{}.5.24", "5/{:02d}/2024 10:30"])
def test_dates_are_said_to_be_words(tmp_path, day):
    cells = [day.format(1 + row % 9) for row in range(60)]
    path = labeled(tmp_path, cells)
    with pytest.warns(UserWarning, match="dates are read as words.* write 't'"):
        Table(path, "y")
    Table(path, "y", train=False)


def test_words_with_a_date_among_them_are_no_dates(tmp_path):
    (column,) = Table(
        labeled(tmp_path, ["2024-05-01", "later"] * 30), "y"
    ).columns.columns
    assert column.words == ("2024-05-01", "later")


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


@pytest.mark.parametrize(
    "cells", [["0.1"], ["123456.789"], ["1e300"], ["0.3", "0.30000000000000004"]]
)
def test_what_varies_by_rounding_alone_does_not_vary(cells, tmp_path):
    table = [[cells[row % len(cells)], str(row)] for row in range(97)]
    path = written(tmp_path / "t.csv", table, ["t", "n"])
    data = Table(path, "n")
    assert data.scaling.std == (1.0,)
    assert float(data.inputs.abs().max()) <= 1e-15 * max(1, abs(float(cells[0])))
    if len(cells) > 1:  # a single number to predict is refused
        assert Table(path, "t", kind="numbers").units.std == (1.0,)


def test_cells_of_several_lines_are_read(tmp_path):
    path = labeled(tmp_path, ["one\ntwo", 'he said "no", and went'] * 5)
    found = read_table(path)
    assert found.cells["t"][:2] == ["one\ntwo", 'he said "no", and went']
    assert found.lines[:2] == [3, 4]


def test_an_empty_first_line_does_not_decide_what_parts_columns(tmp_path):
    path = labeled(tmp_path, map(str, range(20)), delimiter=";")
    path.write_text("\n \n" + path.read_text())
    found = read_table(path)
    assert list(found.cells) == ["t", "y"]
    assert found.lines[0] == 4


def test_a_table_is_shown_in_a_line(table_file):
    assert repr(Table(table_file, "sold", ignore=("price",))) == (
        "Table(48 rows, 3 columns (age, city, income), target sold (2 classes))"
    )
    assert str(Table(table_file, "price", train=False)) == (
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
