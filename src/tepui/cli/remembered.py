"""What a run remembers of the command that made it: data, model and extractor.

They are kept by name, with their options, in the folder of the run or of its
comparison. Of what is read there only tepui's own classes are built, as of any other
configuration; a class or function of the user's own is never imported for a folder's
sake, and a message says what to write instead.
"""

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import isclass, isroutine, signature
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser
from torch.utils.data import Dataset

from tepui.cli.admission import admitting, check_classes, listed
from tepui.cli.architecture import Architecture
from tepui.core.checks import require
from tepui.core.provenance import masked
from tepui.core.storage import write_document
from tepui.studies.recorded_options import FILE, KIND, recorded_options
from tepui.training.run_folder import RunFolder

# Arguments that name places, which are found from anywhere once they are absolute.
PLACES = ("path", "root")
# What a class that a file names is called, and packages whose classes need arguments.
_TYPE = re.compile(r"parts of type (\S+),")
_NOT_THEIRS = ("torch", "tepui")
# Arguments that say which part of a data set is meant, which commands choose.
OF_PARTS = frozenset({"train"})
_PLAIN = (str, int, float, bool, type(None))


def remember(
    folder: Path,
    data: Callable[..., Any],
    model: Callable[..., Any] | None,
    extractor: str | None,
    validation: object = None,
) -> None:
    """Write down by which options a run is trained, or weights were evaluated."""
    share = validation if isinstance(validation, float | int) else None
    document = {
        "data": described(data, OF_PARTS),
        "model": None if model is None else described(*_parted(model)),
        "extractor": extractor,
        "validation": described(validation, OF_PARTS) if callable(validation) else None,
        "validation_share": share,
    }
    write_document(folder / FILE, KIND, masked(document))


def remembered_data(run: Path) -> Callable[[], Dataset[Any]] | None:
    """Return the data set that a run belongs to, None if it did not say.

    Raises:
        ValueError: If it is of the user's own, with the option to write.
    """
    recorded = recorded_options(run).get("data")
    if recorded is None:
        return None
    if recorded["class_path"] not in listed():
        raise ValueError(
            f"--data must be given, since {run} belongs to a data set of your own: "
            f"{_words('--data', recorded)}"
        )
    return _built(recorded)


def remembered_validation(run: Path) -> Callable[[], Dataset[Any]] | None:
    """Return the data set of its own that a run was validated on, if one was named.

    Raises:
        ValueError: If it is of the user's own.
    """
    recorded = recorded_options(run).get("validation")
    if recorded is None:
        return None
    known = recorded["class_path"] in listed()
    rule = f"be test, since {run} was validated on a data set of your own"
    require(known, "--held-out", rule, "validation")
    return _built(recorded)


def options_again(
    run: Path,
    data: Callable[..., Any] | None,
    model: Callable[..., Any] | None,
    models: Sequence[str] | None = None,
    extractor: str | None = None,
) -> str:
    """Return those of some options that the next command about a run needs as well.

    They are what a folder does not say, or names without building it; each begins with
    a blank.
    """
    words = []
    if data is not None:
        told = described(data, OF_PARTS)
        said = told == recorded_options(run).get("data")
        if told is None or not said or told["class_path"] not in listed():
            words.append(_typed("--data", data, OF_PARTS))
    if model is not None:
        made_by, free = _parted(model)
        told = described(made_by, free)
        if told is None or told["class_path"] not in listed():
            words.append(_typed("--model", made_by, free))
    if models is not None:
        words.append(shlex.join(["--models", *models]))
    if extractor is not None:
        words.append(shlex.join(["--extractor", extractor]))
    return "".join(f" {word}" for word in words)


def in_options(error: ValueError, run: Path) -> ValueError:
    """Return an error of loading a run in words of the command line.

    Another one is returned as it is.
    """
    asked, _, rest = str(error).partition(" must be given: ")
    option = {"factory": "--model", "extractor": "--extractor"}.get(asked)
    if option is None or not rest:
        return error
    recorded = recorded_options(run).get(option.removeprefix("--"))
    if recorded:
        named = f"as {_words(option, recorded)}"
    else:
        named = f"such as {option} {_likely_path(rest, run)}"
    return ValueError(f"{option} must be given, {named}: {rest}")


