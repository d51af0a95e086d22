"""What comes from outside: names, damaged files, kills and bad calls, as data.

The attempts are lists in ``tests/exam/data``; here is one runner for each.
"""

import hashlib
import importlib
import json
import os
import random
import shlex
import shutil
import signal
import socket
import sys
import threading
import time
import traceback
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import nn

from exam.cases import rows, run
from exam.names import command, public

DATA = Path(__file__).with_name("data")
TABLE = (
    "--data 'Table(path=flats.csv, target=kind)' --members 2 --epochs 1"
    " --set progress=none --out made"
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
WATCHES = []  # lists of what was started, while somebody looks


def _hear(event, arguments):
    if WATCHES and event in STARTS:
        WATCHES[-1].append((event, arguments))


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
        words = TABLE.replace("--out made", "--out run --model 'MLP(hidden=[5])'")
        assert run(capsys, "train", *shlex.split(words)).status == 0
    yield place
    for name in [name for name in sys.modules if name.startswith(CANARY)]:
        del sys.modules[name]


# Attempts to have something run by naming it.

NAMING = json.loads((DATA / "naming.json").read_text())
ATTEMPTS = 10  # at each of thirty places


def payloads(number):
    """Return what is tried at a place: code of one's own in files, and other names."""
    kinds = NAMING["places"][number]["takes"]
    offered = [(kind, payload) for kind in kinds for payload in NAMING[kind]]
    sure = [("own", f"{CANARY}.Net")] if "own" in kinds else []
    others = [each for each in offered if each not in sure]
    more = ATTEMPTS - len(sure)
    return sure + random.Random(f"place {number}").sample(others, more)


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


def forge_class(name):
    """Save an ensemble of a class that pretends to be something else."""
    module, _, last = name.rpartition(".")
    about = {"__module__": module or "builtins", "__qualname__": last}
    kind = type(last or "x", (nn.Linear,), about)
    members = [kind(4, 3), kind(4, 3)]
    public("Ensemble")(members).save("forged")


def attempt(capsys, where, kind, payload):
    """Make one attempt; return what is wrong with its end, nothing if all is well."""
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
    WATCHES.append([])
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
        started = WATCHES.pop()
        there = trace.exists()
        trace.unlink(missing_ok=True)
        known = any(name.startswith(CANARY) for name in sys.modules)
        for folder in ("forged", "made"):
            shutil.rmtree(folder, ignore_errors=True)
        Path("made.csv").unlink(missing_ok=True)
    if there or known or started:
        return f"it ran: {started}"
    return "" if refused else "accepted"


@pytest.mark.parametrize("number", range(len(NAMING["places"])))
def test_names_run_nothing(here, capsys, number):
    where = NAMING["places"][number]
    found = {
        json.dumps(payload): attempt(capsys, where, kind, payload)
        for kind, payload in payloads(number)
    }
    assert len(found) == ATTEMPTS
    assert not any(wrong.startswith("it ran") for wrong in found.values())
    assert not {name: wrong for name, wrong in found.items() if wrong}


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
    "arrays": ("d.npz", "train --data 'ArrayFile(path=d.npz)' --out made"),
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


# Files that were damaged on their way.

DAMAGED = json.loads((DATA / "damaged.json").read_text())


def stretch(content, draw):
    start = draw.randrange(len(content))
    return start, min(len(content), start + draw.choice([1, 2, 8, 64]))


def flip(content, draw):
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)


def blank(content, draw):
    start, end = stretch(content, draw)
    content[start:end] = bytes(end - start)


def drop(content, draw):
    start, end = stretch(content, draw)
    del content[start:end]


def insert(content, draw):
    place = draw.randrange(len(content) + 1)
    content[place:place] = draw.randbytes(draw.randrange(1, 40))


def repeat(content, draw):
    start, end = stretch(content, draw)
    content[end:end] = content[start:end]


def cut(content, draw):
    del content[draw.randrange(len(content)) :]


def alter_digit(content, draw):
    places = [place for place, byte in enumerate(content) if chr(byte).isdecimal()]
    content[draw.choice(places or [0])] = ord(draw.choice("0123456789"))


def enlarge(content, draw):
    """Let a number in some header claim far more than there is."""
    place = draw.randrange(max(1, len(content) - 8))
    content[place : place + 4] = b"\xff\xff\xff\x7f"


DAMAGES = (flip, blank, drop, insert, repeat, cut, alter_digit, enlarge)


def damaged(content, name, seed):
    """Return some bytes with one seeded damage, each kind in turn."""
    draw, changed = random.Random(f"{name} {seed}"), bytearray(content)
    while changed == content:
        DAMAGES[seed % len(DAMAGES)](changed, draw)
        seed += changed == content
    return bytes(changed)


