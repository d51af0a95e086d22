"""The built site in a real browser: nothing is fetched, cut or hard to read."""

import importlib.util
import subprocess
import sys
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from browser import CHROMIUM, browser
from legibility import CLIPPED, COLORS, contrast

ROOT = Path(__file__).parents[1]
PAGES = ("", "does_it_help/", "tutorial/five_minutes/", "glossary/", "reference/optim/")
SCHEMES = {"light": "default", "dark": "slate"}  # what the theme calls them
NEEDED = ("material", "mkdocstrings")
SCHEME = "document.body.dataset.mdColorScheme"

pytestmark = [
    pytest.mark.skipif(
        CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"
    ),
    pytest.mark.skipif(
        not all(map(importlib.util.find_spec, NEEDED)),
        reason='what builds the site is not installed: pip install ".[docs]"',
    ),
]


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and says nothing of it."""

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    subprocess.run([*build, "--site-dir", str(made)], cwd=ROOT, check=True)
    return made


@pytest.fixture(scope="module")
def address(folder):
    handler = partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def tab():
    with browser() as opened:
        yield opened


def test_scripts_and_numbers_are_not_published(folder):
    kept = {
        str(file.relative_to(folder))
        for kind in ("py", "json", "csv")
        for file in folder.rglob(f"*.{kind}")
    }
    shown = {f"examples/{file.name}" for file in (ROOT / "docs/examples").glob("*.py")}
    assert kept == shown | {"search/search_index.json"}


def wait_for(tab, expression, value):
    """Wait until the page's own scripts have done their work."""
    for _ in range(200):
        if tab.value(expression) == value:
            return
        time.sleep(0.05)
    assert tab.value(expression) == value


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", [390, 768, 1400])
@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_whole_and_legible(address, tab, page, width, scheme):
    tab.open(address + page, width, scheme)
    wait_for(tab, SCHEME, SCHEMES[scheme])
    asked = [event["request"]["url"] for event in tab.told("Network.requestWillBeSent")]
    assert [url for url in asked if not url.startswith((address, "data:"))] == []
    assert tab.told("Runtime.exceptionThrown") == []
    assert tab.told("Log.entryAdded") == []
    assert tab.value("document.documentElement.scrollWidth") <= width
    assert tab.value(CLIPPED) == []
    texts = tab.value(COLORS)
    assert len(texts) > 50
    light = [sum(back) > 600 for _, _, back in texts]
    assert (sum(light) > len(light) / 2) == (scheme == "light")
    worst = min(texts, key=lambda text: contrast(*text[1:]))
    assert contrast(*worst[1:]) >= 4.5, worst
