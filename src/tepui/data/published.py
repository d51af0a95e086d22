"""Published data sets: where they come from and lie, and how they are installed.

Each set has one folder in the data folder, under the name its authors gave it. The
environment variable ``TEPUI_DATA`` names the data folder; without it, the platform's
cache folder serves. A set appears there by one rename, after every file was downloaded,
hashed and unpacked; a failure leaves the data folder as it was. A record of the hash of
each file comes with the set, so that it can be verified later.
"""

import hashlib
import os
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from errno import EINVAL
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy.typing as npt
import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.core.processes import mark
from tepui.core.replacing import check_writable
from tepui.core.storage import read_document, write_document
from tepui.data.arrays import Arrays, Normalize

ENVIRONMENT = "TEPUI_DATA"


@dataclass(frozen=True)
class Download:
    """One file to download: its address, its hash, rough bytes."""

    url: str
    known_hash: str  # algorithm:digits
    size: int

    @property
    def file(self) -> str:
        """The file's name: the last part of its address."""
        return self.url.rsplit("/", 1)[-1]


def downloads(url: str, files: str) -> tuple[Download, ...]:
    """Return the files of a table: name, megabytes and SHA-256 in each line."""
    rows = (line.split() for line in files.strip().splitlines())
    return tuple(
        Download(url.format(name), f"sha256:{digest}", round(float(size) * 1e6))
        for name, size, digest in rows
    )


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
    """Raise an error unless there is a file, which a pipe or a folder is not.

    Example:
        >>> require_file(Path("no such place/mine.csv"))
        Traceback (most recent call last):
        FileNotFoundError: no such place/mine.csv must exist
    """
    if not path.is_file():
        rule = "be a file" if path.exists() else "exist"
        raise FileNotFoundError(f"{path} must {rule}")


ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz")


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar or zip archive; nothing comes to lie outside of the folder."""
    how: dict[str, Any] = {} if archive.suffix == ".zip" else {"filter": "data"}
    try:
        shutil.unpack_archive(archive, folder, **how)
    except Exception as error:  # a damaged archive can fail in any way
        if isinstance(error, OSError) and error.errno not in (None, EINVAL):  # a disk's
            raise
        why = error or type(error).__name__
        raise ValueError(f"{archive} must be a valid archive: {why}") from error


def located(
    name: str, origin: Origin, root: str | Path | None = None, download: bool = False
) -> Path:
    """Return the folder of a data set, downloading it first if asked."""
    folder = origin.find(root)
    if folder is not None:
        return folder
    if download and origin.downloads:
        return install(origin, root)
    ways = f"To use another data folder, set root or the variable {ENVIRONMENT}."
    if origin.by_hand:
        ways = f"{origin.by_hand} {ways}"
    if origin.downloads:
        ways = f"Fetch it with: tepui data fetch {name} (or download=True). {ways}"
    place = data_folder() if root is None else root
    raise FileNotFoundError(f"{name} is not in {place}. {ways}")


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """Yield a hidden folder that takes the place of another once it is whole."""
    check_writable(folder.parent)
    folder.parent.mkdir(parents=True, exist_ok=True)
    stage = folder.with_name(f".{folder.name}.{mark()}.tmp")
    stage.mkdir()
    try:
        yield stage / folder.name
        (stage / folder.name).rename(folder)
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def install(origin: Origin, root: str | Path | None = None) -> Path:
    """Download a data set and put it in its folder, whole or not at all.

    An archive is removed after unpacking, and so are the remains of killed downloads.
    """
    require(len(origin.downloads) > 0, "origin", "have downloads", origin.by_hand)
    base = data_folder() if root is None else Path(root)
    target = base / origin.folders[0]
    if target.exists():
        raise FileExistsError(f"{target} exists; remove it to fetch the set again")
    with staged(target) as ready:
        for download in origin.downloads:
            _add(download, ready)
        unpacked = sorted(path.name for path in ready.parent.iterdir())
        rule = f"hold a folder {target.name}"
        require(ready.is_dir(), origin.downloads[0].file, rule, unpacked)
        write_record(ready, {item.url: item.known_hash for item in origin.downloads})
    return target


def _add(download: Download, ready: Path) -> None:
    """Bring one file of a set into its folder; an archive is unpacked beside it."""
    import pooch

    bar = sys.stderr.isatty() and find_spec("tqdm") is not None
    http = pooch.HTTPDownloader(timeout=30, progressbar=bar)
    known = download.url, download.known_hash, download.file
    file = Path(pooch.retrieve(*known, ready.parent, downloader=http))
    if file.name.endswith(ARCHIVES):
        unpack(file, ready.parent)
        file.unlink()
        return
    ready.mkdir(exist_ok=True)
    file.rename(ready / file.name)


Values = Tensor | npt.NDArray[Any]
Contents = tuple[Values, Values, tuple[str, ...]]


class PublishedArrays(Arrays, ABC):
    """A published data set held in tensors.

    Args:
        root: The data folder, or the set's own; see :mod:`tepui.data.published`.
        train: The training part if true, else the test part.
        download: Download the set if it is missing.

    Attributes:
        origin: Where the set comes from.
        normalization: What its images are normalized by.
        shape: Channels, height and width of an image.
        num_samples: Images in the training part (true) and in the test part (false).

    Raises:
        FileNotFoundError: If a file is missing; the message says how to get it.
        ValueError: If a file is truncated, foreign or of the wrong size.
    """

    origin: ClassVar[Origin]
    normalization: ClassVar[Normalize]
    shape: ClassVar[tuple[int, int, int]]
    num_samples: ClassVar[dict[bool, int]]

    def __init__(
        self, root: str | Path | None = None, train: bool = True, download: bool = False
    ) -> None:
        folder = located(type(self).__name__, self.origin, root, download)
        *values, classes = self._read(folder, train)
        images, labels = map(torch.as_tensor, values)
        shape = (self.num_samples[train], *self.shape)
        fits = images.dtype == torch.uint8 and images.shape == shape
        described = f"{images.dtype} of shape {tuple(images.shape)}"
        require(fits, str(folder), f"hold bytes of shape {shape}", described)
        rule = f"hold {shape[0]} labels below {len(classes)}"
        fits = labels.shape == shape[:1] and int(labels.max()) < len(classes)
        got = f"{len(labels)} labels up to {int(labels.max())}"
        require(fits, str(folder), rule, got)
        super().__init__(images, labels.long(), self.normalization, classes)

    @abstractmethod
    def _read(self, folder: Path, train: bool) -> Contents:
        """Return the images, labels and class names of one part."""


RECORD = ".tepui.json"
KIND = "data set"


def write_record(folder: Path, origin: Mapping[str, Any]) -> None:
    """Write down the hashes of all files of a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    hashes = {file.relative_to(folder).as_posix(): file_digest(file) for file in files}
    write_document(folder / RECORD, KIND, {"from": dict(origin), "files": hashes})


def check_record(folder: Path) -> Iterator[tuple[Path, str | None]]:
    """Yield the files in the record of a data set, each with what is wrong with it."""
    for name, expected in _hashes(folder).items():
        path = folder / name
        if not path.is_file():
            yield path, "is missing, though it was put there"
            continue
        found = file_digest(path)
        damage = f"must have sha256 {expected}, got {found}"
        yield path, None if found == expected else damage


def file_digest(path: Path, algorithm: str = "sha256") -> str:
    """Return the hash of a file's contents."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def _hashes(folder: Path) -> dict[str, str]:
    hashes = read_document(folder / RECORD, KIND).get("files")
    if not isinstance(hashes, dict):
        raise ValueError(f"{folder / RECORD} must be a record of hashes, got {hashes}")
    return hashes