def bits(value):
    """Return a value that can be compared: tensors become bytes."""
    if isinstance(value, torch.Tensor):
        value = value.detach().contiguous()
        return str(value.dtype), tuple(value.shape), value.numpy().tobytes()
    if isinstance(value, dict):
        return {str(name): bits(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [bits(item) for item in value]
    return value


def small_images():
    """Return data of gray images of two classes."""
    pixels = torch.arange(12 * 36).reshape(12, 1, 6, 6) * 7 % 251
    return public("data.Arrays")(pixels.to(torch.uint8), torch.arange(12) % 2)


def image_network():
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 2))


def trained_in_parts(**options):
    """Train four epochs in the folder ``half``; a kill there is gone on from."""
    train = public("data.Arrays")(*rows(40, seed=3))
    ensemble = public("Ensemble").build(
        lambda: public("models.MLP")(6, (5,), 3), members=2, seed=4
    )
    return public("fit")(
        ensemble,
        train,
        method=public("methods.SharpBalance")(rho=0.1),
        epochs=4,
        batch_size=16,
        validation=0.25,
        keep="best",
        out="half",
        progress="none",
        **options,
    ).ensemble


def read_ensemble():
    ensemble = public("load")("run")
    out = ensemble.predict("new.csv")
    return [ensemble.state_dict(), ensemble.seeds, out.probs, out.unfamiliarity()]


def read_logits():
    stored = public("read_logits")("run")
    return [stored.rule, stored.clean, stored.ood]


def read_report(capsys):
    done = run(capsys, "report", "run", "--out", "page", "--overwrite")
    if done.status:
        assert "Traceback" not in done.err
        raise ValueError(done.err)
    return Path("page/report.html").read_text()


def read_resumed():
    shutil.copytree("half", "kept")
    try:
        return trained_in_parts(resume=True).state_dict()
    finally:
        shutil.rmtree("half")
        Path("kept").rename("half")


def read_copies(capsys):
    shutil.rmtree("copied", ignore_errors=True)
    shutil.copytree("run_of_digits", "copied")
    done = run(
        capsys, "evaluate", "copied", "--copies", "copies", "--set", "logits_in=none"
    )
    if done.status:
        assert "Traceback" not in done.err
        raise ValueError(done.err)
    return public("evaluation.read_evaluation")("copied")["shifted"]


def read_predicted(capsys):
    words = "predict run_of_digits x.npy --out out.csv --overwrite"
    done = run(capsys, *words.split())
    if done.status:
        assert "Traceback" not in done.err
        raise ValueError(done.err)
    return Path("out.csv").read_text()


def read_picture(file):
    members = public("Ensemble").build(image_network, members=2)
    method = public("methods.DeepEnsemble")()
    data = small_images()
    public("fit")(members, data, method=method, epochs=1, progress="none")
    return members.predict([file]).probs


def read_table():
    table = public("data.Table")("flats.csv", "kind")
    return [table.inputs, table.targets, table.classes]


def read_weights(file):
    found = public("ensembles.ensemble_of")([file], image_network)
    return found.state_dict()


@pytest.fixture(scope="module")
def files(place):
    """What is damaged, beside what the names are tried on."""
    folder = place / "files"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_table(folder / "flats.csv", 90)
        shutil.copy(place / "new.csv", folder)
        trained_in_parts(stop_after=2)
        for kind in ("png", "jpg"):
            shade = np.arange(144, dtype=np.uint8).reshape(12, 12)
            Image.fromarray(shade).save(f"a.{kind}")
        np.save("x.npy", public("data.Digits")(train=False).inputs[:9].numpy())
        weights = image_network().state_dict()
        torch.save(weights, "a.pt")
        save_file(weights, "a.safetensors")
    return folder


@pytest.fixture
def among_files(files, monkeypatch, capsys):
    monkeypatch.chdir(files)
    if not Path("run").exists():
        for words in (
            "train --data Table(path=flats.csv,target=kind) --members 2 --epochs 3"
            " --model MLP(hidden=[5]) --validation 0.3 --out run --set progress=none",
            "calibrate run --coverage 0.8 --detectors",
            "evaluate run",
            "train --model MLP(hidden=[4]) --members 2 --epochs 1"
            " --out run_of_digits --set progress=none",
            "corrupt --types fog --out copies",
        ):
            done = run(capsys, *words.split())
            assert done.status == 0, done.err
    return files


