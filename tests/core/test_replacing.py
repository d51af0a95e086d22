"""Errors of the disk name the file, keep what was there and leave nothing behind."""

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch

from tepui.core import replacing as module
from tepui.core.lease import is_free
from tepui.core.processes import is_over, mark
from tepui.core.replacing import (
    ABANDONED,
    check_writable,
    remove_remains,
    replacing,
    write_bytes,
)
from tepui.core.storage import (
    write_document,
    write_tensors,
    writing_tensors,
)

FAULTS = (errno.ENOSPC, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EIO, errno.EDQUOT)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def write_stream(path, value):
    with writing_tensors(path, "test", ["a"], {}) as stream:
        stream.begin("a", (4,), torch.float32)
        stream.put("a", torch.full((4,), float(value)))


WRITERS = {
    "bytes": lambda path, value: write_bytes(path, b"%d" % value),
    "document": lambda path, value: write_document(path, "test", {"value": value}),
    "tensors": lambda p, v: write_tensors(p, "test", {"a": torch.tensor([v])}, {}),
    "stream": write_stream,
}


@pytest.mark.parametrize("fault", FAULTS, ids=errno.errorcode.get)
@pytest.mark.parametrize("writer", WRITERS)
def test_a_fault_of_the_disk_is_one_sentence(writer, fault, tmp_path, monkeypatch):
    path, write = tmp_path / "a[b].bin", WRITERS[writer]
    write(path, 1)
    before = path.read_bytes()

    def fail(descriptor):
        raise OSError(fault, os.strerror(fault))

    monkeypatch.setattr(module.os, "fsync", fail)
    sentence = rf"^{re.escape(str(path))} could not be written: .*; what was there"
    with pytest.raises(OSError, match=sentence) as caught:
        write(path, 2)
    assert caught.value.errno == fault
    assert path.read_bytes() == before
    assert names(tmp_path) == [path.name]


def test_a_folder_that_vanishes_while_a_file_is_written_is_named(tmp_path):
    path = tmp_path / "run" / "a.txt"
    with (
        pytest.raises(FileNotFoundError, match=r"a\.txt could not be written: no such"),
        replacing(path),
    ):
        shutil.rmtree(path.parent)


def test_errors_of_the_caller_are_not_taken_for_those_of_the_file(tmp_path):
    with (
        pytest.raises(FileNotFoundError, match=r"^no images$"),
        replacing(tmp_path / "a.txt"),
    ):
        raise FileNotFoundError("no images")


def remains(folder, marked):
    file = folder / f".a.txt.{marked}.tmp"
    file.write_text("half")
    return file


def aged(file, seconds):
    at = time.time() - seconds
    os.utime(file, (at, at))
    return file


def test_the_next_writer_removes_what_the_dead_left_and_nothing_else(tmp_path):
    mine = mark()
    where, process, started = mine.split("-")
    kept = [
        remains(tmp_path, mine),  # this process is alive
        aged(remains(tmp_path, f"00000000-{process}-{started}"), 60),
        tmp_path / ".other.tmp",
    ]
    kept[2].touch()
    dead = [
        remains(tmp_path, f"{where}-{process}-{int(started) + 1}"),  # reused number
        remains(tmp_path, f"{where}-4194305-7"),  # no such process
        aged(remains(tmp_path, f"11111111-{process}-0"), 2 * ABANDONED),
    ]
    write_bytes(tmp_path / "b.txt", b"b")
    assert all(file.exists() for file in kept)
    assert not any(file.exists() for file in dead)


KILLED = """
import sys, time
from pathlib import Path
from tepui.core.replacing import replacing
with replacing(Path(sys.argv[1])):
    print("begun", flush=True)
    time.sleep(1000)
"""


def test_a_killed_writer_leaves_nothing_after_the_next_one(tmp_path):
    command = [sys.executable, "-c", KILLED, tmp_path / "a.txt"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "begun\n"
        remove_remains(tmp_path)
        (left,) = tmp_path.iterdir()  # of a process that lives
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert is_over(left.name.split(".")[-2])
    write_bytes(tmp_path / "b.txt", b"b")
    assert names(tmp_path) == ["b.txt"]


def test_what_is_unfinished_does_not_fill_a_folder(tmp_path):
    assert is_free(tmp_path / "nowhere")
    for of in (mark(), "00000000-7-7"):  # of a writer that lives, and of another host
        remains(tmp_path, of)
    (tmp_path / "SAM" / ".0.lease").mkdir(parents=True)
    (tmp_path / "SAM" / ".0.lease" / "1").touch()
    assert is_free(tmp_path)
    (tmp_path / "features").mkdir()
    (tmp_path / "features" / "of.safetensors").touch()
    assert is_free(tmp_path, kept=("features",))
    assert not is_free(tmp_path)
    shutil.rmtree(tmp_path / "features")
    (tmp_path / ".other.tmp").touch()
    assert not is_free(tmp_path)


def test_a_folder_is_writable_if_files_can_be_made_in_it(tmp_path):
    check_writable(tmp_path / "new" / "below")
    assert names(tmp_path) == []
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match=r"file/x could not be written"):
        check_writable(tmp_path / "file" / "x")
    with pytest.raises(OSError, match=r"^/proc/x could not be written: "):
        check_writable(tmp_path.__class__("/proc/x"))
