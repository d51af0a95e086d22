"""Attempts to make a configuration name what it may not, one for every seed.

An attempt is a command with a file of options, in which some name stands where a class
may or may not be expected, alone or hidden, in one of many spellings. :func:`outcome`
reads the command as the program does, short of carrying it out, and watches what is
imported, opened for writing and started meanwhile.
"""

import importlib
import inspect
import json
import os
import pkgutil
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache, partial
from io import StringIO
from pathlib import Path
from unittest import mock

import jsonargparse

import tepui
from tepui.cli.admission import listed, named_by_user
from tepui.cli.architecture import Architecture
from tepui.cli.main import MISTAKES, read
from tepui.cli.parsing import normalized, spelled, with_data_option, with_files_first
from tepui.studies import Ray, Slurm

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
    "os.system",
    "posix.system",
    "os.execv",
    "os.popen",
    "subprocess.Popen",
    "subprocess.run",
    "subprocess.os.system",
    "builtins.eval",
    "builtins.exec",
    "builtins.compile",
    "builtins.open",
    "builtins.__import__",
    "builtins.print",
    "importlib.import_module",
    "runpy.run_path",
    "runpy.run_module",
    "code.interact",
    "pickle.loads",
    "pickle.load",
    "shelve.open",
    "shutil.rmtree",
    "pathlib.Path.touch",
    "ctypes.CDLL",
    "multiprocessing.Process",
    "threading.Thread",
    "urllib.request.urlopen",
    "webbrowser.open",
    "timeit.timeit",
    "functools.partial",
    "operator.attrgetter",
    "types.FunctionType",
    "typing.cast",
    "torch.load",
    "torch.save",
    "torch.hub.load",
    "torch.jit.load",
    "torch.compile",
    "torch.utils.cpp_extension.load",
    "torch.nn.Flatten",
    "torch.nn.Linear",
    "torch.Tensor",
    "torch.utils.data.TensorDataset",
    "torch.optim.SGD",
    "numpy.load",
    "numpy.save",
    "numpy.fromfile",
    "jsonargparse.set_parsing_settings",
    "jsonargparse.ArgumentParser",
    "yaml.unsafe_load",
    "safetensors.torch.save_file",
    "matplotlib.pyplot.savefig",
    "sklearn.datasets.fetch_openml",
]
OURS = [
    "tepui.core.storage.write_json",
    "tepui.cli.main.main",
    "tepui.cli.main.read",
    "tepui.cli.main.COMMANDS",
    "tepui.cli.admission.admitting",
    "tepui.cli.admission.BASES",
    "tepui.cli.importing.imported",
    "tepui.fit",
    "tepui.load",
    "tepui.data.Arrays",
    "tepui.data.HuggingFace",
    "tepui.methods.Method",
    "tepui.models.from_timm",
    "tepui.cli.wrapped.models.from_huggingface",
    "tepui.training.train",
    "tepui.losses",
]
INSIDE = [
    "mro",
    "__init__",
    "__class__",
    "__subclasses__",
    "__init__.__globals__",
    "__dict__",
    "__reduce__",
    "__module__",
    "__base__",
    "__new__",
    "forward",
    "build",
    "paper",
    "released",
    "like",
    "subset",
]
CANARIES = [
    f"{CANARY}.{name}" for name in ("Net", "make", "made", "Path", "nn.Flatten")
]
CANARIES += [f"{CANARY}.inner.{name}" for name in ("Net", "make", "made", "gone")]