READERS = {
    "ensemble": read_ensemble,
    "logits": read_logits,
    "report": read_report,
    "resumed": read_resumed,
    "copies": read_copies,
    "predicted": read_predicted,
    "picture": read_picture,
    "table": read_table,
    "weights": read_weights,
}


def told(read, file):
    """Return what a reader makes of a file: its bits, or that it names the file."""
    try:
        return bits(read())
    except (ValueError, OSError) as error:
        return "refused" if Path(file).name in str(error) else f"unnamed: {error}"
    except Exception as error:
        return f"foreign {type(error).__name__}: {error}"


@pytest.mark.filterwarnings("ignore:level")
@pytest.mark.parametrize("row", DAMAGED, ids=lambda row: row["file"])
def test_damage_is_noticed(among_files, capsys, row):
    file, reader = Path(row["file"]), READERS[row["read"]]
    by_command = row["read"] in ("copies", "report", "predicted")
    by_path = row["read"] in ("picture", "weights")
    given = [capsys] * by_command + [row["file"]] * by_path
    content = file.read_bytes()
    whole = told(lambda: reader(*given), file)
    assert not isinstance(whole, str) or len(whole) > 60, whole
    ends = []
    try:
        for seed in range(row["damages"]):
            file.write_bytes(damaged(content, row["file"], seed))
            found = told(lambda: reader(*given), file)
            if found == whole:
                found = "same"
            elif not row["sealed"] and not str(found).startswith(
                ("foreign", "unnamed")
            ):
                found = "refused" if found == "refused" else "changed"
            elif not isinstance(found, str):
                found = "SILENTLY DIFFERENT"
            ends.append(found)
    finally:
        file.write_bytes(content)
    allowed = {"same", "refused"} | ({"changed"} if not row["sealed"] else set())
    assert ({*ends} <= allowed) == ("known" not in row), ends
    if row["sealed"] and not row.get("written again"):
        assert "refused" in ends
    assert told(lambda: reader(*given), file) == whole


def test_there_are_a_hundred_damaged_files():
    assert sum(row["damages"] for row in DAMAGED) == 100


# Processes that are killed.

KILLS = json.loads((DATA / "kills.json").read_text())
CHANGES = ("open", "os.rename", "os.mkdir", "os.remove")


def in_a_child(work):
    """Do some work in a forked process, silently; return how it ended."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            torch.set_num_threads(1)
            nowhere = os.open("child.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            for stream in (1, 2):
                os.dup2(nowhere, stream)
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def at_changes(folder, act):
    """Call a function at every change in a folder, with its number from 1."""
    below, count = str(Path(folder).absolute()), 0

    def hear(event, arguments):
        nonlocal count
        if event not in CHANGES:
            return
        if not str(Path(str(arguments[0])).absolute()).startswith(below):
            return
        if event == "open" and not (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR):
            return
        count += 1
        act(count)

    sys.addaudithook(hear)


def train_words(row, out):
    table = TABLE.replace("--out made", f"--out {out} --model 'MLP(hidden=[5])'")
    return shlex.split(
        f"train {table.replace('--epochs 1', '--epochs 6')} {row['words']}"
    )


def killed_at(words, out, last):
    """Train in a child that is killed at a change of its folder."""

    def work():
        def act(number):
            if number == last:
                os.kill(os.getpid(), signal.SIGKILL)

        at_changes(out, act)
        command()(words)

    return in_a_child(work)


def changes_of(words, out):
    """Train in a child to the end; return how often it changed its folder."""

    def work():
        numbers = []
        at_changes(out, numbers.append)
        command()(words)
        Path("changes").write_text(str(len(numbers)))

    assert in_a_child(work) == 0
    return int(Path("changes").read_text())


@pytest.mark.parametrize("number", range(len(KILLS)))
def test_what_was_killed_goes_on_to_the_same_bits(here, capsys, number):
    row = KILLS[number]
    Path("kills").mkdir(exist_ok=True)
    whole, broken = f"kills/whole{number}", f"kills/broken{number}"
    total = changes_of(train_words(row, whole), whole)
    assert total > 20
    words = train_words(row, broken)
    assert killed_at(words, broken, int(row["share"] * total)) == -signal.SIGKILL
    if row["share"] < 0.9:
        assert not Path(broken, "ensemble.safetensors").exists()
    outcome = run(capsys, *words, "--resume")
    assert outcome.status == 0, outcome.err
    first, second = (public("load")(folder) for folder in (whole, broken))
    assert bits(first.state_dict()) == bits(second.state_dict())
    assert first.seeds == second.seeds
    losses = [
        [json.loads(line)["loss"] for line in log.read_text().splitlines()]
        for log in (Path(out, "metrics.jsonl") for out in (whole, broken))
    ]
    assert losses[0] == losses[1]
    assert run(capsys, "verify", broken).status == 0
    names = [{p.name for p in Path(out).iterdir()} for out in (whole, broken)]
    assert names[0] == names[1]


def test_there_are_ten_kills():
    assert len(KILLS) == 10


def hurried(factor, monkeypatch):
    """Let this process's clock run faster, and its pauses be as much shorter."""
    clock, sleep, wait = time.monotonic, time.sleep, threading.Event.wait
    begun = clock()
    monkeypatch.setattr(time, "monotonic", lambda: begun + factor * (clock() - begun))
    monkeypatch.setattr(time, "sleep", lambda pause: sleep(pause / factor))

    def shorter(event, timeout=None):
        return wait(event, None if timeout is None else timeout / factor)

    monkeypatch.setattr(threading.Event, "wait", shorter)


