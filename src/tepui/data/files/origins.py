"""Where published data sets come from, and where they lie on disk.

Each set has one folder in the data folder, under the name its authors gave it. The
environment variable ``TEPUI_DATA`` names the data folder; without it, the platform's
cache folder serves.
"""

import os
from dataclasses import dataclass
from pathlib import Path

ENVIRONMENT = "TEPUI_DATA"


@dataclass(frozen=True)
class Download:
    """One file to download.

    Attributes:
        url: Its address; the last part is the file's name.
        known_hash: Its hash, as ``algorithm:digits``.
        published_by: Who published that hash.
        size: Bytes, in round numbers.
    """

    url: str
    known_hash: str
    published_by: str
    size: int

    @property
    def file(self) -> str:
        """The file's name."""
        return self.url.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Origin:
    """Where a data set comes from.

    Attributes:
        about: What it is, in a few words.
        folders: Names its folder in the data folder may have; downloads create the
            first.
        downloads: Files to download; empty if the set must be placed by hand.
        by_hand: How to place it without a download.
        elsewhere: Folders in which other software installs it.
    """

    about: str
    folders: tuple[str, ...]
    downloads: tuple[Download, ...] = ()
    by_hand: str = ""
    elsewhere: tuple[str, ...] = ()

    def find(self, root: str | Path | None = None) -> Path | None:
        """Return the folder the set lies in, or None."""
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
    """Raise a ``FileNotFoundError`` that names the file and what its folder holds."""
    if not path.is_file():
        beside = sorted(item.name for item in path.parent.glob("*"))[:20]
        raise FileNotFoundError(f"{path} must exist; its folder holds {beside}")
