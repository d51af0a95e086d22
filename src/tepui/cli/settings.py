"""``tepui settings``: what ``--set`` can say, and what classes take."""

import inspect
from typing import TYPE_CHECKING, Any, Literal

from tepui.cli.console import console, table

if TYPE_CHECKING:
    from rich.table import Table

Command = Literal[
    "train", "compare", "sweep", "evaluate", "predict", "calibrate", "measure"
]


def settings(name: str | None = None, /, *, of: Command = "train") -> None:
    """List what a command can be told by --set, and what a class takes.

    Such as:

        tepui settings --of compare
        tepui settings SAM
        tepui settings augmentations

    Args:
        name: One setting; one class, such as SAM, Table or ResNet18; or all of a kind:
            methods, models, data, losses, optimizers, schedules, augmentations.
        of: The command.
    """
    from tepui.cli.further import KINDS, settings_of
    from tepui.core.checks import nearest
    from tepui.core.names import PLACES, known
    from tepui.core.spec import written

    if kinds := [kind for kind in PLACES if name in PLACES[kind]]:
        console().print(arguments_table(known(kinds[0], str(name))))
        return
    told = settings_of(of)
    chosen = told if name is None else {name: told[name]} if name in told else {}
    rows = [(each, written(s.default), s.about) for each, s in chosen.items()]
    shown = [table(f"tepui {of} --set", ("name", "default", "what"), rows)]
    shown = shown if rows else []
    plural = {word: kind for kind in PLACES for word in (f"{kind}s", f"{kind}es", kind)}
    if kind := KINDS.get(name or "", plural.get(name or "")):
        classes = [known(kind, each) for each in PLACES.get(kind, ())]
        forms = [(form_of(each), first_line(each)) for each in classes]
        shown += [table(f"what is a {kind}", ("written", "what"), forms)]
    if not shown:
        every = [*told, *plural, *(each for kind in PLACES for each in PLACES[kind])]
        rule = "be a setting, a class such as SAM, or a kind such as methods"
        raise ValueError(f"name must {rule}, got {name!r}{nearest(name or '', every)}")
    console().print(*shown)


def form_of(item: Any) -> str:
    """Return how a value of a class is written, with every argument.

    Example:
        >>> from tepui.data import ImageFolder, RandomCrop
        >>> form_of(RandomCrop)
        'RandomCrop(padding=4, fill=0.0)'
        >>> form_of(ImageFolder)[:28]
        'ImageFolder(path=..., size=N'
    """
    from tepui.core.spec import ADDED, SEVERAL, written

    words = [
        f"{name}={'...' if each.default is each.empty else written(each.default)}"
        for name, each in inspect.signature(item).parameters.items()
        if name not in ADDED and each.kind not in SEVERAL
    ]
    return f"{item.__name__}({', '.join(words)})"


def arguments_table(item: Any) -> "Table":
    """Return the arguments of a class, with what its docstring says of each."""
    from tepui.cli.further import described
    from tepui.core.spec import ADDED, written

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