def train_here(out, **options):
    train = public("data.Arrays")(*rows(40, seed=3))
    members = public("Ensemble").build(lambda: nn.Linear(6, 3), members=2, seed=4)
    method = public("methods.DeepEnsemble")()
    how = {"method": method, "epochs": 3, "progress": "none", "out": out, **options}
    return public("fit")(members, train, **how).ensemble


def test_a_run_that_another_host_renews_is_not_taken_over(here, monkeypatch):
    """Five minutes of waiting, on a clock that runs fast for both."""
    sleep, alone = time.sleep, bits(train_here("alone").state_dict())
    child = os.fork()
    if child == 0:
        code = 1
        try:
            torch.set_num_threads(1)
            monkeypatch.setattr(socket, "gethostname", lambda: "elsewhere")
            hurried(30, monkeypatch)
            train_here("shared", callbacks=[lambda record: sleep(3) and None])
            code = 0
        finally:
            os._exit(code)
    sleep(1.5)
    try:
        with monkeypatch.context() as patch:
            hurried(30, patch)
            with pytest.raises(OSError, match="shared"):
                train_here("shared", resume=True)
    finally:
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert ended == 0
    assert bits(public("load")("shared", lambda: nn.Linear(6, 3)).state_dict()) == alone


# Calls with a value that cannot be right.

BAD = json.loads((DATA / "bad_calls.json").read_text())
ROWS = [
    (call, argument, value)
    for call, arguments in BAD["calls"].items()
    for argument, values in arguments.items()
    for value in values
]


def table_of(inputs, labels):
    return public("data.Arrays")(inputs, labels)


def wider():
    return table_of(torch.randn(40, 9), torch.arange(40) % 3)


VALUES = {
    "none": lambda: None,
    "text": lambda: "nonsense",
    "empty text": lambda: "",
    "number": lambda: 7,
    "zero": lambda: 0,
    "minus": lambda: -1,
    "half": lambda: 0.5,
    "two": lambda: 2.0,
    "two hundred": lambda: 200,
    "nan": lambda: float("nan"),
    "infinite": lambda: float("inf"),
    "class": lambda: public("methods.SAM"),
    "object": object,
    "scalar": lambda: torch.tensor(1.5),
    "tensor": lambda: torch.zeros(2),
    "complex": lambda: torch.zeros(4, 6, dtype=torch.complex64),
    "wider": lambda: torch.randn(40, 9),
    "shorter": lambda: torch.zeros(5, dtype=torch.long),
    "longer": lambda: (0.1, 0.2, 0.3, 0.4),
    "empty list": list,
    "nan list": lambda: [float("nan")] * 3,
    "zero list": lambda: (0.0, 0.0, 0.0),
    "minus list": lambda: (-1, -2, -3),
    "nan rows": lambda: np.full((40, 6), np.nan),
    "returns text": lambda: lambda: "nonsense",
    "empty data": lambda: table_of(torch.zeros(0, 6), torch.zeros(0).long()),
    "wider data": wider,
    "far labels": lambda: table_of(rows(40)[0], rows(40)[1] + 900),
    "nan data": lambda: table_of(rows(40)[0] * float("nan"), rows(40)[1]),
    "wider sets": lambda: {"far": wider()},
}


def members_of():
    return public("Ensemble").build(lambda: nn.Linear(6, 3), members=2, seed=1)


def bound(method, **good):
    """Return a method of fresh members, and its good arguments."""

    def call(**given):
        return getattr(members_of(), method)(**given)

    return call, good


def fitted_classifier(**given):
    kind = public("sklearn.EnsembleClassifier")
    return kind(members=2, epochs=1, hidden=(4,)).fit(**given)


