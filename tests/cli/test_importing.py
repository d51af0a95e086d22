"""Modules of the current folder, by their dotted paths."""

import sys

import pytest

from tepui.cli.importing import find_in_this_folder, imported
from tepui.cli.reproduce import admit_modules


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return str(tmp_path)


def test_this_folder_is_searched_first_and_listed_once(here):
    for _ in range(2):
        find_in_this_folder()
        admit_modules(["mine.figure1"])
    assert sys.path[0] == here
    assert sys.path.count(here) == 1


def test_recipes_of_tepui_need_no_folder(here):
    admit_modules(["sharpbalance/figure7"])
    assert here not in sys.path


def test_what_lies_in_this_folder_is_imported(here, tmp_path, monkeypatch):
    (tmp_path / "lies_here.py").write_text("answer = 42")
    assert imported("--metrics", "lies_here.answer", "functions") == 42
    monkeypatch.delitem(sys.modules, "lies_here")


@pytest.mark.parametrize("work", ["raise OSError('full')", "raise SystemExit(2)"])
def test_a_script_that_works_when_it_is_imported_is_told_so(here, tmp_path, work):
    (tmp_path / "a_script.py").write_text(f"answer = 42\n{work}\n")
    rule = r"--model must .* but a_script ends in an error: .*under if __name__ == "
    with pytest.raises(ValueError, match=rule):
        imported("--model", "a_script.answer", "a model")


@pytest.mark.parametrize("path", ["lies_nowhere.answer", "tepui.nothing"])
def test_what_is_not_there_is_named(here, path):
    with pytest.raises(ValueError, match=f"--model must name a class .*, got '{path}'"):
        imported("--model", path, "a class")
