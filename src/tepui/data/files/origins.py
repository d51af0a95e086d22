"""Where published data sets come from, and where they lie on disk.

Each set has one folder in the data folder, under the name its authors gave it. The
environment variable ``TEPUI_DATA`` names the data folder; without it, the platform's
cache folder serves.
"""

import os
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

ENVIRONMENT = "TEPUI_DATA"
MOST = 20  # names of files that a message shows


@dataclass(frozen=True)
class Download:
    """One file to download: its address, hash, the hash's publisher, rough bytes.

    Beside the published hash, often an md5 that no longer keeps forgers out, stands the
    SHA-256 that other libraries check the same file by, where one does.
    """

    url: str
    known_hash: str  # algorithm:digits
    published_by: str
    size: int
    sha256: str = ""

    @property
    def hashes(self) -> dict[str, str]:
        """What the file must have, by algorithm."""
        algorithm, _, digits = self.known_hash.partition(":")
        return {algorithm: digits} | ({"sha256": self.sha256} if self.sha256 else {})

    @property
    def file(self) -> str:
        """The file's name: the last part of its address."""
        return self.url.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Origin:
    """Where a data set comes from.

    Its folder in the data folder has one of the names ``folders``; downloads create the
    first. Without ``downloads``, ``by_hand`` says how to place the set. Other software
    installs it in the folders ``elsewhere``.
    """

    folders: tuple[str, ...]
    downloads: tuple[Download, ...] = ()
    by_hand: str = ""
    elsewhere: tuple[str, ...] = ()

    def find(self, root: str | Path | None = None) -> Path | None:
        """Return the folder that holds the set, or None."""
        base = data_folder() if root is None else Path(root)
        places = [base / name for name in self.folders]
        if base.name in self.folders:
            places.insert(0, base)
        if root is None:
            places += map(Path, self.elsewhere)
        return next((place for place in places if place.is_dir()), None)


def data_folder() -> Path:
    """Return the folder that holds data sets: ``TEPUI_DATA``, else the platform's."""
    named = os.environ.get(ENVIRONMENT)
    if named:
        return Path(named).expanduser()
    import pooch

    return Path(pooch.os_cache("tepui"))


def require_file(path: Path) -> None:
    """Raise a ``FileNotFoundError`` that names the file, with such files beside it.

    Example:
        >>> require_file(Path("no such place/mine.csv"))
        Traceback (most recent call last):
        FileNotFoundError: no such place/mine.csv must exist
    """
    if not path.is_file():
        names = (item.name for item in path.parent.glob("*") if item.is_file())
        alike = sorted(name for name in names if Path(name).suffix == path.suffix)
        near = (get_close_matches(path.name, alike) or alike)[:MOST]
        beside = f"; its folder holds {', '.join(near)}" if near else ""
        raise FileNotFoundError(f"{path} must exist{beside}")


def require_folder(path: Path) -> None:
    """Raise a ``FileNotFoundError`` that says what a path must be, with folders near.

    Example:
        >>> require_folder(Path("no such place/photos"))
        Traceback (most recent call last):
        FileNotFoundError: path must be a folder of images, got no such place/photos
    """
    if not path.is_dir():
        beside = [item.name for item in path.parent.glob("*") if item.is_dir()]
        near = [
            str(path.parent / name) for name in get_close_matches(path.name, beside)
        ]
        meant = f" (did you mean {' or '.join(near)}?)" if near else ""
        raise FileNotFoundError(f"path must be a folder of images, got {path}{meant}")
