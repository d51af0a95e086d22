import io
import stat
import tarfile
import zipfile
from contextlib import suppress

import pytest

from data_layouts import encrypted
from tepui.data.published import is_archive, unpack

FILES = {"set/a.txt": b"a" * 5000, "set/below/b.bin": bytes(range(256)) * 20}


def make_tar(path, files, mode="w:gz"):
    with tarfile.open(path, mode) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def make_zip(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, content in files.items():
            zipped.writestr(name, content)
    return path


def below(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize(
    ("name", "mode"),
    [("x.tar", "w"), ("x.tar.gz", "w:gz"), ("x.tgz", "w:gz"), ("x.tar.xz", "w:xz")],
)
def test_tar_comes_out_as_it_went_in(name, mode, tmp_path):
    archive = make_tar(tmp_path / name, FILES, mode)
    assert is_archive(archive)
    unpack(archive, tmp_path / "out")
    assert below(tmp_path / "out") == FILES


def test_zip_comes_out_as_it_went_in(tmp_path):
    archive = make_zip(tmp_path / "x.zip", FILES)
    assert is_archive(archive)
    unpack(archive, tmp_path / "out")
    assert below(tmp_path / "out") == FILES


def test_compressed_files_are_no_archives(tmp_path):
    assert not is_archive(tmp_path / "train-images-idx3-ubyte.gz")
    assert not is_archive(tmp_path / "train_32x32.mat")


@pytest.mark.parametrize("name", ["../gone", "set/../../gone", "/gone"])
@pytest.mark.parametrize("make", [make_tar, make_zip])
def test_nothing_comes_to_lie_outside(make, name, tmp_path):
    suffix = "tar.gz" if make is make_tar else "zip"
    archive = make(tmp_path / f"x.{suffix}", {"set/a": b"a", name: b"evil"})
    with suppress(ValueError):
        unpack(archive, tmp_path / "in" / "out")
    assert {*below(tmp_path)} <= {archive.name, "in/out/set/a", "in/out/gone"} | {
        "in/out/set/gone"
    }


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        (tarfile.SYMTYPE, "/etc/passwd"),
        (tarfile.SYMTYPE, "../../x"),
        (tarfile.LNKTYPE, "/etc/passwd"),
        (tarfile.LNKTYPE, "../../x"),
        (tarfile.FIFOTYPE, ""),
        (tarfile.CHRTYPE, ""),
    ],
)
def test_links_that_lead_out_and_devices_are_refused(kind, target, tmp_path):
    archive = make_tar(tmp_path / "x.tar", {"set/a.txt": b"a"}, "w")
    with tarfile.open(archive, "a") as tar:
        member = tarfile.TarInfo("set/link")
        member.type, member.linkname = kind, target
        tar.addfile(member)
    with pytest.raises(ValueError, match=r"x\.tar must be a valid archive"):
        unpack(archive, tmp_path / "out")
    assert below(tmp_path / "out") == {"set/a.txt": b"a"}


def test_links_in_a_zip_are_plain_files(tmp_path):
    archive = tmp_path / "x.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        member = zipfile.ZipInfo("set/link")
        member.external_attr = (stat.S_IFLNK | 0o777) << 16
        zipped.writestr(member, "/etc/passwd")
    unpack(archive, tmp_path / "out")
    assert not (tmp_path / "out/set/link").is_symlink()


@pytest.mark.parametrize(
    ("name", "mode"),
    [("x.tar", "w"), ("x.tar.gz", "w:gz"), ("x.tar.xz", "w:xz"), ("x.zip", None)],
)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.8])
def test_truncated_archives_are_refused(name, mode, share, tmp_path):
    archive = tmp_path / name
    if mode is None:
        make_zip(archive, FILES)
    else:
        make_tar(archive, FILES, mode)
    content = archive.read_bytes()
    archive.write_bytes(content[: int(share * len(content) * 0.6)])
    with pytest.raises(ValueError, match="must be a valid archive"):
        unpack(archive, tmp_path / "out")


@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz", "x.zip"])
def test_foreign_files_are_refused(name, tmp_path):
    archive = tmp_path / name
    archive.write_bytes(b"<html>not found</html>" * 100)
    with pytest.raises(ValueError, match="must be a valid archive"):
        unpack(archive, tmp_path / "out")


def test_a_damaged_member_of_a_zip_is_refused(tmp_path):
    archive = make_zip(tmp_path / "x.zip", {"a": bytes(range(256)) * 50})
    content = bytearray(archive.read_bytes())
    content[60] ^= 255
    archive.write_bytes(content)
    with pytest.raises(ValueError, match="must be a valid archive"):
        unpack(archive, tmp_path / "out")


def test_a_name_in_a_zip_that_is_no_text_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as zipped:
        zipped.writestr("é.txt", "a")
    content = (tmp_path / "x.zip").read_bytes().replace("é".encode(), b"\xff\xfe")
    (tmp_path / "x.zip").write_bytes(content)
    with pytest.raises(ValueError, match=r"x\.zip must be a valid archive: 'utf-8'"):
        unpack(tmp_path / "x.zip", tmp_path / "out")


def test_an_encrypted_zip_is_refused(tmp_path):
    archive = encrypted(make_zip(tmp_path / "x.zip", FILES))
    with pytest.raises(ValueError, match=r"x\.zip must be a valid .*: .*encrypted"):
        unpack(archive, tmp_path / "out")


def test_faults_of_the_disk_are_not_blamed_on_the_archive(tmp_path):
    with pytest.raises(FileNotFoundError):
        unpack(tmp_path / "absent.tar", tmp_path / "out")
