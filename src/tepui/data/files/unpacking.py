"""Safe unpacking: nothing outside the folder, and nothing but regular files.

A link, a device, a name that leads out of the folder, or a truncated archive is an
error that names it.
"""

import errno
import lzma
import stat
import tarfile
import zipfile
import zlib
from pathlib import Path, PureWindowsPath

from tepui.core.limits import limits_here
from tepui.core.replacing import writing

_OF_THE_DISK = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES),
    *(errno.EPERM, errno.EIO, errno.ENOENT),
)
_DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    OSError,
    UnicodeDecodeError,  # a name that is no text
    RuntimeError,  # a password is needed, or the compression is unknown
)


def is_archive(path: Path) -> bool:
    """Return whether a file's name is that of an archive with files in it."""
    name = path.name.lower()
    return name.endswith((".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz"))


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar or zip archive into a folder; an error leaves part of it there."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        (_unzip if archive.suffix.lower() == ".zip" else _untar)(archive, folder)
    except _DAMAGE as error:
        if isinstance(error, OSError) and error.errno in _OF_THE_DISK:
            with writing(folder):
                raise
        raise ValueError(
            f"{archive} must be a valid archive: {error or type(error).__name__}"
        ) from error


def _untar(archive: Path, folder: Path) -> None:
    limits, unpacked = limits_here(), 0
    with tarfile.open(archive) as tar:
        for number, member in enumerate(tar, 1):
            unpacked += member.size
            limits.check("archive_members", number, archive)
            limits.check("unpacked_bytes", unpacked, archive)
            _check_name(archive, member.name)
            if not (member.isreg() or member.isdir()):
                _refuse(archive, member.name, "a link or a device")
            tar.extract(member, folder, filter="data")


def _unzip(archive: Path, folder: Path) -> None:
    limits = limits_here()
    with zipfile.ZipFile(archive) as zipped:
        sizes = [member.file_size for member in zipped.infolist()]
        limits.check("archive_members", len(sizes), archive)
        limits.check("unpacked_bytes", sum(sizes), archive)
        for member in zipped.infolist():
            _check_name(archive, member.filename)
            kind = stat.S_IFMT(member.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                _refuse(archive, member.filename, "a link or a device")
            zipped.extract(member, folder)


def _check_name(archive: Path, name: str) -> None:
    path = PureWindowsPath(name)  # knows both kinds of slash, and drives
    if path.anchor or ".." in path.parts:
        _refuse(archive, name, "a path that leads out of the folder")


def _refuse(archive: Path, name: str, what: str) -> None:
    raise ValueError(
        f"{archive} must contain only files and folders inside itself, "
        f"got {name!r}: {what}"
    )
