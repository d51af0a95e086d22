"""``tepui settings``: what ``--set`` can say, and what classes take."""

import inspect
from collections.abc import Sequence
from dataclasses import MISSING, Field, dataclass, fields
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from tepui.cli.console import console, table
from tepui.cli.values import Text
from tepui.core.checks import not_among, one_of, require
from tepui.core.grammar import Word, parsed
from tepui.core.names import PLACES, known
from tepui.core.spec import ADDED, SEVERAL, written

if TYPE_CHECKING:
    from rich.table import Table

Command = Literal[
    "train",
    "compare",
    "sweep",
    "distil",
    "evaluate",
    "predict",
    "calibrate",
    "measure",
]


def settings(name: str | None = None, /, *, of: Command = "train") -> None:
    """List what a command can be told by --set, and what a class takes.

    Such as:

        tepui settings --of compare
        tepui settings SAM
        tepui settings augmentations

    Args:
        name: A class, such as SAM, Table or ResNet18; or all of a kind: methods,
            models, data, losses, optimizers, schedules, augmentations.
        of: The command.
    """
    told = settings_of(of)
    plural = {word: kind for kind in PLACES for word in (f"{kind}s", f"{kind}es", kind)}
    if kinds := [kind for kind in PLACES if name in PLACES[kind]]:
        shown = arguments_table(known(kinds[0], str(name)))
    elif kind := KINDS.get(name or "", plural.get(name or "")):
        classes = [known(kind, each) for each in PLACES.get(kind, ())]
        forms = [(form_of(each), first_line(each)) for each in classes]
        shown = table(f"what is a {kind}", ("written", "what"), forms)
    else:
        one_of("name", name or "", ["", *plural, *chain(*PLACES.values())])
        rows = [(each, written(s.default), s.about) for each, s in told.items()]
        shown = table(f"tepui {of} --set", ("name", "default", "what"), rows)
    console().print(shown)


def form_of(item: Any) -> str:
    """Return how a value of a class is written, with every argument.

    Example:
        >>> from tepui.data import ImageFolder, RandomCrop
        >>> form_of(RandomCrop)
        'RandomCrop(padding=4, fill=0.0)'
        >>> form_of(ImageFolder)[:28]
        'ImageFolder(path=..., size=N'
    """
    words = [
        f"{name}={'...' if each.default is each.empty else written(each.default)}"
        for name, each in inspect.signature(item).parameters.items()
        if name not in ADDED and each.kind not in SEVERAL
    ]
    return f"{item.__name__}({', '.join(words)})"


def arguments_table(item: Any) -> "Table":
    """Return the arguments of a class, with what its docstring says of each."""
    about = described(item)
    rows = [
        (
            str(each).partition(":")[0] if each.default is each.empty else name,
            "" if each.default is each.empty else written(each.default),
            about.get(name, ""),
        )
        for name, each in inspect.signature(item).parameters.items()
        if name not in ADDED
    ]
    title = f"{form_of(item)}\n{first_line(item)}"
    return table(title, ("argument", "default", "what"), rows)


def first_line(item: Any) -> str:
    """Return what a class is, in its own words."""
    return str(item.__doc__).splitlines()[0].rstrip(".")


Rule = Literal["probability", "logit", "vote"]
LogitType = Literal["float32", "float16", "none"]
Precision = Literal["float32", "tf32", "bfloat16"]
# Settings that are said anew each time a run goes on.
ANEW = ("stop_after", "progress", "dry_run", "executor", "at_once", "retries")
# What must be written where a setting is no plain value.
KINDS = {
    "augment": "augmentation",
    "early_stopping": "stopping",
    "executor": "executor",
    "loss": "loss",
    "method": "method",
    "metrics": "function",
    "optimizer": "optimizer",
    "prune": "pruning",
    "schedule": "schedule",
    "task": "task",
    "unlabeled": "data",
}


class Setting(NamedTuple):
    """What can be set: where it is declared, with its default and what it is."""

    owner: type
    default: Any
    about: str


