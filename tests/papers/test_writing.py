"""A recipe's files."""

import json

import pytest

from tepui.papers.writing import as_json, as_markdown, free_paths, write_files


def test_files_are_written_in_order(tmp_path):
    paths = write_files(tmp_path / "new", {"b": b"2", "a": b"1"})
    assert [(path.name, path.read_bytes()) for path in paths] == [
        ("b", b"2"),
        ("a", b"1"),
    ]


def test_one_file_in_the_way_keeps_all_from_being_written(tmp_path):
    (tmp_path / "b").write_bytes(b"old")
    with pytest.raises(FileExistsError, match=r"b exists; pass overwrite=True"):
        write_files(tmp_path, {"a": b"1", "b": b"2"})
    assert not (tmp_path / "a").exists()
    assert (tmp_path / "b").read_bytes() == b"old"
    write_files(tmp_path, {"a": b"1", "b": b"2"}, overwrite=True)
    assert (tmp_path / "b").read_bytes() == b"2"


def test_free_paths_creates_nothing(tmp_path):
    folder = tmp_path / "new"
    assert free_paths(folder, ["a"]) == [folder / "a"]
    assert not folder.exists()


def test_json_refuses_what_json_cannot_hold():
    assert json.loads(as_json({"a": [1.5]})) == {"a": [1.5]}
    with pytest.raises(ValueError, match="Out of range"):
        as_json({"a": float("nan")})


def test_markdown_aligns_numbers_right():
    lines = as_markdown(["a", "b", "c"], [["x", "1", "2"]]).splitlines()
    assert lines == ["| a | b | c |", "|---|---:|---:|", "| x | 1 | 2 |"]
