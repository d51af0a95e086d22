"""Help that speaks of tepui's classes by name, and of no types."""

import re
from argparse import Action
from functools import partial
from itertools import chain

from jsonargparse import DefaultHelpFormatter

from tepui.cli.known import known_names

# How a help text ends.
_TYPED = re.compile(
    r" \((required, )?type: .*?(?:, default: (.*?))?(?:; known: (.*?))?\)$", re.DOTALL
)


class HelpFormatter(DefaultHelpFormatter):
    """Shows tepui's own classes by their short names, and examples as written.

    Options have dashes, as everywhere in the documentation, and texts no backticks.
    """

    def format_help(self) -> str:
        """Return the help, its options with dashes."""
        text = super().format_help().replace("``", "")
        return re.sub(r"--\w[\w.]*", lambda option: option[0].replace("_", "-"), text)

    def _expand_help(self, action: Action) -> str:
        option = next(iter(action.option_strings), "")
        shortened = partial(_shortened, option=option)
        text = super()._expand_help(action)
        text = re.sub(r", known subclasses: ([^)]*)", shortened, text)
        return _TYPED.sub(_without_type, text)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(indent + line for line in text.splitlines())


def _without_type(match: re.Match[str]) -> str:
    """Return what a help text says beside a type, which is of no use to a reader."""
    required, default, known = match.groups()
    if default is not None:
        named = re.match(r"\{'class_path': '(?:\w+\.)*(\w+)'", default)
        default = default if named is None else named[1]
    shown = [] if required is None else ["required"]
    shown += [] if default in (None, "null", "False", "[]") else [f"default: {default}"]
    shown += [] if known is None else [f"known: {known}"]
    return f" ({'; '.join(shown)})" if shown else ""


def _shortened(match: re.Match[str], option: str) -> str:
    """Return the classes that an option offers, in place of all that would fit."""
    known = known_names()
    offered = known.get(option) or [*chain.from_iterable(known.values())]
    paths = re.split(r",\s*", match.group(1))
    names = {path.rsplit(".", 1)[-1] for path in paths if path.startswith("tepui.")}
    shown = sorted(names & set(offered))
    return f"; known: {', '.join(shown)}" if shown else ""
