"""Downloads from a server on this machine, and everything that can go wrong."""

import gzip
import hashlib
import io
import re
import tarfile
import threading
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from data_layouts import cifar10_python, images_and_labels
from tepui.core.processes import mark
from tepui.data import CIFAR10
from tepui.data.published import (
    RECORD,
    Download,
    Origin,
    check_record,
    install,
    located,
)

WRONG = "does not match the known hash: expected md5:0"
FILES = {"things/a.txt": b"a" * 4000, "things/below/b.txt": b"b" * 3000}


@pytest.fixture
def server(monkeypatch):
    """Serve what tests put under ``server.files``; cut short what is in ``cut``."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            name = self.path.lstrip("/")
            self.server.asked.append(name)
            if name not in self.server.files:
                self.send_error(404)
                return
            content = self.server.files[name]
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: self.server.cut.get(name)])

        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        made.files, made.cut, made.asked = {}, {}, []
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def serve(server, name, content, known_hash=None):
    server.files[name] = content
    url = f"http://127.0.0.1:{server.server_port}/{name}"
    known = known_hash or f"sha256:{hashlib.sha256(content).hexdigest()}"
    return Download(url, known, len(content))


def tarred(files=FILES):
    """Return an archive, whose bytes do not depend on the time."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
                continue
            member.type = tarfile.SYMTYPE if content else tarfile.FIFOTYPE
            member.linkname = content or ""
            tar.addfile(member)
    return gzip.compress(stream.getvalue(), mtime=0)


def zipped(files=FILES):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def origin(*downloads):
    return Origin(("things",), downloads)


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != RECORD
    }


@pytest.mark.parametrize(
    ("name", "content"), [("x.tar.gz", tarred()), ("x.zip", zipped())]
)
def test_an_archive_is_fetched_checked_and_unpacked(name, content, server, tmp_path):
    root = tmp_path / "not" / "yet"
    folder = install(origin(serve(server, name, content)), root)
    assert folder == root / "things"
    assert contents(root) == FILES
    assert [path.name for path in root.iterdir()] == ["things"]


def test_what_a_zip_would_put_outside_is_left_out(server, tmp_path):
    content = zipped({"things/a": b"a", "../evil": b"evil", "/tmp/evil": b"evil"})
    install(origin(serve(server, "x.zip", content)), tmp_path / "data")
    assert contents(tmp_path) == {"data/things/a": b"a"}


def test_files_that_are_no_archives_get_a_folder(server, tmp_path):
    downloads = [serve(server, f"{name}.gz", name.encode() * 9) for name in ("a", "b")]
    install(origin(*downloads), tmp_path)
    assert contents(tmp_path) == {"things/a.gz": b"a" * 9, "things/b.gz": b"b" * 9}


def wrong_hash(server):
    return [serve(server, "x.tar.gz", tarred(), f"md5:{'0' * 32}")], WRONG


def interrupted(server):
    server.cut["x.tar.gz"] = 50
    return [serve(server, "x.tar.gz", tarred())], "IncompleteRead"


def absent(server):
    download = serve(server, "x.tar.gz", tarred())
    del server.files["x.tar.gz"]
    return [download], "404 Client Error"


def unreachable(server):
    download = serve(server, "x.tar.gz", tarred())
    return [replace(download, url="http://127.0.0.1:9/x.tar.gz")], "refused"


def truncated(server):
    return [serve(server, "x.tar.gz", tarred()[:-20])], "must be a valid archive"


def climbing(server):
    content = tarred({"things/a": b"a", "../evil": b"evil"})
    return [serve(server, "x.tar.gz", content)], "must be a valid archive"


def linking(server):
    content = tarred({"things/a": b"a", "things/link": "../../evil"})
    return [serve(server, "x.tar.gz", content)], "must be a valid archive"


def a_pipe(server):
    content = tarred({"things/a": b"a", "things/pipe": None})
    return [serve(server, "x.tar.gz", content)], "must be a valid archive"


def truncated_zip(server):
    return [serve(server, "x.zip", zipped()[:-90])], "must be a valid archive"


def foreign(server):
    return [serve(server, "x.tar", b"<html>not found" * 99)], "must be a valid archive"


def something_else(server):
    content = tarred({"others/a": b"a"})
    return [serve(server, "x.tar.gz", content)], "must hold a folder things"


def second_of_two(server):
    first = serve(server, "a.gz", b"a")
    return [
        first,
        serve(server, "b.gz", b"b", f"md5:{'0' * 32}"),
    ], WRONG


