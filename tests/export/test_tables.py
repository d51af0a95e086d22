"""An exported ensemble of a table takes rows in the units of its columns."""

import json
from functools import partial

import pytest
import torch
from torch import nn

import tepui
from table_files import rows, written
from tepui.data import Table
from tepui.export import export_ensemble
from tepui.methods import DeepEnsemble

# Seconds since 1970: in float32 they are all the same.
FIRST = 1_700_000_000
KEEP = ("second",)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    table = [[*row, str(FIRST + number)] for number, row in enumerate(rows())]
    names = ["age", "city", "income", "sold", "price", "second"]
    return written(tmp_path_factory.mktemp("table") / "my.csv", table, names)


def learned(file, target):
    train = Table(file, target, keep=KEEP)
    task = {"sold": tepui.losses.CrossEntropy(), "price": tepui.losses.GaussianNLL()}
    make = partial(nn.Linear, train.inputs.shape[1], 2)
    ensemble = tepui.Ensemble.build(make, members=2, seed=0)
    how = {"method": DeepEnsemble(), "epochs": 2, "progress": "none"}
    tepui.fit(ensemble, train, loss=task[target], **how)
    return ensemble


def program_of(path):
    extra = {"tepui.json": ""}
    program = torch.export.load(path, extra_files=extra).module()
    return program, json.loads(extra["tepui.json"])


def encoded(features, row):
    """What a service does with a row, by what the file says of its inputs."""
    return [
        float(row[f["column"]]) if f["word"] is None else row[f["column"]] == f["word"]
        for f in features
    ]


@pytest.mark.parametrize("target", ["sold", "price"])
@pytest.mark.parametrize("kind", ["data set", "part", "file"])
def test_the_file_answers_rows_in_their_own_units(target, kind, file, tmp_path):
    ensemble, test = learned(file, target), Table(file, target, train=False, keep=KEEP)
    given = {"data set": test, "part": test.subset(range(9)), "file": file}[kind]
    export_ensemble(ensemble, given, tmp_path / "e.pt2", to="torch")
    program, about = program_of(tmp_path / "e.pt2")
    names, *table = [line.split(",") for line in file.read_text().splitlines()]
    named = [dict(zip(names, row, strict=True)) for row in table]
    features = json.loads(about["columns"])
    own = torch.tensor([encoded(features, row) for row in named], dtype=torch.float64)
    found, expected = program(own), ensemble.predict(file)
    field = "probs" if target == "sold" else "mean"
    torch.testing.assert_close(found[field], getattr(expected, field))
    units = json.loads(about["units"])
    assert (units is None) == (target == "sold")
    torch.testing.assert_close(
        getattr(ensemble.predict(own, raw=True), field), getattr(expected, field)
    )
    torch.testing.assert_close(
        getattr(ensemble.predict(own.numpy(), raw=True), field),
        getattr(expected, field),
    )


def test_units_lead_back_to_what_a_model_sees(file):
    ensemble, test = learned(file, "sold"), Table(file, "sold", train=False, keep=KEEP)
    own = ensemble.preparation.in_units(test.inputs)
    seconds = own[:, -1].round().tolist()
    assert {*seconds} <= {FIRST + number for number in range(60)}
    assert len({*seconds}) == len(test)
    torch.testing.assert_close(ensemble.preparation.tensors(own), test.inputs)


def test_rows_of_a_file_are_not_standardized_twice(file):
    with pytest.raises(ValueError, match="raw must be False for a file of rows"):
        learned(file, "sold").predict(file, raw=True)


def test_what_was_no_table_has_no_units():
    data = tepui.data.Arrays(torch.zeros(2, 3), torch.tensor([0, 1]))
    preparation = tepui.data.preparation.preparation_of(data)
    with pytest.raises(ValueError, match="have learned from a table"):
        preparation.in_units(torch.zeros(1, 3))
