"""Fetching and installing the files of a data set.

A set appears in the data folder by one rename, after every file was downloaded, hashed
and unpacked; a failure leaves the data folder as it was. A record of the hash of each
file comes with the set, so that it can be verified later.
"""

import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from typing import Any

from tepui.core.checks import require
from tepui.core.processes import is_over, mark
from tepui.core.replacing import ABANDONED, check_writable, writing
from tepui.data.files.origins import ENVIRONMENT, Download, Origin, data_folder
from tepui.data.files.record import file_digest, write_record
from tepui.data.files.unpacking import is_archive, unpack

_CHUNK = 1 << 20
_TIMEOUT = 30  # seconds without an answer
_MARK = re.compile(r"\.([0-9a-f]{8}-\d+-\w+)\.partial$")


def located(
    name: str, origin: Origin, root: str | Path | None = None, download: bool = False
) -> Path:
    """Return the folder of a data set, downloading it first if asked."""
    folder = origin.find(root)
    if folder is not None:
        return folder
    if download and origin.downloads:
        return install(origin, root)
    raise FileNotFoundError(
        f"{name} is not in {data_folder() if root is None else root}. "
        f"{advice(name, origin)}"
    )


def is_installed(kind: Any) -> bool:
    """Return whether a published data set, named by its class, is here."""
    origin: Origin = kind.origin
    return origin.find(None) is not None


def advice(name: str, origin: Origin) -> str:
    """Return advice on how to get a missing data set."""
    ways = f"To use another data folder, set root or the variable {ENVIRONMENT}."
    if origin.by_hand:
        ways = f"{origin.by_hand} Then: tepui verify {name}. {ways}"
    if origin.downloads:
        ways = f"Fetch it with: tepui data fetch {name} (or download=True). {ways}"
    return ways


def install(origin: Origin, root: str | Path | None = None) -> Path:
    """Download a data set and put it in its folder, whole or not at all.

    An archive that is already in the data folder is used if it has the known hash, and
    stays there; a downloaded one is removed after unpacking. So are the remains of a
    killed download of the same set; those of another host once nothing was written
    there for a day.
    """
    require(len(origin.downloads) > 0, "origin", "have downloads", origin.by_hand)
    base = data_folder() if root is None else Path(root)
    check_writable(base)
    base.mkdir(parents=True, exist_ok=True)
    target = base / origin.folders[0]
    if target.exists():
        raise FileExistsError(f"{target} exists; remove it to fetch the set again")
    with _staging(base, target.name) as stage:
        ready = stage / target.name
        for download in origin.downloads:
            _add(download, base, stage, ready)
        unpacked = sorted(path.name for path in stage.iterdir())
        rule = f"hold a folder {target.name}"
        require(ready.is_dir(), origin.downloads[0].file, rule, unpacked)
        write_record(ready, {item.url: item.known_hash for item in origin.downloads})
        ready.rename(target)
    return target


@contextmanager
def _staging(base: Path, name: str) -> Iterator[Path]:
    """Yield a temporary folder beside the set's; remove abandoned ones first."""
    for partial in base.glob(f".{escape(name)}.*.partial"):
        if _is_abandoned(partial):
            shutil.rmtree(partial, ignore_errors=True)
    suffix = f".{mark()}.partial"
    stage = Path(tempfile.mkdtemp(prefix=f".{name}.", suffix=suffix, dir=base))
    try:
        yield stage
    finally:
        shutil.rmtree(stage)


def _is_abandoned(partial: Path) -> bool:
    marked = _MARK.search(partial.name)
    over = None if marked is None else is_over(marked[1])
    if over is not None:
        return over
    return _last_written(partial) < time.time() - ABANDONED


def _last_written(folder: Path) -> float:
    """Return the latest modification time in a folder, in seconds since the epoch."""
    try:
        return max(path.lstat().st_mtime for path in (folder, *folder.rglob("*")))
    except FileNotFoundError:  # removed meanwhile, by a process that is still running
        return time.time()


def _add(download: Download, base: Path, stage: Path, ready: Path) -> None:
    """Bring one file of a set into the staging folder, unpacked if it is an archive."""
    placed, archive = base / download.file, stage / download.file
    hint, name = "", download.url
    if placed.exists():
        hint, name, archive = " (remove it to download the file)", str(placed), placed
    else:
        _retrieve(download, archive)
    for algorithm, expected in download.hashes.items():
        digest = file_digest(archive, algorithm)
        rule = f"have {algorithm} {expected}{hint}"
        require(digest == expected, name, rule, digest)
    if is_archive(archive):
        unpack(archive, stage)
        (stage / download.file).unlink(missing_ok=True)
        return
    ready.mkdir(exist_ok=True)
    if archive is placed:
        shutil.copy2(placed, ready)
    else:
        archive.rename(ready / download.file)


def _retrieve(download: Download, file: Path) -> None:
    """Download one file; a progress bar shows on a terminal."""
    import requests
    from rich.console import Console
    from rich.progress import DownloadColumn, Progress, TransferSpeedColumn

    columns = (*Progress.get_default_columns(), DownloadColumn(), TransferSpeedColumn())
    hidden = not sys.stderr.isatty()
    bar = Progress(*columns, console=Console(stderr=True), disable=hidden)
    try:
        with requests.get(download.url, stream=True, timeout=_TIMEOUT) as response:
            response.raise_for_status()
            size = int(response.headers.get("Content-Length", 0)) or None
            with bar, file.open("wb") as stream:
                task = bar.add_task(download.file, total=size)
                for chunk in response.iter_content(_CHUNK):
                    with writing(file):
                        stream.write(chunk)
                    bar.advance(task, len(chunk))
    except requests.RequestException as error:
        message = f"{download.url} could not be downloaded completely: {error}"
        raise ConnectionError(message) from error
