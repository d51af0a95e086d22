"""Attempts to make a configuration name what it may not, one for every seed.

An attempt is a command with a file of options, in which some name stands where a class
may or may not be expected, bare or hidden, in one of many spellings. :func:`outcome`
reads the command and its values as the program does, short of carrying it out, and
watches what is imported, opened for writing and started meanwhile.
"""

import importlib
import inspect
import json
import os
import pkgutil
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache, partial
from io import StringIO
from pathlib import Path

from cyclopts import CycloptsError

import tepui
from tepui.cli.main import build
from tepui.cli.settings import read_settings
from tepui.cli.values import Text
from tepui.core import spec
from tepui.core.names import PLACES

CANARY = "canary_of_tepui"
SOURCE = """
from pathlib import Path
from torch import nn

Path({trace!r}).touch()

class Net(nn.Module):
    def __init__(self, **options):
        Path({trace!r}).touch()

def make(**options) -> nn.Module:
    Path({trace!r}).touch()

made = make
"""
# What would run code, write files or change the rules.
DANGEROUS = [
    *("os.system", "posix.system", "os.execv", "os.popen", "subprocess.Popen"),
    *("subprocess.run", "subprocess.os.system", "builtins.eval", "builtins.exec"),
    *("builtins.compile", "builtins.open", "builtins.__import__", "builtins.print"),
    *("importlib.import_module", "runpy.run_path", "runpy.run_module", "code.interact"),
    *("pickle.loads", "pickle.load", "shelve.open", "shutil.rmtree"),
    *("pathlib.Path.touch", "ctypes.CDLL", "multiprocessing.Process"),
    *("threading.Thread", "urllib.request.urlopen", "webbrowser.open", "timeit.timeit"),
    *("functools.partial", "operator.attrgetter", "types.FunctionType", "typing.cast"),
    *("torch.load", "torch.save", "torch.hub.load", "torch.jit.load", "torch.compile"),
    *("torch.utils.cpp_extension.load", "torch.nn.Flatten", "torch.nn.Linear"),
    *("torch.Tensor", "torch.utils.data.TensorDataset", "torch.optim.SGD"),
    *("numpy.load", "numpy.save", "numpy.fromfile", "cyclopts.run", "yaml.unsafe_load"),
    *("safetensors.torch.save_file", "matplotlib.pyplot.savefig"),
    *("sklearn.datasets.fetch_openml",),
]
OURS = [
    *("tepui.core.storage.write_json", "tepui.cli.main.main", "tepui.cli.main.build"),
    *("tepui.cli.config.from_files", "tepui.core.spec.imported"),
    *("tepui.core.names.PLACES", "tepui.fit", "tepui.load", "tepui.data.Arrays"),
    *("tepui.methods.Method", "tepui.models.from_timm", "tepui.training.train"),
    *("tepui.losses",),
]
INSIDE = [
    *("mro", "__init__", "__class__", "__subclasses__", "__init__.__globals__"),
    *("__dict__", "__reduce__", "__module__", "__base__", "__new__", "forward"),
    *("build", "paper", "released", "like", "subset"),
]
CANARIES = [
    f"{CANARY}.{name}" for name in ("Net", "make", "made", "Path", "nn.Flatten")
]
CANARIES += [f"{CANARY}.inner.{name}" for name in ("Net", "make", "made", "gone")]