FAULTS = [
    wrong_hash,
    interrupted,
    absent,
    unreachable,
    truncated,
    climbing,
    linking,
    a_pipe,
    truncated_zip,
    foreign,
    something_else,
    second_of_two,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_names_itself_and_leaves_nothing(fault, server, tmp_path):
    downloads, message = fault(server)
    root = tmp_path / "data"
    with pytest.raises((ValueError, OSError), match=message):
        install(origin(*downloads), root)
    assert list(root.iterdir()) == []
    assert not (tmp_path / "evil").exists()


def test_what_a_killed_download_left_goes(server, tmp_path):
    dead = tmp_path / f".things.{mark().split('-')[0]}-{2**22 - 1}-1.tmp"
    other = tmp_path / ".things.0123abcd-1-1.tmp"  # of another host, written just now
    for folder in (dead, other):
        folder.mkdir()
        (folder / "x.tar").write_bytes(b"half")
    install(origin(serve(server, "x.tar.gz", tarred())), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"things", other.name}


def test_a_set_that_is_there_is_not_replaced(server, tmp_path):
    (tmp_path / "things").mkdir()
    with pytest.raises(FileExistsError, match="remove it to fetch"):
        install(origin(serve(server, "x.tar.gz", tarred())), tmp_path)
    assert server.asked == []


@pytest.fixture
def installed(server, tmp_path):
    return install(origin(serve(server, "x.tar.gz", tarred())), tmp_path)


def damage(folder):
    return [f"{file.name} {why}" for file, why in check_record(folder) if why]


def test_files_that_changed_or_went_are_named(installed):
    assert len([*check_record(installed)]) == 2
    assert damage(installed) == []
    (installed / "below" / "b.txt").write_bytes(b"B" + b"b" * 2999)
    (installed / "a.txt").unlink()
    went, changed = damage(installed)
    assert went == "a.txt is missing, though it was put there"
    assert re.fullmatch(r"b\.txt must have sha256 \w+, got \w+", changed)


def test_a_damaged_record_is_named(installed):
    content = (installed / RECORD).read_text()
    for changed in ("[]", content.replace("a.txt", "c.txt")):
        (installed / RECORD).write_text(changed)
        with pytest.raises(ValueError, match=re.escape(str(installed / RECORD))):
            damage(installed)


def test_a_data_set_downloads_itself(server, tmp_path, monkeypatch):
    monkeypatch.setattr(CIFAR10, "num_samples", {True: 20, False: 4})
    data = [*images_and_labels(20, 10), *images_and_labels(4, 10, seed=1)]
    folder = cifar10_python(tmp_path / "made", *data)
    files = {
        f"{folder.name}/{path.name}": path.read_bytes() for path in folder.iterdir()
    }
    download = serve(server, "cifar-10-python.tar.gz", tarred(files))
    monkeypatch.setattr(
        CIFAR10, "origin", replace(CIFAR10.origin, downloads=(download,))
    )
    monkeypatch.setenv("TEPUI_DATA", str(tmp_path / "data"))
    with pytest.raises(FileNotFoundError, match="tepui data fetch CIFAR10"):
        CIFAR10()
    assert len(CIFAR10(download=True)) == 20
    assert len(CIFAR10(train=False)) == 4
    assert server.asked == ["cifar-10-python.tar.gz"]
    CIFAR10(download=True)
    assert len(server.asked) == 1


def test_what_must_be_placed_by_hand_says_how(tmp_path):
    by_hand = Origin(("things",), by_hand="Ask for it.")
    with pytest.raises(FileNotFoundError, match=r"Ask for it.*TEPUI_DATA"):
        located("Things", by_hand, tmp_path, download=True)


def test_sets_are_found_below_the_root_and_at_the_root(tmp_path, monkeypatch):
    things = replace(origin(), folders=("things", "others"), elsewhere=(str(tmp_path),))
    assert things.find(tmp_path) is None
    (tmp_path / "data" / "others").mkdir(parents=True)
    assert things.find(tmp_path / "data") == tmp_path / "data" / "others"
    assert things.find(tmp_path / "data" / "others") == tmp_path / "data" / "others"
    (tmp_path / "data" / "things").mkdir()
    assert things.find(tmp_path / "data") == tmp_path / "data" / "things"
    monkeypatch.setenv("TEPUI_DATA", str(tmp_path / "data"))
    assert things.find() == tmp_path / "data" / "things"
    monkeypatch.setenv("TEPUI_DATA", str(tmp_path / "nowhere"))
    assert things.find() == tmp_path
