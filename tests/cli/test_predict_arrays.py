"""``tepui predict RUN file.npy``: whole files of numbers are read, others refused."""

import re

import numpy as np
import pytest
import torch

import tepui
from tepui import tasks
from tepui.cli.main import main
from tepui.data.preparation import Preparation
from tepui.models import MLP

ROWS = np.random.default_rng(0).integers(0, 2, (5, 3))
WHOLE = NO_FILE = "must be a valid .npy file: "
NUMBERS = "must hold numbers, samples along the first axis, got"


def saved(file, array):
    np.save(file, array)
    return file.read_bytes()


def header(file, old, new):
    content = saved(file, ROWS.astype(np.float32))
    assert len(old) == len(new)
    assert old in content
    return content.replace(old, new)


READ = {
    **{name: ROWS.astype(name) for name in ("u1", "u2", "u4", "i1", "i2", "i8", "?")},
    **{name: ROWS.astype(name) for name in ("f2", "f4", "f8", ">f4", ">i2")},
    "columns first": np.asfortranarray(ROWS),
}
REFUSED = {
    "no rows": (lambda file: saved(file, ROWS[:0]), NUMBERS),
    "one row": (lambda file: saved(file, ROWS[0]), NUMBERS),
    "one number": (lambda file: saved(file, np.array(3.0)), NUMBERS),
    "texts": (lambda file: saved(file, np.array(["a", "b"])), NUMBERS),
    "dates": (lambda file: saved(file, np.array(["2020-01-01"], "M8[D]")), NUMBERS),
    "records": (lambda file: saved(file, np.zeros(3, [("a", "f4")])), NUMBERS),
    "complex": (lambda file: saved(file, ROWS.astype(np.complex64)), NUMBERS),
    "objects": (lambda file: saved(file, np.array([{}])), NO_FILE),
    "nothing": (lambda _: b"", NO_FILE),
    "another file": (lambda _: b"PK\3\4 no array at all", NO_FILE),
    "another version": (lambda file: header(file, b"Y\x01\x00", b"Y\x09\x00"), NO_FILE),
    "a cut header": (lambda file: saved(file, ROWS)[:60], NO_FILE),
    "a power": (lambda file: header(file, b"(5, 3)", b"(9**9)"), NO_FILE),
    "cut rows": (lambda file: saved(file, ROWS)[:200], WHOLE),
    "more rows": (lambda file: header(file, b"(5, 3), }  ", b"(50000, 3)}"), WHOLE),
    "negative rows": (lambda file: header(file, b"(5, 3)", b"(5,-3)"), WHOLE),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    ensemble = tepui.Ensemble.build(lambda: MLP(3, (4,), 2), members=2)
    ensemble.task, ensemble.preparation = tasks.Classes(), Preparation()
    return ensemble.save(tmp_path_factory.mktemp("run")).parent


def predicted(run, file):
    out = file.with_suffix(".csv")
    main(["predict", str(run), str(file), "--probabilities", "--out", str(out)])
    return np.genfromtxt(out, delimiter=",", names=True)["probability_0"]


@pytest.mark.parametrize("kind", READ)
def test_numbers_of_any_type_are_read(kind, run, tmp_path):
    np.save(tmp_path / "x.npy", READ[kind])
    expected = tepui.load(run).predict(torch.tensor(ROWS)).probs[:, 0]
    np.testing.assert_allclose(predicted(run, tmp_path / "x.npy"), expected, rtol=1e-4)


@pytest.mark.parametrize("kind", REFUSED)
def test_what_holds_no_rows_of_numbers_is_refused_by_name(kind, run, tmp_path, capsys):
    make, said = REFUSED[kind]
    file = tmp_path / "mine.npy"
    file.write_bytes(make(file))
    with pytest.raises(SystemExit) as ended:
        predicted(run, file)
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"tepui: {file} must ")
    assert re.search(said, line)
