"""The built site in a real browser: nothing is fetched, cut or hard to read."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from browser import CHROMIUM, browser
from legibility import CLIPPED, COLORS, contrast

ROOT = Path(__file__).parents[1]
PAGES = ("index", "does_it_help", "sam_everywhere", "glossary", "reference/optim")
WIDTHS, SCHEMES = (390, 768, 1400), ("light", "dark")

pytestmark = [
    pytest.mark.skipif(
        CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"
    ),
    pytest.mark.skipif(
        any(map(lambda name: importlib.util.find_spec(name) is None, ("material", "mkdocstrings"))),
        reason='what builds the site is not installed: pip install ".[docs]"',
    ),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    subprocess.run([*build, "--site-dir", str(folder)], cwd=ROOT, check=True)
    return folder


@pytest.fixture(scope="module")
def tab():
    with browser() as opened:
        yield opened


def test_scripts_and_numbers_are_not_published(site):
    kept = {
        str(file.relative_to(site))
        for kind in ("py", "json", "csv")
        for file in site.rglob(f"*.{kind}")
    }
    examples = {f"examples/{file.name}" for file in (ROOT / "docs/examples").glob("*.py")}
    assert kept == examples


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_whole_and_legible(site, tab, page, width, scheme):
    tab.open(site / f"{page}.html", width, scheme)
    asked = [event["request"]["url"] for event in tab.told("Network.requestWillBeSent")]
    outside = [url for url in asked if not url.startswith((site.as_uri(), "data:"))]
    assert outside == []
    assert tab.told("Runtime.exceptionThrown") == []
    assert tab.told("Log.entryAdded") == []
    assert tab.value("document.documentElement.scrollWidth") <= width
    assert tab.value(CLIPPED) == []
    texts = tab.value(COLORS)
    assert len(texts) > 50
    assert {scheme} == {"light" if sum(back[:3]) > 600 else "dark" for _, _, back in texts[-1:]}
    worst = min(texts, key=lambda text: contrast(*text[1:]))
    assert contrast(*worst[1:]) >= 4.5, worst