# Keys of files, by command; those of a class, of several, of several by name.
ONE, SEVERAL, NAMED, WORDS = "one", "several", "named", "words"
SETTINGS = {"schedule": ONE, "augment": SEVERAL, "prune": ONE, "precision": WORDS}
TRAINS = {"data": ONE, "model": ONE, "optimizer": ONE, "unlabeled": ONE, **SETTINGS}
TESTS = {"data": ONE, "model": ONE, "ood": NAMED}
STUDIES = {"executor": WORDS, "out": WORDS, "ray": ONE, "slurm": ONE}
COMMANDS: dict[str, tuple[list[str], dict[str, str]]] = {
    "train": (["train"], {"method": ONE, "extractor": WORDS, "loss": ONE} | TRAINS),
    "compare": (
        ["compare"],
        {"methods": SEVERAL, "metrics": SEVERAL, "ood": NAMED, **TRAINS, **STUDIES},
    ),
    "evaluate": (
        ["evaluate", "nowhere"],
        {"metrics": SEVERAL, "shifted": WORDS, "rule": WORDS, **TESTS},
    ),
    "measure": (
        ["measure", "nowhere"],
        {"measures": SEVERAL, "what": WORDS, **TESTS},
    ),
    "corrupt": (["corrupt"], {"data": ONE, "types": SEVERAL, "layout": WORDS}),
    "report": (["report", "nowhere"], {"runs": SEVERAL, "out": WORDS}),
    "data": (["data"], {"action": WORDS, "name": WORDS, "root": WORDS}),
    "theory": (["theory", "check"], {"task": WORDS, "n": WORDS}),
    "reproduce": (["reproduce"], {"items": SEVERAL, "methods": SEVERAL, **STUDIES}),
    "claims": (["claims"], {"from": WORDS, "folder": WORDS, "json": WORDS}),
    "sweep": (["sweep"], {"recipe": WORDS, "grid": SEVERAL, **STUDIES}),
    "predict": (
        ["predict", "nowhere"],
        {"data": ONE, "model": ONE, "rule": WORDS, "out": WORDS},
    ),
    "export": (["export", "nowhere"], {"data": ONE, "model": ONE, "to": WORDS}),
    "calibrate": (
        ["calibrate", "nowhere"],
        {"data": ONE, "model": ONE, "method": WORDS, "score": WORDS},
    ),
    "verify": (["verify", "nowhere"], {"path": WORDS}),
    "doctor": (["doctor"], {"data": ONE}),
    "completion": (["completion"], {"shell": WORDS}),
}
# Where classes of the list take classes or functions themselves.
HOSTS = {
    "method": [("SharpBalance", "base"), ("SharpBalance", "score"), ("A2D", "base")],
    "methods": [("SharpBalance", "base"), ("SED", "base"), ("DivDis", "base")],
    "unlabeled": [("UniformNoise", "like"), ("GaussianNoise", "like")],
    "ood": [("UniformNoise", "like")],
    "model": [("timm", "name"), ("huggingface", "name"), ("ConvNet", "width")],
    "data": [("ImageFolder", "path"), ("ArrayFile", "path"), ("Table", "target")],
    "optimizer": [("SGD", "lr"), ("AdamW", "betas")],
    "schedule": [("Cosine", "final"), ("MultiStep", "milestones")],
    "augment": [("RandomCrop", "padding")],
}


@dataclass(frozen=True)
class Attempt:
    """A command, the files beside it, and what it tries to name."""

    words: tuple[str, ...]
    files: Mapping[str, str]
    name: str
    environment: Mapping[str, str] = field(default_factory=dict)


def attempt(seed: int) -> Attempt:
    """Return the attempt of one seed; seeds go through all ways of writing one."""
    draw = random.Random(f"naming {seed}")
    name = _respelled(draw, _name(draw))
    command = draw.choice([*COMMANDS, "train", "compare", "evaluate", "measure"])
    words, keys = COMMANDS[command]
    key = draw.choice([*keys])
    way = WAYS[seed % len(WAYS)]
    return way(draw, [*words], key, keys[key], name)


@dataclass
class Watch:
    """What happened while something was read."""

    imported: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)


def outcome(seed: int, folder: Path) -> str:
    """Make one attempt in a folder of its own; return what came of it.

    Returns:
        "refused", "accepted" (what was built is of listed classes and plain values),
        or what went wrong, beginning with "breach" or "foreign".
    """
    tried = attempt(seed)
    for file, text in tried.files.items():
        (folder / file).write_text(text)
    trace = folder / "trace"
    (folder / CANARY).mkdir(exist_ok=True)
    for part in ("__init__", "inner"):
        (folder / CANARY / f"{part}.py").write_text(SOURCE.format(trace=str(trace)))
    items: dict[str, object] = {}
    with _watching(folder, tried) as watch, ExitStack() as quiet:
        quiet.enter_context(redirect_stderr(StringIO()))
        quiet.enter_context(redirect_stdout(StringIO()))
        try:
            words = with_files_first(
                spelled(normalized(with_data_option([*tried.words])))
            )
            items = listed() | named_by_user(words)
            _, values = read(words)
        except SystemExit as stop:
            result = "refused" if stop.code == 2 else f"foreign: exit {stop.code}"
        except MISTAKES:
            result = "refused"
        except BaseException as error:  # what it is decides the outcome
            result = f"foreign: {type(error).__name__}: {error}"
        else:
            strange = [*_strange(values)]
            result = f"breach: built {strange}" if strange else "accepted"
    if unlisted := [path for path in watch.imported if path not in items]:
        return f"breach: imported {unlisted}"
    if trace.exists() or any(name.startswith(CANARY) for name in sys.modules):
        return "breach: the canary was imported"
    return f"breach: {watch.events}" if watch.events else result