def _likely_path(said: str, run: Path) -> str:
    """Return the path by which a class that is said to be unknown may be imported."""
    found = _TYPE.search(said)
    module, _, name = ("" if found is None else found[1]).rpartition(".")
    if not name.isidentifier() or module.partition(".")[0] in ("", *_NOT_THEIRS):
        return "mypackage.make_net"
    if module != "__main__":
        return f"{module}.{name}"
    folder = RunFolder(run)
    written = folder.recorded()["environment"]["command"] if folder.started else ""
    script = Path(written.partition(" ")[0])
    known = script.suffix == ".py" and script.stem.isidentifier()
    return f"{script.stem if known else 'mypackage'}.{name}"


def described(
    made_by: Callable[..., Any], left_out: frozenset[str]
) -> dict[str, Any] | None:
    """Return what makes an object, by name and options; None if words cannot tell.

    Example:
        >>> from tepui.data import Digits
        >>> described(partial(Digits, train=True), frozenset({"train"}))
        {'class_path': 'tepui.data.sets.digits.Digits', 'init_args': {}}
    """
    kind, options = kind_of(made_by), _options(made_by)
    if not (isclass(kind) or isroutine(kind)) or "<" in kind.__qualname__:
        return None
    chosen = {name: _plain(name, options[name]) for name in options.keys() - left_out}
    if not all(map(_is_plain, chosen.values())):
        return None
    path = f"{kind.__module__}.{kind.__qualname__}"
    return {"class_path": path, "init_args": dict(sorted(chosen.items()))}


def _built(recorded: Mapping[str, Any]) -> Callable[[], Dataset[Any]]:
    """Build what is recorded as a parser builds what a configuration names."""
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--data", type=Callable[[], Dataset[Any]])
    items = listed()
    with admitting(items):
        chosen = parser.parse_object({"data": dict(recorded)})
        check_classes(chosen, items)
        built: Callable[[], Dataset[Any]] = parser.instantiate(chosen).data
    return built


def _words(option: str, recorded: Any) -> str:
    """Return how something is named on the command line.

    Example:
        >>> _words("--model", {"class_path": "mine.Net", "init_args": {"norm": None}})
        '--model mine.Net --model.norm null'
    """
    if isinstance(recorded, str):
        return shlex.join([option, recorded])
    words = [option, recorded["class_path"]]
    for name, value in recorded["init_args"].items():
        written = value if isinstance(value, str) else json.dumps(value)
        words += [f"{option}.{name}", written]
    return shlex.join(words)


def _typed(option: str, made_by: Callable[..., Any], left_out: frozenset[str]) -> str:
    """Return how something is named on the command line, but for what goes unsaid."""
    if (told := described(made_by, left_out)) is None:
        return f"{option} ..."
    usual, options = signature(kind_of(made_by)).parameters, _options(made_by)
    given = {
        name: value
        for name, value in told["init_args"].items()
        if name not in usual or usual[name].default != options[name]
    }
    path = told["class_path"]
    name = path.rpartition(".")[2] if path in listed() else path
    return _words(option, {"class_path": name, "init_args": given})


def kind_of(made_by: Callable[..., Any] | None) -> Any:
    """Return the class or function that makes an object; None if words cannot tell."""
    if not isinstance(made_by, partial):
        return made_by
    kinds = [item for item in (made_by.func, *made_by.args) if isclass(item)]
    return kinds[-1] if kinds else None


def _options(made_by: Callable[..., Any]) -> dict[str, Any]:
    return made_by.keywords if isinstance(made_by, partial) else {}


def _parted(model: Callable[..., Any]) -> tuple[Callable[..., Any], frozenset[str]]:
    """Return what makes a model, and the arguments of it that nobody wrote."""
    if isinstance(model, Architecture):
        return model.factory, model.free
    return model, frozenset()


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, Path) or (name in PLACES and isinstance(value, str)):
        return str(Path(value).absolute())
    return list(value) if isinstance(value, tuple) else value


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return isinstance(value, _PLAIN)
