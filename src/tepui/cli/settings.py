"""``tepui settings``: what training and evaluation can be told by ``--set``."""

from typing import Literal

from tepui.cli.console import console, table

Command = Literal[
    "train", "compare", "sweep", "evaluate", "predict", "calibrate", "measure"
]


def settings(name: str | None = None, /, *, of: Command = "train") -> None:
    """List what a command can be told by --set NAME=VALUE.

    Such as:

        tepui settings
        tepui settings schedule
        tepui settings --of compare

    Args:
        name: Show one setting alone.
        of: The command.
    """
    from tepui.cli.further import settings_of
    from tepui.core.checks import one_of
    from tepui.core.spec import written

    known = settings_of(of)
    if name is not None:
        one_of("name", name, known)
        known = {name: known[name]}
    rows = [(name, written(each.default), each.about) for name, each in known.items()]
    console().print(table(f"tepui {of} --set", ("name", "default", "what"), rows))