@dataclass(frozen=True, kw_only=True)
class OfRuns:
    """Of all commands that train a run or open one.

    Attributes:
        task: What outputs mean: a task of your own by its path, counts.py:Counts, whose
            loss members minimize.
    """

    task: Any = None


@dataclass(frozen=True, kw_only=True)
class OfTrain:
    """Of ``tepui train``.

    Attributes:
        unlabeled: Data for members to disagree on (A2D, DivDis), whose labels are not
            read, such as UnlabeledFolder(path=photos).
        track: Show the run in "tensorboard" (event files in the run folder), "mlflow"
            or "wandb", or a list of them, each as its own variables set it.
        branch_from: Go on from the last checkpoint of this run, left by stop_after,
            whose method trains as this one does at first, pruned as this or not at all.
    """

    unlabeled: Any = None
    track: Any = None
    branch_from: Path | None = None


@dataclass(frozen=True, kw_only=True)
class OfStudies:
    """Of commands that train several ensembles.

    Attributes:
        logits_in: How logits are stored: float32, float16 for half the space, or none.
            Scores do not depend on it; without logits the report shows no images.
        executor: Who trains: Processes() of this machine, Ray() or Slurm(), whose
            folder must lie where all machines reach it.
        retries: How often an ensemble is taken up again after its worker died.
        track: As that of tepui train, for every run.
    """

    logits_in: LogitType = "float32"
    executor: Any = None
    retries: int = 2
    track: Any = None


@dataclass(frozen=True, kw_only=True)
class OfCompare(OfStudies):
    """Of ``tepui compare``.

    Attributes:
        equal: What all methods pay: gradients (by default) gives each as many epochs as
            cost at most what the costliest one costs, seconds measures that first, none
            trains all for --epochs.
        dry_run: Only show the epochs and passes of each method.
        corruptions: The benchmark whose corruption strengths to test under, or none;
            CIFAR's by default for images.
        metrics: Metrics of your own, functions of logits and labels, by path.
        sharpness: Number of training samples on which to measure the members'
            sharpness; 0 skips it.
        extractor: As that of tepui train.
        unlabeled: Data for the members of A2D and DivDis to disagree on.
        at_once: Ensembles to train at once; one by default, by Ray and Slurm as many
            as they have room for.
        threads: Threads of each ensemble on a CPU, on which the last digits depend; by
            default one if several are trained at once, else as many as there are.
    """

    equal: Literal["gradients", "seconds", "none"] = "gradients"
    dry_run: bool = False
    corruptions: Literal["none", "cifar", "tiny_imagenet", "imagenet"] | None = None
    metrics: Any = None
    sharpness: int = 100
    extractor: str | None = None
    unlabeled: Any = None
    at_once: int | None = None
    threads: int | None = None


@dataclass(frozen=True, kw_only=True)
class OfMeasure:
    """Of ``tepui measure``.

    Attributes:
        rule: How members are combined.
        device: Where to compute; a GPU if there is one.
    """

    rule: Rule = "probability"
    device: str | None = None


@dataclass(frozen=True, kw_only=True)
class OfPasses(OfMeasure):
    """Of commands that pass data through members.

    Attributes:
        batch_size: Samples that go through a member at once.
        workers: Processes that load a data set of your own.
    """

    batch_size: int = 1024
    workers: int = 0


@dataclass(frozen=True, kw_only=True)
class OfCalibrate(OfPasses):
    """Of ``tepui calibrate``.

    Attributes:
        rule: How members are combined; it is the one to predict with.
    """

    rule: Literal["probability", "logit"] = "probability"


@dataclass(frozen=True, kw_only=True)
class OfEvaluate(OfPasses):
    """Of ``tepui evaluate``.

    Attributes:
        classes: Of data with other classes, score only those the run holds, or all.
        logits_in: How logits are stored: float32, float16 for half the space, or none.
        precision: What members compute in on a GPU; tf32 by default, or float32 if the
            run was trained in it.
    """

    classes: Literal["held", "all"] = "held"
    logits_in: LogitType = "float32"
    precision: Precision | None = None


