"""Text files are UTF-8 whatever the locale says, so every one names its encoding."""

import ast
from pathlib import Path

import pytest

import tepui

SOURCE = Path(tepui.__file__).parent


def unnamed(text):
    """Return the lines of a program that open a text file by the locale."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    return [
        call.lineno
        for call in calls
        if _is_of_text(call) and "encoding" not in {word.arg for word in call.keywords}
    ]


def _is_of_text(call):
    match call.func:
        case ast.Name("open"):
            return _is_text_mode(call, place=1)
        case ast.Attribute(attr="open"):
            return _is_text_mode(call, place=0)
        case ast.Attribute(attr="read_text" | "write_text"):
            return True
    return False


def _is_text_mode(call, place):
    """Other things than files are opened too, by what is no mode."""
    modes = [*call.args[place : place + 1]]
    modes += [word.value for word in call.keywords if word.arg == "mode"]
    if not modes:
        return place == 1 or not call.args
    mode = modes[0].value if isinstance(modes[0], ast.Constant) else None
    return isinstance(mode, str) and set(mode) <= set("rwxat+")


@pytest.mark.parametrize(
    ("line", "names_none"),
    [
        ("open(file)", True),
        ("open(file, 'w', encoding='utf-8')", False),
        ("open(file, mode='wb')", False),
        ("path.open()", True),
        ("path.open('a', newline='')", True),
        ("path.open(mode='r')", True),
        ("path.open('rb')", False),
        ("path.open('w', encoding='utf-8')", False),
        ("StoredArray.open(path)", False),
        ("archive.open('labels.npy')", False),
        ("path.read_text()", True),
        ("path.write_text(text, encoding='utf-8')", False),
    ],
)
def test_what_opens_text_is_found(line, names_none):
    assert bool(unnamed(line)) == names_none


@pytest.mark.slow
def test_every_text_file_names_its_encoding():
    files = sorted(SOURCE.rglob("*.py"))
    assert len(files) > 400
    found = {
        f"{file.relative_to(SOURCE)}:{line}"
        for file in files
        for line in unnamed(file.read_text(encoding="utf-8"))
    }
    assert not found
