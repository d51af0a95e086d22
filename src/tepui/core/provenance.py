"""What a record says of the command that made it: no secrets, and paths for others.

Secrets are never written. Absolute paths are kept in a run's own folder, which needs
them to be found again, and left out of what is made to be shown.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MASK = "***"
_KEYS = r"(?:api|access|private|ssh|hf|encryption)[_-]?key"
_WORDS = rf"token(?!i[sz])|passw|passphrase|secret|credential|{_KEYS}"
# Authorization, and no authors or authorities.
_WORDS += r"|auth(?!or(?:$|[\W_]|s|it))"
# Bounded, since a word of any length is looked at from each of its letters.
_SECRET = rf"[\w.-]{{0,40}}(?:{_WORDS})[\w-]{{0,40}}"
_NAME = re.compile(_SECRET, re.IGNORECASE)
_OPTION = re.compile(rf"--(?:key|{_SECRET})", re.IGNORECASE)
_BEARER = re.compile(r"(bearer\s+)\S+", re.IGNORECASE)
_QUOTED = r"(?P<quote>[\"'])(?:(?!(?P=quote))[^\\]|\\.)*(?P=quote)"
_INSIDE = re.compile(
    rf"(?P<name>[\"']?(?:\bsig|{_SECRET})[\"']?\s*[=:]\s*)(?:{_QUOTED}|[^,}}\s\"'&]+)",
    re.IGNORECASE,
)
_IN_ADDRESS = re.compile(r"(\w{1,20}://)[^/\s@]+@")
_ABSOLUTE = re.compile(r"(?<![\w.:/~-])(?:/[^/\s'\"=,:;]+)+/?")


def without_secrets(words: Sequence[str]) -> list[str]:
    """Return the words of a command with the values of secret options masked.

    Options are known by their names; names and passwords in addresses are masked too.

    Example:
        >>> without_secrets(["--hub.token", "hf_1", "--data", "https://me:pw@host/x"])
        ['--hub.token', '***', '--data', 'https://***@host/x']
        >>> without_secrets(["--password=1", '{"api_key": "2", "rho": 3}'])
        ['--password=***', '{"api_key": "***", "rho": 3}']
    """
    masked, secret = [], False
    for word in words:
        hidden = MASK if secret and not word.startswith("--") else word
        hidden = _BEARER.sub(rf"\1{MASK}", hidden)
        hidden = _INSIDE.sub(_masked_inside, hidden)
        masked.append(_IN_ADDRESS.sub(rf"\1{MASK}@", hidden))
        secret = _OPTION.fullmatch(word) is not None
    return masked


def _masked_inside(match: re.Match[str]) -> str:
    quote = match["quote"] or ""
    return f"{match['name']}{quote}{MASK}{quote}"


def masked(value: Any) -> Any:
    """Return a document with the values of secrets masked, known by their names.

    Example:
        >>> masked({"hub": {"token": "hf_1", "tokens": 3}, "at": "https://me:pw@host"})
        {'hub': {'token': '***', 'tokens': 3}, 'at': 'https://***@host'}
    """
    if isinstance(value, Mapping):
        return {
            name: MASK if _is_secret(str(name), item) else masked(item)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [masked(item) for item in value]
    return without_secrets([value])[0] if isinstance(value, str) else value


def _is_secret(name: str, value: Any) -> bool:
    plain = value is None or isinstance(value, bool | int | float)
    return not plain and _NAME.fullmatch(name) is not None


def command_line(words: Sequence[str]) -> str:
    """Return a command as it is recorded."""
    return shlex.join(without_secrets(words))


def with_short_paths(text: str) -> str:
    """Return a text in which absolute paths are relative, or only their last part.

    Example:
        >>> with_short_paths(f"--out {Path.cwd()}/runs/a --data /srv/photos")
        '--out runs/a --data .../photos'
    """
    return _ABSOLUTE.sub(lambda match: short_path(match[0]), text)


def short_path(path: str | Path) -> str:
    """Return a path relative to the working folder, or its last part.

    Example:
        >>> short_path("runs/a"), short_path("/srv/photos/")
        ('runs/a', '.../photos')
    """
    place = Path(path)
    if not place.is_absolute():
        return str(place)
    here = Path.cwd()
    inside = place.is_relative_to(here)
    return str(place.relative_to(here)) if inside else f".../{place.name}"
