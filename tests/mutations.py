"""Seeded damage to files, and what a reader makes of it."""

import random
import warnings
from collections import Counter

from tepui.data.image_files import UnreadableImageError

SAME = "same"  # read as before: the damage changed nothing that counts
REFUSED = "refused by name"
UNNAMED = "refused without its name"
ACCEPTED = "accepted, changed"


def _flip(content, draw):
    place = draw.randrange(len(content))
    content[place] ^= 1 << draw.randrange(8)


def _overwrite(content, draw):
    place = draw.randrange(len(content))
    content[place] = draw.randrange(256)


def _blank(content, draw):
    start, end = _run(content, draw)
    content[start:end] = bytes(end - start)


def _drop(content, draw):
    start, end = _run(content, draw)
    del content[start:end]


def _insert(content, draw):
    place = draw.randrange(len(content) + 1)
    content[place:place] = draw.randbytes(draw.randrange(1, 40))


def _repeat(content, draw):
    start, end = _run(content, draw)
    content[end:end] = content[start:end]


def _swap(content, draw):
    (a, b), (c, d) = sorted((_run(content, draw), _run(content, draw)))
    if b <= c:
        content[a:d] = content[c:d] + content[b:c] + content[a:b]
    else:
        content.reverse()


def _cut(content, draw):
    del content[draw.randrange(len(content)) :]


def _extend(content, draw):
    content += draw.randbytes(draw.randrange(1, 40))


def _digit(content, draw):
    places = [place for place, byte in enumerate(content) if chr(byte).isdecimal()]
    if places:
        content[draw.choice(places)] = ord(draw.choice("0123456789"))


def _widen(content, draw):
    """Let a number of four or eight bytes claim far more than there is."""
    place = draw.randrange(max(1, len(content) - 8))
    content[place : place + 4] = draw.choice([b"\xff" * 4, b"\xff\xff\xff\x7f"])


KINDS = (
    *(_flip, _flip, _overwrite, _overwrite, _blank, _drop, _insert, _repeat),
    *(_swap, _cut, _extend, _digit, _widen),
)


def _run(content, draw):
    start = draw.randrange(len(content))
    return start, min(len(content), start + draw.choice([1, 2, 8, 64]))


def damaged(content, seed):
    """Return some bytes with one seeded damage, never the same bytes."""
    draw = random.Random(seed)
    while True:
        changed = bytearray(content)
        draw.choice(KINDS)(changed, draw)
        if changed != content:
            return bytes(changed)


def outcome(file, read, same):
    """Return what a reader makes of a damaged file, in a word."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of libraries that read foreign formats
            found = read(file)
    except (ValueError, OSError) as error:
        own = type(error) in (ValueError, FileNotFoundError, UnreadableImageError)
        named = file.name in str(error)
        return REFUSED if own and named else f"{UNNAMED}: {error!r}"
    except Exception as error:
        return f"foreign {type(error).__name__}: {error}"
    return SAME if same(found) else ACCEPTED


def counted(file, read, same, seeds):
    """Return how often a reader ended in which way, over seeded damages of a file."""
    content, counts = file.read_bytes(), Counter()
    for seed in seeds:
        file.write_bytes(damaged(content, seed))
        counts[outcome(file, read, same)] += 1
    file.write_bytes(content)
    return counts
