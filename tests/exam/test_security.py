"""What comes from outside: names, damaged files, kills and bad calls, as data.

The attempts are lists in ``tests/exam/data``; here is one runner for each.
"""

import hashlib
import importlib
import json
import random
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from torch import nn

from exam.cases import rows, run
from exam.names import public

DATA = Path(__file__).with_name("data")
TABLE = (
    "--data Table --data.path flats.csv --data.target kind --members 2 --epochs 1"
    " --out made --quiet"
)
CANARY = "canary_of_exam"
SOURCE = """
from pathlib import Path
from torch import nn
from torch.utils.data import Dataset

Path({trace!r}).touch()

class Net(nn.Module):
    def __init__(self, **options):
        Path({trace!r}).touch()

class Data(Dataset):
    def __init__(self, **options):
        Path({trace!r}).touch()

def make(**options) -> nn.Module:
    Path({trace!r}).touch()

metric = made = make
"""
STARTS = {"os.system", "subprocess.Popen", "os.exec", "os.posix_spawn"}
watched = None  # a list of what was started, while somebody looks


def _hear(event, arguments):
    if watched is not None and event in STARTS:
        watched.append((event, arguments))


sys.addaudithook(_hear)


def write_table(file, samples=60):
    """Write rows of three kinds of flats."""
    numbers, labels = rows(samples, seed=8)
    kinds = ("flat", "house", "barn")
    lines = ["size,light,kind"] + [
        f"{row[0]:.4f},{row[1]:.4f},{kinds[label]}"
        for row, label in zip(numbers, labels, strict=True)
    ]
    file.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a table, a run on it, and a module that leaves a trace."""
    folder = tmp_path_factory.mktemp("security")
    write_table(folder / "flats.csv")
    (folder / "new.csv").write_text("size,light\n1.5,0.25\n-1,2\n")
    (folder / CANARY).mkdir()
    source = SOURCE.format(trace=str(folder / "trace"))
    for name in ("__init__", "inner"):
        (folder / CANARY / f"{name}.py").write_text(source)
    return folder


@pytest.fixture
def here(place, monkeypatch, capsys):
    """The folder to stand in, with its run."""
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(place)
    monkeypatch.setenv("TEPUI_DATA", str(place / "no data"))
    if not Path("run").exists():
        words = TABLE.replace("--out made", "--out run --model MLP --model.hidden [5]")
        assert run(capsys, "train", *shlex.split(words)).status == 0
    yield place
    for name in [name for name in sys.modules if name.startswith(CANARY)]:
        del sys.modules[name]


# Attempts to have something run by naming it.

NAMING = json.loads((DATA / "naming.json").read_text())
ATTEMPTS = 10  # at each of thirty places


def payloads(number):
    """Return what is tried at a place: other names at each."""
    kinds = NAMING["places"][number]["takes"]
    offered = [(kind, payload) for kind in kinds for payload in NAMING[kind]]
    return random.Random(f"place {number}").sample(offered, ATTEMPTS)


def filled(payload, trace):
    """Return a payload with the file that it would make."""
    text = payload if isinstance(payload, str) else json.dumps(payload)
    return text.replace("{trace}", trace)


def sealed(document):
    """Return a document with the digest that vouches for what it says."""
    content = {n: v for n, v in document.items() if n not in SEAL}
    text = json.dumps([document["kind"], document["format"], content], sort_keys=True)
    return document | {"sha256": hashlib.sha256(text.encode()).hexdigest()}


SEAL = ("kind", "format", "sha256")


def forge_document(name, at, payload):
    """Copy the run, and let one of its documents name something, well sealed."""
    shutil.copytree("run", "forged")
    file = Path("forged", name)
    document = json.loads(file.read_text())
    assert sealed(document) == document
    part = document
    for key in at[:-1]:
        part = part[key]
    part[at[-1]] = payload
    file.write_text(json.dumps(sealed(document)))


def forge_options(key, payload):
    """Copy the run, and let the options that it kept name something."""
    shutil.copytree("run", "forged")
    file = Path("forged/options.yaml")
    kept = yaml.safe_load(file.read_text())
    assert kept.pop(key)
    lines = [f"{name}: {json.dumps(value)}" for name, value in kept.items()]
    file.write_text("\n".join([*lines, f"{key}: {payload}"]) + "\n")


def forge_class(name):
    """Save an ensemble of a class that pretends to be something else."""
    module, _, last = name.rpartition(".")
    about = {"__module__": module or "builtins", "__qualname__": last}
    kind = type(last or "x", (nn.Linear,), about)
    members = [kind(4, 3), kind(4, 3)]
    public("Ensemble")(members).save("forged")


def attempt(capsys, where, kind, payload):
    """Make one attempt and return what is wrong with its end; nothing if all is well."""
    global watched
    trace = Path("trace").resolve()
    raw = filled(payload, str(trace))
    in_file = raw if kind in ("specs", "tags") else json.dumps(raw)
    words = [
        raw if word == "{payload}" else word.replace("{payload}", raw)
        for word in shlex.split(where["words"].replace("{table}", TABLE))
    ]
    if "file" in where:
        text = where["file"].replace("{payload}", in_file)
        Path("attack.yaml").write_text(text.replace("{{", "{").replace("}}", "}"))
    if "document" in where:
        value = json.loads(raw) if kind == "specs" else raw
        forge_document(where["document"], where["at"], value)
    if "options" in where:
        forge_options(where["options"], in_file)
    watched = []
    try:
        if "class" in where:
            forge_class(raw)
            with pytest.raises((ValueError, FileNotFoundError, ImportError)):
                public("load")("forged")
            refused = True
        else:
            outcome = run(capsys, *words)
            refused = outcome.status != 0 or where.get("plain")
            assert "Traceback" not in outcome.err
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    finally:
        started, watched = watched, None
        there = trace.exists()
        trace.unlink(missing_ok=True)
        known = any(name.startswith(CANARY) for name in sys.modules)
        for folder in ("forged", "made"):
            shutil.rmtree(folder, ignore_errors=True)
        Path("made.csv").unlink(missing_ok=True)
    if there or known or started:
        return f"it ran: {started}"
    return "" if refused else "accepted"


TRIED, ENDED_BADLY = set(), set()


@pytest.mark.parametrize("number", range(len(NAMING["places"])))
def test_names_run_nothing(here, capsys, number):
    where = NAMING["places"][number]
    TRIED.add(number)
    found = {
        json.dumps(payload): attempt(capsys, where, kind, payload)
        for kind, payload in payloads(number)
    }
    assert len(found) == ATTEMPTS
    assert not any(wrong.startswith("it ran") for wrong in found.values())
    bad = {json.loads(name): wrong for name, wrong in found.items() if wrong}
    unknown = {name: bad[name] for name in bad.keys() - NAMING["known"].keys()}
    assert unknown == {}
    ENDED_BADLY.update(bad)


def test_known_defects_of_names_are_still_there():
    """What ends well leaves the list."""
    if len(TRIED) == len(NAMING["places"]):
        assert ENDED_BADLY == NAMING["known"].keys()


def test_there_are_three_hundred_attempts():
    assert ATTEMPTS * len(NAMING["places"]) == 300


def test_what_runs_is_noticed(here, capsys, monkeypatch):
    """An attempt that succeeds is seen: an import, and a process."""
    where = NAMING["places"][0]

    def careless(capsys, *words):
        if words[0] == "import":
            importlib.import_module(CANARY)
        else:
            __import__("os").system(f"touch {Path('trace').resolve()}")
        return type("Outcome", (), {"status": 2, "err": ""})

    monkeypatch.setitem(globals(), "run", careless)
    assert attempt(capsys, {"words": "import"}, "names", "x").startswith("it ran")
    for name in [name for name in sys.modules if name.startswith(CANARY)]:
        del sys.modules[name]
    assert attempt(capsys, where, "names", "x").startswith("it ran")


class Spring:
    """What a pickle makes on being read: a file."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return Path.touch, (Path(self.file),)


PICKLES = {
    "weights": ("a.pt", "evaluate a.pt --model MLP {data} --out made"),
    "a tensor among weights": ("b.pt", "measure b.pt --model MLP {data} --out made"),
    "an array": ("c.npy", "predict run c.npy --out made.csv"),
    "arrays": ("d.npz", "train --data ArrayFile --data.path d.npz --out made"),
}


@pytest.mark.parametrize("name", PICKLES)
def test_pickles_run_nothing(here, capsys, name):
    file, words = PICKLES[name]
    spring = Spring(str(Path("trace").resolve()))
    found = np.array([spring, None], dtype=object)
    match Path(file).suffix:
        case ".pt":
            torch.save({"weight": torch.zeros(3), "more": spring}, file)
        case ".npy":
            np.save(file, found, allow_pickle=True)
        case ".npz":
            np.savez(file, x_train=found, y_train=np.arange(2))
    data = TABLE.partition(" --members")[0]
    outcome = run(capsys, *shlex.split(words.replace("{data}", data)))
    assert not Path("trace").exists()
    assert outcome.status != 0
    assert file in outcome.err
    assert "Traceback" not in outcome.err
