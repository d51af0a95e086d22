"""Whether a run is resumed with what it was started with, and if not, what differs.

Digests tell layers and data from others, and tell a person nothing: where something
else differs it alone is shown, and else that contents do.
"""

import re
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tepui.core.agreement import apart

# How values are shown in messages: not longer than one can read.
SHOWN = reprlib.Repr()
SHOWN.maxlist = SHOWN.maxdict = 6
SHOWN.maxstring = 70
MEMBERS = "members"
LAYERS = "layers"  # of a model, their digest
REMEDY = "give it what it had, or begin another run in a new folder"
_DIGEST = re.compile(r"[0-9a-f]{16,}")


def check_settings(
    begun: Mapping[str, Any],
    now: Mapping[str, Any],
    run: Path,
    command: str | None = None,
) -> None:
    """Raise if a run's settings differ from those that it was started with.

    Args:
        begun: What it was started with.
        now: What is given now.
        run: Its folder.
        command: That started it, which is quoted.

    Example:
        >>> check_settings({"models": [{}], "seeds": [1]}, {"models": [{}, {}]}, Path("a"))
        Traceback (most recent call last):
        ValueError: members must be what the run in a was started with (1) to resume it, got 2; give it what it had, or begin another run in a new folder
    """  # noqa: E501 - a doctest must show the whole message
    then, now = _by_setting(begun, now)
    names = sorted(then.keys() | now.keys(), key=lambda name: (name != MEMBERS, name))
    other = [name for name in names if then.get(name) != now.get(name)]
    if not other:
        return
    name, *more = other
    had, got = _in_words(*apart(then.get(name), now.get(name)))
    started = f"; it was started by: {command}" if command else ""
    raise ValueError(
        f"{name} must be what the run in {run} was started with{had} to resume it, got "
        f"{got}"
        + (f"; so must {', '.join(more)}" if more else "")
        + f"; {REMEDY}{started}"
    )


def _by_setting(
    begun: Mapping[str, Any], now: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return both with the number of members where it differs, not with their list."""
    counts = [len(config.get("models", ())) for config in (begun, now)]
    if counts[0] == counts[1]:
        return dict(begun), dict(now)
    hidden = ("models", "seeds")
    then, given = (
        {MEMBERS: count, **{n: v for n, v in config.items() if n not in hidden}}
        for count, config in zip(counts, (begun, now), strict=True)
    )
    return then, given


def _in_words(then: Any, now: Any) -> tuple[str, str]:
    """Return two values that differ, as far as they tell a person something.

    Example:
        >>> _in_words({"samples": 9, "sha256": 64 * "0"}, {"samples": 8, "sha256": 64 * "1"})
        (" ({'samples': 9})", "{'samples': 8}")
        >>> _in_words({"sha256": 64 * "0"}, {"sha256": 64 * "1"})
        ('', 'one with other contents')
        >>> _in_words({"layers": 16 * "0"}, {"layers": 16 * "1"})[1]
        'one with other layers'
    """  # noqa: E501 - a doctest must show the whole call
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        telling = [n for n in then if not (_is_digest(then[n]) and _is_digest(now[n]))]
        if not telling:
            return "", f"one with other {LAYERS if LAYERS in then else 'contents'}"
        then, now = ({n: value[n] for n in telling} for value in (then, now))
    return f" ({SHOWN.repr(then)})", SHOWN.repr(now)


def _is_digest(value: object) -> bool:
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None
