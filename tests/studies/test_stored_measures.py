"""Measures in the folder of a run, beside files of others with the same name."""

import pytest

from tepui.core.storage import write_document
from tepui.studies import verify
from tepui.studies.stored_measures import stored_measures
from tepui.studies.verifying import UNSEALED

MEASURED = {"diversity": {"disagreement": 0.25}}


@pytest.fixture
def folder(tmp_path):
    """A run that was measured, with notes of somebody else."""
    for name in ("measure-001", "measure-mine", "x"):
        (tmp_path / name).mkdir()
    write_document(tmp_path / "measure-001/measure.json", "measures", MEASURED)
    for name in ("measure-mine", "x"):
        (tmp_path / name / "measure.json").write_text('{"length": 3}')
    return tmp_path


def test_files_of_others_are_passed_over(folder):
    assert stored_measures(folder) == {"measure-001": MEASURED}


def test_only_folders_that_measure_makes_are_looked_into(folder):
    write_document(folder / "x/measure.json", "measures", MEASURED)
    assert stored_measures(folder) == {"measure-001": MEASURED}


def test_files_of_others_are_not_damaged(folder):
    found = {f.file.parent.name: f for f in verify(folder)}
    assert {f.damage for f in found.values()} == {None}
    assert found["measure-001"].kind == "measures"
    assert found["measure-mine"].kind == found["x"].kind == UNSEALED


def test_measures_that_were_changed_are_damaged(folder):
    file = folder / "measure-001/measure.json"
    file.write_text(file.read_text().replace("0.25", "0.26"))
    assert [f.file for f in verify(folder) if f.damage is not None] == [file]
    with pytest.raises(ValueError, match="its digest differs"):
        stored_measures(folder)