# Options of files, by what they take.
OPTIONS = {
    "train": {
        **dict.fromkeys(("data", "model", "method", "loss", "optimizer"), "one"),
        **dict.fromkeys(("validation", "extractor", "epochs", "out"), "one"),
        "augment": "several",
        "set": "settings",
    },
    "compare": {
        **dict.fromkeys(("data", "model", "loss", "validation", "members"), "one"),
        **dict.fromkeys(("methods", "seeds"), "several"),
        **dict.fromkeys(("shifted", "ood"), "named"),
        "set": "settings",
    },
}
SETTINGS = (
    *("schedule", "unlabeled", "prune", "early_stopping", "precision", "device"),
    *("metrics", "executor", "extractor", "track", "branch_from", "optimizer"),
)
# Calls of tepui's with an argument that holds something else.
HOSTS = (
    *("SharpBalance(base={})", "SharpBalance(score={})", "SED(base={})"),
    *("SAM(rho={})", "A2D(weight={})", "MLP(hidden={})", "ConvNet(width={})"),
    *("UniformNoise(shape={})", "ImageFolder(path={})", "Table(path=x, target={})"),
    *("SGD(lr={})", "Cosine(final={})", "RandomCrop({})", "CrossEntropy({})"),
    *("[SAM, {}]", "{{'x': {}}}", "({},)", "from_timm({})"),
)
KNOWN = [
    f"{place}.{name}" for names in PLACES.values() for name, place in names.items()
]


@dataclass(frozen=True)
class Attempt:
    """A command, the file of its options, and what it tries to name."""

    words: tuple[str, ...]
    text: str
    name: str


def attempt(seed: int) -> Attempt:
    """Return the attempt of one seed; seeds go through all ways of writing one."""
    draw = random.Random(f"naming {seed}")
    name = _respelled(draw, _name(draw))
    command = draw.choice([*OPTIONS])
    option = draw.choice([*OPTIONS[command]])
    way = WAYS[seed % len(WAYS)]
    return way(draw, command, option, name)


@dataclass
class Watch:
    """What happened while something was read."""

    events: list[str] = field(default_factory=list)


def outcome(seed: int, folder: Path) -> str:
    """Make one attempt in a folder of its own; return what came of it.

    Returns:
        "refused", "accepted" (what was built is of listed classes and plain values),
        or what went wrong, beginning with "breach" or "foreign".
    """
    tried = attempt(seed)
    (folder / "options.yaml").write_text(tried.text)
    trace = folder / "trace"
    (folder / CANARY).mkdir(exist_ok=True)
    for part in ("__init__", "inner"):
        (folder / CANARY / f"{part}.py").write_text(SOURCE.format(trace=str(trace)))
    with _watching(folder) as watch, ExitStack() as quiet:
        quiet.enter_context(redirect_stderr(StringIO()))
        quiet.enter_context(redirect_stdout(StringIO()))
        try:
            values = read_all(tried.words)
        except (ValueError, OSError, CycloptsError):
            result = "refused"
        except BaseException as error:  # what it is decides the outcome
            result = f"foreign: {type(error).__name__}: {error}"
        else:
            strange = [*_strange(values)]
            result = f"breach: built {strange}" if strange else "accepted"
    if trace.exists() or any(name.startswith(CANARY) for name in sys.modules):
        return "breach: the canary was imported"
    return f"breach: {watch.events}" if watch.events else result


def read_all(words: tuple[str, ...]) -> list[object]:
    """Return every value of a command, read as the command reads it."""
    _, bound, _ = build().parse_args(words, exit_on_error=False, print_error=False)
    values: list[object] = []
    for name, value in bound.arguments.items():
        if name == "set":
            values.append(read_settings(words[0], value))
        elif isinstance(value, dict):
            values += [text.read() for text in value.values()]
        else:
            several = value if isinstance(value, list) else [value]
            values += [_read(each) for each in several]
    return values


def _read(value: object) -> object:
    if not isinstance(value, Text):
        return value
    if value.kind == "extractor":
        return spec.read(value, "model", own=value.typed)
    return value.read()


def _name(draw: random.Random) -> str:
    kinds: list[Callable[[], str]] = [
        lambda: draw.choice(CANARIES),
        lambda: draw.choice(CANARIES),
        lambda: draw.choice(DANGEROUS),
        lambda: draw.choice(OURS),
        lambda: draw.choice(_of_tepui()),
        lambda: draw.choice(KNOWN),
        lambda: f"{draw.choice(KNOWN)}.{draw.choice(INSIDE)}",
    ]
    return draw.choice(kinds)()


