"""The built site in a real browser: nothing is fetched, cut or hard to read."""

import importlib
import importlib.util
import re
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
FORMULA = re.compile(r"<math.*?</math>", re.S)
SCHEMES = {"light": "default", "dark": "slate"}  # what the theme calls them
NEEDED = ("latex2mathml", "material", "mkdocstrings")
SCHEME = "document.body.dataset.mdColorScheme"

pytestmark = [
    pytest.mark.slow,
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
    script = [sys.executable, "docs/make_results.py"]
    subprocess.run(script, cwd=ROOT, check=True)
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


def test_docstrings_are_drawn_and_not_shown_as_they_are_written(folder):
    for file in folder.glob("reference/*/index.html"):
        page = file.read_text()
        assert (
            re.findall(r":\w+:\s?<code>|\.\. math|<summary>Example</summary>", page)
            == []
        )
        assert [each for each in FORMULA.findall(page) if "\\" in each] == []
    sam = (folder / "reference/optim/index.html").read_text()
    assert len(FORMULA.findall(sam)) > 3
    assert "<p>SAM looks for weights" in sam
    assert re.search(
        r"With the gradient\s<span><math.*?</math></span>, one step is", sam
    )
    assert "<td>" not in sam


def wait_for(tab, expression, value):
    """Wait until the page's own scripts have done their work."""
    last = time.monotonic() + 120
    while (found := tab.value(expression)) != value:
        assert time.monotonic() < last, found
        time.sleep(0.05)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", [390, 1400])
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


def test_what_scrolls_says_so(address, tab):
    hinted = """[...document.querySelectorAll('.md-typeset__scrollwrap')].map(each =>
      [each.scrollWidth > each.clientWidth + 1,
       getComputedStyle(each, '::after').display != 'none'])"""
    text = (ROOT / "docs" / "does_it_help.md").read_text("utf-8")
    tables = sum(line.startswith("|-") for line in text.splitlines())
    for width in (390, 1400):
        tab.open(f"{address}does_it_help/", width)
        wait_for(tab, f"{hinted}.length", tables)
        found = tab.value(hinted)
        assert any(scrolls for scrolls, _ in found) == (width == 390)
        assert all(scrolls == hint for scrolls, hint in found)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_home_shows_the_picture_of_its_scheme(address, tab, scheme):
    tab.open(address, 390, scheme)
    wait_for(tab, SCHEME, SCHEMES[scheme])
    shown = tab.value(
        "[...document.querySelectorAll('article img')].filter("
        "each => each.checkVisibility()).map(each => each.getAttribute('src'))"
    )
    dark = "-dark" if scheme == "dark" else ""
    assert shown == [f"images/price{dark}.svg#only-{scheme}"]


def test_intervals_stay_on_a_line_and_code_as_it_is(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    made = importlib.import_module("unbroken").on_page_content(
        "<p>-0.07 to 0.20, 97 to 100, (1.5 to 2)</p><pre>1 to 2</pre><p>3 to be</p>"
    )
    assert made.replace("\u00a0", "_") == (
        "<p>-0.07_to_0.20, 97_to_100, (1.5_to_2)</p><pre>1 to 2</pre><p>3 to be</p>"
    )