def good_call(name):
    """Return what is called, and arguments that are right."""
    data = table_of(*rows(40))
    plain = public("methods.DeepEnsemble")()
    match name:
        case "fit":
            good = {"ensemble": members_of(), "dataset": data, "method": plain}
            return public(name), {**good, "epochs": 1, "progress": "none"}
        case "evaluate":
            return public(name), {"ensemble": members_of(), "dataset": data}
        case "predict":
            return bound(name, inputs=rows(4)[0])
        case "calibrate" | "conformal":
            return bound(name, dataset=data)
        case "Ensemble.build":
            good = {"factory": lambda: nn.Linear(6, 3), "members": 2}
            return public("Ensemble").build, good
        case "data.split":
            return public(name), {"dataset": data, "fraction": 0.2, "seed": 0}
        case "data.Arrays":
            return public(name), dict(zip(("inputs", "targets"), rows(9), strict=True))
        case "data.Table":
            return public(name), {"path": "flats.csv", "target": "kind"}
        case "data.Normalize":
            return public(name), {"mean": (0.1, 0.2, 0.3), "std": (1.0, 2.0, 3.0)}
        case "data.corrupt":
            images = torch.zeros(2, 3, 16, 16, dtype=torch.uint8)
            return public(name), {"images": images, "name": "fog", "severity": 3}
        case "optim.SAM":
            parameters = [*nn.Linear(2, 2).parameters()]
            good = {"params": parameters, "base_optimizer": torch.optim.SGD}
            return public(name), {**good, "rho": 0.1, "lr": 0.1}
        case "EnsembleClassifier.fit":
            inputs, labels = rows(40)
            return fitted_classifier, {"X": inputs.numpy(), "y": labels.numpy()}
        case "load":
            return public(name), {"path": "run"}
        case "read_logits":
            return public(name), {"folder": "evaluated"}
    return public(name), {}


REFUSALS = (ValueError, TypeError, OSError)
# Whose refusals need not name the argument: the estimators' contract is another's.
SOURCES = tuple(
    str(Path(importlib.import_module(name).__file__).parent)
    for name in ("tepui", "sklearn")
)


@contextmanager
def patience(seconds):
    def ring(*_):
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def call_with(call, argument, value):
    """Make a bad call and return what is wrong with its end; nothing if all is well."""
    function, good = good_call(call)
    try:
        with patience(20):
            function(**{**good, argument: VALUES[value]()})
    except REFUSALS as error:
        last = traceback.extract_tb(error.__traceback__)[-1].filename
        if last.startswith(SOURCES) or argument in str(error):
            return ""
        return f"{type(error).__name__}: {error}"
    except Exception as error:
        return f"foreign {type(error).__name__}: {error}"
    return "accepted"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", BAD["calls"])
def test_bad_calls_are_refused(here, call):
    function, good = good_call(call)
    if call not in ("read_logits",):
        function(**good)
    found = {
        f"{call} {argument} {value}": call_with(call, argument, value)
        for name, argument, value in ROWS
        if name == call
    }
    wrong = {name: end for name, end in found.items() if end}
    known = {name for name in BAD["known"] if name in found}
    assert wrong.keys() == known, wrong


def test_there_are_two_hundred_bad_calls():
    assert len(ROWS) >= 200
    assert len(BAD["known"]) <= 20


def test_who_waits_for_another_host_does_not_take_its_work_over(here, capsys):
    """Two searches need the same ensemble; the second waits while the first trains."""
    words = shlex.split(
        "sweep --data 'Table(path=flats.csv, target=kind)' --method SAM"
        " --grid rho=0.03 --members 1 --epochs 200 --workers 1 --store store"
    )
    child = os.fork()
    if child == 0:
        code = 1
        try:
            torch.set_num_threads(1)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(socket, "gethostname", lambda: "elsewhere")
                hurried(30, patch)
                command()([*words, "--out", "first"])
                code = 0
        finally:
            os._exit(code)
    try:
        while not list(Path("store").rglob("checkpoint.json")):
            time.sleep(0.05)
        begun = time.monotonic()
        with pytest.MonkeyPatch.context() as patch:
            hurried(30, patch)
            outcome = run(capsys, *words, "--out", "second")
        waited = time.monotonic() - begun
    finally:
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert (ended, outcome.status) == (0, 0), outcome.err
    assert waited > 2.5  # half as long again as after which silence counts as death
    scores = [
        next(Path(n).rglob("results.json")).read_text() for n in ("first", "second")
    ]
    records = [json.loads(text)["records"] for text in scores]
    assert records[0] == records[1]