@cache
def _of_tepui() -> list[str]:
    """Return every class and function of tepui by its path, listed or not."""
    paths = []
    for part in pkgutil.walk_packages(tepui.__path__, "tepui."):
        if part.name == "tepui.__main__":
            continue
        module = importlib.import_module(part.name)
        paths += [
            f"{part.name}.{name}"
            for name, item in vars(module).items()
            if inspect.isroutine(item) or inspect.isclass(item)
        ]
    return sorted(paths)


def _respelled(draw: random.Random, name: str) -> str:
    """Return a name as it is, or in one of the spellings that might slip through."""
    module, _, last = name.rpartition(".")
    spellings = [
        *[name] * 8,
        f".{name}",
        f"..{name}",
        f"{name}.",
        name.replace(".", "..", 1),
        f" {name}",
        f"{name} ",
        f"{module}:{last}",
        name.replace(".", "/"),
        f"./{name.replace('.', '/')}.py",
        f"{module}.py:{last}",
        name.upper(),
        name.title(),
        last,
        "".join(chr(ord(c) + 0xFEE0) if c.islower() else c for c in name),
        name.replace("o", "о"),  # noqa: RUF001 - a Cyrillic letter
        name.replace(".", "．"),  # noqa: RUF001 - a full-width dot
        name.replace(".", ".\u200b"),
        f"{name}\x00",
        f"{name}\n",
        f"{name}()",
        f"{name}.__call__",
        f"__import__('{module}').{last}",
        f"lambda: {name}",
        f"builtins.{name}",
        f"tepui.{name}",
        f"tepui.models.{name}",
        f"tepui.methods.SAM.{name}",
        f"file://{name}",
        f"{name}[int]",
        f"type[{name}]",
        f"${{{name}}}",
    ]
    return draw.choice(spellings)


# The ways to write an attempt: (draw, command, option, name).


def _file(command: str, text: str, name: str) -> Attempt:
    return Attempt((command, "--config", "options.yaml"), text, name)


def _document(draw, command: str, option: str, value: object) -> dict[str, object]:
    """Return options that hold a value where this one takes it."""
    takes = OPTIONS[command][option]
    held = {"several": [value], "named": {"far": value}}.get(takes, value)
    if takes == "settings":
        held = {draw.choice(SETTINGS): value}
    return {option: held}


def _dumped(draw: random.Random, document: object) -> str:
    """Write a document as JSON, which YAML contains, on one line or several."""
    return json.dumps(document, indent=draw.choice([None, 2]))


def _bare(draw, command, option, name):
    return _file(command, _dumped(draw, _document(draw, command, option, name)), name)


def _called(draw, command, option, name):
    arguments = draw.choice(
        ["", "'touch trace'", "command='touch trace'", "path='trace', document={}"]
    )
    return _bare(draw, command, option, f"{name}({arguments})")


def _inside_a_host(draw, command, option, name):
    inner = draw.choice([name, f"{name}()", f"{name}('touch trace')", f"[{name}]"])
    return _bare(draw, command, option, draw.choice(HOSTS).format(inner))


def _mapping(draw, command, option, name):
    """Mappings that mean something to some readers, and nothing to this one."""
    value = draw.choice(
        [
            {"class": name},
            {"class_path": name, "init_args": {"args": ["touch", "trace"]}},
            {"_target_": name},
            {"()": name},
            {"py/object": name},
            {"class": "SAM", "rho": {"class": name}},
            {name: name},
            [name, [name]],
        ]
    )
    return _file(command, _dumped(draw, _document(draw, command, option, value)), name)


def _kept(draw, command, option, name):
    """The file that a run keeps, changed by somebody."""
    document = _document(draw, command, option, name)
    kept = {"kind": "options", "command": command, "options": document}
    return _file(command, _dumped(draw, kept), name)


def _odd_keys(draw, command, option, name):
    odd = draw.choice(
        [
            {f"{option}.class_path": name},
            {f"--{option}": name},
            {"config": name},
            {"help": name},
            {"__class__": name},
            {command: {option: name}},
        ]
    )
    return _file(command, _dumped(draw, odd), name)


