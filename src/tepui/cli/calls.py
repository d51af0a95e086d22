"""A class with arguments in one word, such as ``SharpBalance(rho=0.05)``.

The word is read as Python would read it and never executed: names, numbers, texts,
lists of them and further such words become what a configuration file would hold, which
is then admitted or refused as a file's is.
"""

import ast
import json
import re
from typing import Any

_RULE = (
    "be written NAME or 'NAME(argument=value, ...)', each argument once, of numbers, "
    "texts, lists and such words"
)
_LONGEST = 200  # characters of a refused word that are shown
# A text in quotes, or one sign.
_TOKEN = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|.""", re.DOTALL)


def is_call(word: str) -> bool:
    """Return whether a word gives a class arguments."""
    return "(" in word and "{" not in word


def parted(text: str) -> list[str]:
    """Return the words of a list, parted at blanks and commas outside of brackets.

    Example:
        >>> parted("SAM(rho=[0.1, 0.2]), GSAM")
        ['SAM(rho=[0.1, 0.2])', 'GSAM']
    """
    parts, depth = [""], 0
    for token in _TOKEN.findall(text):
        depth += (token in "([{") - (token in ")]}")
        if depth == 0 and (token.isspace() or token == ","):
            parts.append("")
        else:
            parts[-1] += token
    return [part for part in parts if part]


def mapping_of(word: str, option: str) -> dict[str, Any]:
    """Return what a word holds as a configuration would.

    Args:
        word: The class with its arguments.
        option: The option that it is written for.

    Raises:
        ValueError: If the word is written otherwise.

    Example:
        >>> mapping_of("SAM(rho=[0.1, 0.2])", "--methods")
        {'class_path': 'SAM', 'init_args': {'rho': [0.1, 0.2]}}
    """
    try:
        mapping = _mapping(ast.parse(word.strip(), mode="eval").body)
        json.dumps(mapping)  # refuses what no configuration could hold
    except (SyntaxError, TypeError, ValueError, RecursionError, MemoryError) as error:
        shown = word if len(word) <= _LONGEST else f"{word[:_LONGEST]}..."
        raise ValueError(f"{option} must {_RULE}, got {shown!r}") from error
    return mapping


def _mapping(node: ast.expr) -> dict[str, Any]:
    """Return the mapping that stands for a call with named arguments."""
    if not isinstance(node, ast.Call) or node.args or not _is_name(node.func):
        raise ValueError("no call of a name with named arguments alone")
    names = [keyword.arg for keyword in node.keywords]
    if None in names or len({*names}) < len(names):
        raise ValueError("arguments without a name, or one twice")
    given = {keyword.arg: _value(keyword.value) for keyword in node.keywords}
    return {"class_path": ast.unparse(node.func), "init_args": given}


def _value(node: ast.expr) -> Any:
    """Return a plain value; of a call, the mapping that stands for it."""
    if _is_name(node):
        return ast.unparse(node)
    if isinstance(node, ast.Call):
        return _mapping(node)
    value = ast.literal_eval(node)
    return list(value) if isinstance(value, tuple) else value


def _is_name(node: ast.expr) -> bool:
    """Return whether an expression is a name, or a path of them with dots."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)
