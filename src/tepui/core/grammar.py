"""The grammar of values: names with arguments, lists, dictionaries, literals.

It is Python's. Text that a person typed may leave quotes out, up to the next comma or
bracket. Nothing is looked up here, and nothing executed.
"""

import ast
import re
import types
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

from tepui.core.checks import require
from tepui.core.names import EXAMPLES

LONGEST = 100_000  # characters of a text
DEEPEST = 20  # calls and lists inside each other
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_KEY = re.compile(r"[^\W\d]\w*\s*=(?!=)")
_DICTIONARY_KEY = re.compile(rf"(?:{_QUOTED.pattern}|[^\s:,()\[\]{{}}]+)\s*:")
_STRICT = re.compile(r"[-+]?[\w.]+(?:(?<=[eE])[-+]\d+)?")
_TYPED = re.compile(r"[^,()\[\]{}]+")
PLAIN = (str, int, float, bool, types.NoneType)


class Call(NamedTuple):
    """A name with arguments, before anything is looked up."""

    name: str
    positional: list[Any]
    keywords: dict[str, Any]


class Word(str):
    """Text without quotes: a name, or what a person typed."""


def parsed(text: str, argument: str, *, own: bool = False) -> Any:
    """Return what a text holds, with names as :class:`Call` and :class:`Word`."""
    return _Parser(text, argument, own).whole()


class _Parser:
    """Reads the one grammar: names with arguments, lists, dictionaries, literals."""

    def __init__(self, text: str, argument: str, own: bool) -> None:
        self.text, self.argument, self.own = text, argument, own
        self.place = 0
        rule = f"have at most {LONGEST} characters"
        require(len(text) <= LONGEST, argument, rule, len(text))

    def whole(self) -> Any:
        """Return all of the text."""
        value = self._value(0)
        return value if not self._rest() else self._fail("nothing may follow it")

    def _value(self, depth: int) -> Any:
        if depth > DEEPEST:
            self._fail(f"it is nested more than {DEEPEST} deep")
        if found := self._take(_QUOTED):
            return self._literal(found)
        if self._take("["):
            return [self._value(depth + 1) for _ in self._until("]")]
        if self._take("{"):
            return self._pairs(depth)
        if self._take("("):
            items = tuple(self._value(depth + 1) for _ in self._until(")"))
            comma = self.text[: self.place - 1].rstrip().endswith(",")
            return items if comma or len(items) != 1 else items[0]
        word = (self._take(_TYPED if self.own else _STRICT) or "").strip()
        if not word:
            self._fail("a value is missing" if not self._rest() else "it is no value")
        if not self._take("("):
            return self._literal(word)
        positional: list[Any] = []
        keywords: dict[str, Any] = {}
        for _ in self._until(")"):
            if key := self._take(_KEY):
                name = key.rstrip("= \t\n")
                if name in keywords:
                    self._fail(f"{name} is given twice")
                keywords[name] = self._value(depth + 1)
            elif keywords:
                self._fail("an argument without a name follows one with a name")
            else:
                positional.append(self._value(depth + 1))
        return Call(word, positional, keywords)

    def _until(self, end: str) -> Iterator[None]:
        """Go through what stands between commas up to an end."""
        while not self._take(end):
            yield
            if not self._take(",") and not self._rest().startswith(end):
                self._fail(f"{end} is missing")

    def _pairs(self, depth: int) -> dict[Any, Any]:
        pairs: dict[Any, Any] = {}
        for _ in self._until("}"):
            key = self._literal((self._take(_DICTIONARY_KEY) or ":")[:-1].strip())
            if key in pairs:
                self._fail(f"{key} is given twice")
            pairs[key] = self._value(depth + 1)
        return pairs

    def _literal(self, text: str) -> Any:
        """Return a plain value, or the word itself."""
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return Word(text)
        return value if isinstance(value, PLAIN) else Word(text)

    def _rest(self) -> str:
        return self.text[self.place :].lstrip()

    def _take(self, what: str | re.Pattern[str]) -> str | None:
        self.place = len(self.text) - len(self._rest())
        pattern = re.compile(re.escape(what)) if isinstance(what, str) else what
        found = pattern.match(self.text, self.place)
        if found is None:
            return None
        self.place = found.end()
        return found[0]

    def _fail(self, why: str) -> NoReturn:
        rule = f"be written such as {EXAMPLES.get(self.argument, 'SAM(rho=0.1)')}"
        raise ValueError(f"{self.argument} must {rule}, got {self.text!r}: {why}")