def _tags(draw, command, option, name):
    tag = draw.choice(
        [
            "!!python/name:{n}",
            "!!python/name:{n} ''",
            "!!python/module:{n}",
            "!!python/object:{n} {{}}",
            "!!python/object/apply:{n} ['touch trace']",
            "!!python/object/new:{n} ['touch trace']",
            "!{n} {{}}",
            "!!{n}",
            "!<tag:yaml.org,2002:python/object/apply:{n}> [trace]",
        ]
    )
    text = f"{option}: {tag.format(n=name)}\n"
    start = draw.choice(["", "%TAG ! tag:yaml.org,2002:python/object/apply:\n---\n"])
    return _file(command, start + text, name)


def _anchors(draw, command, option, name):
    text = draw.choice(
        [
            "hidden: &a {{class_path: {n}}}\n{k}: *a\n",
            "hidden: &a {{class_path: {n}}}\n{k}: {{<<: *a}}\n",
            "hidden: &a {{class_path: {n}}}\n{k}: {{<<: [*a], init_args: {{}}}}\n",
            "epochs: &a {n}\n{k}: *a\n",
            "{k}: &a {{class_path: MLP, <<: {{class_path: {n}}}}}\n",
            "<<: {{{k}: {n}}}\n",
            "? {k}\n: {n}\n",
            "{k}: MLP\n{k}: {n}\n",
            "{k}: &a [*a, {n}]\n",
            "--- {{}}\n--- {{{k}: {n}}}\n",
        ]
    )
    return _file(command, text.format(n=json.dumps(name), k=option), name)


def _on_the_command_line(draw, command, option, name):
    """Words that are no class, or that stand where no class is expected."""
    cleaned = name.replace("\x00", "")
    words = draw.choice(
        [
            ("--method", f"SharpBalance(score={cleaned!r})"),
            ("--data", f"ImageFolder(path={cleaned!r})"),
            ("--set", f"device={cleaned}"),
            ("--config", json.dumps({option: cleaned})),
            ("--config", cleaned),
        ]
    )
    return Attempt(("train", *words), "", cleaned)


WAYS = (
    *(_bare, _called, _inside_a_host, _mapping, _kept, _odd_keys, _tags, _anchors),
    _on_the_command_line,
)


# Watching.

_LISTENERS: list[Callable[[str, tuple[object, ...]], None]] = []
_STARTS = ("os.system", "os.exec", "os.fork", "os.posix_spawn", "subprocess.Popen")
_CHANGES = ("os.remove", "os.rename", "os.mkdir", "shutil.rmtree", "pickle.find_class")


@cache
def _install_hook() -> None:
    """Install the audit hook, which Python cannot take back, once."""

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        for listener in _LISTENERS:
            listener(event, arguments)

    sys.addaudithook(hook)


@contextmanager
def _watching(folder: Path) -> Iterator[Watch]:
    """Record processes, and files opened for writing."""
    _install_hook()
    watch = Watch()

    def listener(event: str, arguments: tuple[object, ...]) -> None:
        if event.startswith((*_STARTS, *_CHANGES, "socket.connect")):
            watch.events.append(f"{event} {arguments}")
        if event == "open" and set(str(arguments[1])) & set("wax+"):
            watch.events.append(f"open {arguments[0]}")

    before = [*sys.path]
    sys.path.insert(0, str(folder))
    try:
        with _inside(folder):
            _LISTENERS.append(listener)
            try:
                yield watch
            finally:
                _LISTENERS.remove(listener)
    finally:
        sys.path[:] = before


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Work in a folder for a while."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _strange(value: object) -> Iterator[str]:
    """Yield what a configuration should not have built."""
    if isinstance(value, partial):
        yield from _strange(value.func)
        yield from _strange(value.keywords)
    elif isinstance(value, dict):
        for part in value.values():
            yield from _strange(part)
    elif isinstance(value, list | tuple | set | frozenset):
        for part in value:
            yield from _strange(part)
    elif not isinstance(value, str | int | float | bool | Path | None):
        kind = (
            value if inspect.isclass(value) or inspect.isroutine(value) else type(value)
        )
        if kind.__name__ not in {name for names in PLACES.values() for name in names}:
            yield repr(value)