def _name(draw: random.Random) -> str:
    kinds: list[Callable[[], str]] = [
        lambda: draw.choice(CANARIES),
        lambda: draw.choice(CANARIES),
        lambda: draw.choice(DANGEROUS),
        lambda: draw.choice(OURS),
        lambda: draw.choice(_of_tepui()),
        lambda: draw.choice([*listed()]),
        lambda: f"{draw.choice([*listed()])}.{draw.choice(INSIDE)}",
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


# The ways to write an attempt: (draw, words, key, how it takes values, name).


def _document(key: str, takes: str, value: object) -> dict[str, object]:
    by_kind = {SEVERAL: [value], NAMED: {"far": value}}
    return {key: by_kind.get(takes, value)}


def _file(words: list[str], name: str, text: str, **environment: str) -> Attempt:
    files = {"options.yaml": text}
    return Attempt((*words, "--config", "options.yaml"), files, name, environment)


def _dumped(draw: random.Random, document: object) -> str:
    """Write a document as JSON, which YAML contains, on one line or several."""
    return json.dumps(document, indent=draw.choice([None, 2]))


def _bare(draw, words, key, takes, name):
    return _file(words, name, _dumped(draw, _document(key, takes, name)))


def _arguments(draw: random.Random) -> dict[str, object]:
    return draw.choice(
        [
            {},
            {"args": ["touch", "trace"]},
            {"path": "trace", "document": {}},
            {"arguments": ["train", "--model", f"{CANARY}.Net"]},
            {"command": "touch trace"},
            {"source": "open('trace', 'w')"},
            {"f": "trace", "weights_only": False},
            {"class_path": f"{CANARY}.Net"},
            {"name": "x", "trust_remote_code": True},
        ]
    )


def _spec(draw: random.Random, name: str) -> dict[str, object]:
    spec: dict[str, object] = {"class_path": name}
    if draw.random() < 0.6:
        spec["init_args"] = _arguments(draw)
    if draw.random() < 0.3:
        spec["dict_kwargs"] = _arguments(draw)
    return spec


def _class_path(draw, words, key, takes, name):
    return _file(words, name, _dumped(draw, _document(key, takes, _spec(draw, name))))


def _inside_a_host(draw, words, key, takes, name):
    host, argument = draw.choice(HOSTS.get(key, [("MLP", "hidden")]))
    inner = draw.choice([name, _spec(draw, name), [name], {"far": name}])
    place = draw.choice(["init_args", "init_args", "dict_kwargs"])
    spec = {"class_path": host, place: {argument: inner}}
    return _file(words, name, _dumped(draw, _document(key, takes, spec)))


def _smuggled(draw, words, key, takes, name):
    """Keys that mean something to a parser, at places where they should not."""
    host, _ = draw.choice(HOSTS.get(key, [("MLP", "hidden")]))
    hidden = draw.choice(
        [
            {"class_path": host, "init_args": {"class_path": name, "init_args": {}}},
            {"class_path": host, "init_args": {"self": name, "__class__": name}},
            {"class_path": host, "init_args": {}, "__init__": name},
            {"class_path": host, "__path__": name, "__orig__": name},
            {"class_path": host, "dict_kwargs": {"self": name, "factory": name}},
            {"class_path": {"class_path": name}},
            {"class_path": [name]},
            {"init_args": {"class_path": name}},
            {"dict_kwargs": {"class_path": name}},
            {"": name},
            [_spec(draw, name), _spec(draw, name)],
            {"class_path": host, "init_args": name},
            {"class_path": host, "init_args": [name]},
            f"{name}()",
            [f"{name}(path='trace')"],
            f"{host}(hidden={name}())",
        ]
    )
    return _file(words, name, _dumped(draw, _document(key, takes, hidden)))


def _dotted_keys(draw, words, key, takes, name):
    dotted = draw.choice(
        [
            {f"{key}.class_path": name},
            {key: "MLP", f"{key}.class_path": name},
            {f"{key}.init_args.class_path": name},
            {f"{words[0]}.{key}": name},
            {words[0]: {key: name}},
            {f"--{key}": name},
            {f"{key}.help": name},
            {f"{key}+": [name]},
            {"subcommand": name, key: name},
            {"help": name},
            {"print_config": name, key: name},
            {"settings": {key: name}},
            {"__default_config__": name, key: name},
        ]
    )
    return _file(words, name, _dumped(draw, dotted))


def _tags(draw, words, key, takes, name):
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
    text = f"{key}: {tag.format(n=name)}\n"
    start = draw.choice(["", "%TAG ! tag:yaml.org,2002:python/object/apply:\n---\n"])
    return _file(words, name, start + text)


def _anchors(draw, words, key, takes, name):
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
    return _file(words, name, text.format(n=json.dumps(name), k=key))


def _further_files(draw, words, key, takes, name):
    further = _dumped(
        draw, draw.choice([{key: name}, _spec(draw, name), {"class_path": name}])
    )
    first = draw.choice(
        [
            {"config": "further.yaml"},
            {"config": ["further.yaml"]},
            {key: "further.yaml"},
            {key: {"config": "further.yaml"}},
            {key: {"class_path": "further.yaml"}},
            {key: "./further.yaml"},
        ]
    )
    files = {"options.yaml": _dumped(draw, first), "further.yaml": further}
    return Attempt((*words, "--config", "options.yaml"), files, name)


def _environment(draw, words, key, takes, name):
    value = draw.choice([name, json.dumps({"class_path": name}), "options.yaml"])
    variable = f"TEPUI_{words[0]}__{draw.choice([key, 'config'])}".upper()
    text = _dumped(draw, _document(key, takes, name))
    variables = {
        variable: value.replace("\x00", ""),
        "JSONARGPARSE_DEFAULT_ENV": "true",
    }
    return Attempt(tuple(words), {"options.yaml": text}, name, variables)


def _on_the_command_line(draw, words, key, takes, name):
    """Words that are no class, or that stand where no class is expected."""
    cleaned = name.replace("\x00", "")
    option = draw.choice(
        [
            ("--method.init_args.score", cleaned),
            ("--model.name", cleaned),
            ("--data.path", cleaned),
            ("--device", cleaned),
            ("--method.score", cleaned),
            ("--config", json.dumps({key: cleaned})),
        ]
    )
    return Attempt((*words, *option), {}, cleaned)


WAYS = (
    _bare,
    _class_path,
    _inside_a_host,
    _smuggled,
    _dotted_keys,
    _tags,
    _anchors,
    _further_files,
    _environment,
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
def _watching(folder: Path, tried: Attempt) -> Iterator[Watch]:
    """Record imports by value, processes, and files opened for writing."""
    _install_hook()
    watch = Watch()

    def listener(event: str, arguments: tuple[object, ...]) -> None:
        if event.startswith((*_STARTS, *_CHANGES, "socket.connect")):
            watch.events.append(f"{event} {arguments}")
        if event == "open" and set(str(arguments[1])) & set("wax+"):
            watch.events.append(f"open {arguments[0]}")

    def recorded(name: str, check_path: bool = True) -> object:
        item = real(name, check_path)
        if check_path:
            watch.imported.append(name)
        return item

    real = jsonargparse._util.import_object
    users = [jsonargparse._typehints, jsonargparse._actions, jsonargparse._util]
    with ExitStack() as stack:
        for user in users:
            stack.enter_context(mock.patch.object(user, "import_object", recorded))
        stack.enter_context(mock.patch.dict("os.environ", tried.environment))
        stack.enter_context(mock.patch.object(sys, "path", [str(folder), *sys.path]))
        stack.enter_context(_inside(folder))
        _LISTENERS.append(listener)
        try:
            yield watch
        finally:
            _LISTENERS.remove(listener)


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
    plain = (str, int, float, bool, type(None), Path, Ray, Slurm)
    if isinstance(value, Architecture):
        yield from _strange(value.factory)
    elif isinstance(value, partial):
        kinds = [part for part in value.args if inspect.isclass(part)]
        made = all(kind in listed().values() for kind in kinds) and len(kinds) == 1
        if not made:
            yield repr(value)
        yield from _strange(value.keywords)
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _strange(part)
    elif isinstance(value, list | tuple | set | frozenset):
        for part in value:
            yield from _strange(part)
    elif not isinstance(value, (*plain, *listed().values())):
        yield repr(value)
