"""The commands that a comparison was made by, from what lies in its folder."""

from dataclasses import replace
from pathlib import Path

from report_cases import comparison
from tepui.core.storage import write_document
from tepui.studies.commands import COMMANDS, commands_of, with_commands

BEGAN = "tepui compare --epochs 1 --out x"
MORE = "tepui compare --resume --out x --ensembles 3"
OTHER = "tepui compare --resume --out x --methods SAM"
WORKER = "_submit.py /somewhere"


def made(folder, last, *by, environment=None):
    """Return a comparison whose runs in a folder were begun by some commands."""
    plain = comparison()
    (first, second), (third,) = (method.ensembles for method in plain.methods)
    runs = [replace(r, folder=f"{n}") for n, r in enumerate((first, second, third))]
    for run, command in zip(runs, by, strict=False):
        place = Path(folder, run.folder)
        place.mkdir(exist_ok=True)
        document = {"config": {}, "environment": {"command": command}}
        write_document(place / "run.json", "run", document)
    methods = (
        replace(plain.methods[0], ensembles=tuple(runs[:2])),
        replace(plain.methods[1], ensembles=(runs[2],)),
    )
    environment = environment or {"command": last}
    return replace(plain, methods=methods, environment=environment)


def test_runs_tell_the_commands_that_began_them(tmp_path):
    found = made(tmp_path, OTHER, BEGAN, MORE, OTHER)
    assert commands_of(found, tmp_path) == [BEGAN, MORE, OTHER]


def test_what_began_comes_first_and_workers_are_no_commands(tmp_path):
    found = made(tmp_path, MORE, OTHER, WORKER, BEGAN)
    assert commands_of(found, tmp_path) == [BEGAN, OTHER, MORE]


def test_a_command_that_trained_nothing_is_known_too(tmp_path):
    tested = "tepui compare --resume --out x --corruptions cifar"
    found = made(tmp_path, OTHER, BEGAN, BEGAN, OTHER)
    kept = with_commands(found, tmp_path, [BEGAN, tested])
    assert kept[COMMANDS] == [BEGAN, tested, OTHER]
    later = made(tmp_path, OTHER, environment=kept)
    assert commands_of(later, tmp_path) == [BEGAN, tested, OTHER]


def test_folders_without_runs_have_the_last_command(tmp_path):
    assert commands_of(made(tmp_path, MORE), tmp_path) == [MORE]
    assert commands_of(made(tmp_path, "", environment={"a": 1}), tmp_path) == []