@dataclass(frozen=True, kw_only=True)
class OfPredict(OfPasses):
    """Of ``tepui predict``.

    Attributes:
        precision: What members compute in on a GPU; tf32 by default, or float32 if the
            run was trained in it.
    """

    precision: Precision | None = None


@dataclass(frozen=True, kw_only=True)
class OfSweep(OfStudies):
    """Of ``tepui sweep``.

    Attributes:
        held_out: Share of the training data to score on.
    """

    held_out: float = 0.1


# Fields of TrainingSpec and ExecutionSpec that commands say in their own way.
SAID = {
    "train": ("method", "epochs", "loss"),
    "compare": ("method", "epochs", "loss", "keep", "stop_after"),
    "distil": ("epochs", "loss", "data_parallel"),
    "sweep": (
        *("method", "epochs", "loss", "keep"),
        *("workers", "stop_after", "data_parallel"),
    ),
}
OWN = {"train": OfTrain, "compare": OfCompare, "evaluate": OfEvaluate}
OWN |= {"predict": OfPredict, "calibrate": OfCalibrate, "measure": OfMeasure}
OWN["sweep"] = OfSweep


def settings_of(command: str) -> dict[str, Setting]:
    """Return what can be set of a command, by name."""
    owners: list[type] = [OWN[command]] if command in OWN else []
    owners += [OfRuns] if command not in ("compare", "sweep", "distil") else []
    if command in SAID:
        from tepui.training import ExecutionSpec, TrainingSpec

        owners += [TrainingSpec, ExecutionSpec]
    return {
        each.name: Setting(owner, _default(each), about.get(each.name, ""))
        for owner in owners
        for about in [described(owner)]
        for each in fields(owner)
        if each.name not in SAID.get(command, ())
    }


def _default(declared: "Field[Any]") -> Any:
    made = declared.default_factory
    return declared.default if made is MISSING else made()


def described(owner: Any) -> dict[str, str]:
    """Return what a class, or one it derives from, says of its attributes."""
    from docstring_parser import parse

    found: dict[str, str] = {}
    for each in reversed(getattr(owner, "__mro__", [owner])):
        said = parse((each.__doc__ or "").replace("``", "")).params
        found |= {p.arg_name: " ".join((p.description or "").split()) for p in said}
    return found


def read_settings(command: str, words: Sequence[Text] | None) -> dict[str, Any]:
    """Return what was set of a command, by name; what comes later counts.

    Raises:
        ValueError: If a name is not known, or a value is of another type.

    Example:
        >>> given = [Text("batch_size=32", "set"), Text("schedule=Constant", "set")]
        >>> read_settings("train", given)
        {'batch_size': 32, 'schedule': Constant(warmup=0.0)}
    """
    from tepui.core.types import check_types

    known, given = settings_of(command), {}
    for name, text in last_of_each(words).items():
        if name not in known:
            said = not_among("set", [name], known)
            raise ValueError(f"{said}; tepui settings explains them")
        require(bool(text), name, "be given a value: --set NAME=VALUE", name)
        plain = text == "None" or name not in KINDS
        value = (
            plain_value(name, text)
            if plain
            else Text(text, KINDS[name], text.typed).read()
        )
        if name == "extractor":
            value = text
        if Path in get_args(_hint(known[name].owner, name)):
            value = Path(value)
        check_types(known[name].owner, {name: value})
        given[name] = value
    if command != "train":
        given.pop("task", None)  # files that name it find it from now on
    return given


def last_of_each(words: Sequence[Text] | None) -> dict[str, Text]:
    """Return the values of settings by name, of which what comes later counts."""
    pairs = ((word.partition("=")[::2], word.typed) for word in words or ())
    return {name: Text(text, "extractor", typed) for (name, text), typed in pairs}


def _hint(owner: type, name: str) -> Any:
    (found,) = (each.type for each in fields(owner) if each.name == name)
    return found


def plain_value(name: str, text: str) -> Any:
    """Return a plain value; text needs no quotes, and words of JSON are Python's."""
    value = parsed(text, name, own=True)
    spelled = {"true": True, "false": False, "null": None}
    if isinstance(value, Word):
        return spelled.get(value, str(value))
    return value
