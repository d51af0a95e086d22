"""The page in a real browser: all is drawn, nothing is fetched, keys reach all."""

import shutil
from itertools import pairwise

import pytest

from browser import CHROMIUM, browser
from legibility import CLIPPED, COLORS, contrast
from tepui.cli.main import main
from tepui.core.storage import read_document, write_document
from tepui.data import Digits, UniformNoise, corrupted
from tepui.methods import SAM, SharpBalance
from tepui.models import MLP
from tepui.report import write_report
from tepui.report.drawing import COLORS as HUES
from tepui.report.drawing import as_svg
from tepui.report.loading import load_reports
from tepui.report.page import POLICY
from tepui.studies import compare
from tepui.studies.results import Record, Results, write_results

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium"
)

# Every image that has no size, or is missing what it should show.
EMPTY = """[...document.querySelectorAll(
  'main > svg, .plot, .key, img')].filter(each => {
  if (!each.checkVisibility()) return false;
  const box = each.getBoundingClientRect();
  const blank = each.tagName == 'IMG' && !(each.complete && each.naturalWidth);
  return blank || box.width < 8 || box.height < 8;
}).length"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page of a comparison and a study."""
    root = tmp_path_factory.mktemp("browser")
    compared, study = str(root / "compared"), str(root / "study")
    test = Digits(train=False).subset(range(60))
    compare(
        [SAM(), SharpBalance()],
        lambda: MLP(hidden=(8,)),
        Digits().subset(range(96)),
        test,
        shifted=corrupted(test, types=("contrast", "fog"), severities=(1, 5)),
        ood={"noise": UniformNoise(num_samples=40, like=test)},
        sharpness={"num_samples": 10},
        members=2,
        ensembles=2,
        epochs=2,
        out=compared,
        progress="none",
    )
    write_study(root / "study")
    main(["report", compared, study, "--out", str(root / "page")])
    return root / "page/report.html"


@pytest.fixture(scope="module")
def tab():
    with browser() as opened:
        yield opened


def write_study(folder):
    import matplotlib.figure

    figure = matplotlib.figure.Figure()
    figure.add_subplot().plot([1, 2], color=HUES[0])
    names = {"dataset": "cifar10", "architecture": "resnet18", "method": "sam"}
    record = Record(item="x/figure1", **names, metric="m", value=1.0, unit="none", n=1)
    write_results(folder, Results("x/figure1", "a line", "smoke", {}, {}, (record,)))
    (folder / "figure.svg").write_text(as_svg(figure))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 768, 1400])
def test_everything_is_drawn_and_nothing_is_fetched(page, tab, width, scheme):
    tab.open(page, width, scheme)
    tab.value("document.querySelectorAll('details').forEach(e => e.open = true)")
    asked = [event["request"]["url"] for event in tab.told("Network.requestWillBeSent")]
    assert asked[0] == page.as_uri()
    assert all(url.startswith("data:") for url in asked[1:])
    assert tab.told("Runtime.exceptionThrown") == []
    assert tab.told("Log.entryAdded") == []
    shown = tab.value("document.querySelectorAll('.strip img').length")
    assert 6 <= shown <= 12
    assert tab.value("document.querySelectorAll('.paper img[alt]').length") == 1
    assert tab.value("document.querySelectorAll('svg.plot[role=img]').length") >= 8
    assert tab.value(EMPTY) == 0
    assert tab.value("document.documentElement.scrollWidth") <= width
    assert tab.value(CLIPPED) == []
    texts = tab.value(COLORS)
    assert len(texts) > 500
    light = [sum(back[:3]) > 600 for _, _, back in texts]
    assert (sum(light) > len(light) / 2) == (scheme == "light")
    worst = min(texts, key=lambda text: contrast(*text[1:]))
    assert contrast(*worst[1:]) >= 4.5, worst


def test_keys_reach_the_results_and_whatever_scrolls(page, tab):
    tab.open(page, 390)
    tab.press("Tab", 9)
    focused = "document.activeElement.getBoundingClientRect().left"
    assert tab.value("document.activeElement.className") == "skip"
    assert tab.value(focused) >= 0
    tab.press("Tab", 9)
    assert tab.value("document.activeElement.tagName") == "A"
    stuck = """[...document.querySelectorAll('*')].filter(each =>
      each.scrollWidth > each.clientWidth + 1 && each.tabIndex < 0 &&
      !each.querySelector('a') &&
      getComputedStyle(each).overflowX == 'auto').length"""
    assert tab.value(stuck) == 0
    broken = """[...document.querySelectorAll('a')].filter(each =>
      !document.querySelector(each.getAttribute('href'))).length"""
    assert tab.value(broken) == 0


def test_what_scrolls_says_so(page, tab):
    hinted = """[...document.querySelectorAll('.scroll')].filter(
      each => each.checkVisibility()).map(each =>
      [each.scrollWidth > each.clientWidth + 1,
       each.querySelector('.swipe').checkVisibility()])"""
    for width in (390, 1400):
        tab.open(page, width)
        found = tab.value(hinted)
        assert any(scrolls for scrolls, _ in found) == (width == 390)
        assert all(scrolls == hint for scrolls, hint in found)


def test_headings_descend_and_names_are_unique(page, tab):
    tab.open(page)
    levels = tab.value(
        "[...document.querySelectorAll('h1, h2, h3, h4, h5')].map(h => +h.tagName[1])"
    )
    assert levels[0] == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))
    names = tab.value("[...document.querySelectorAll('[id]')].map(each => each.id)")
    assert len(names) == len(set(names))
    silent = """[...document.querySelectorAll('[role=img]')].filter(each =>
      each.getAttribute('aria-label').length < 20).length"""
    assert tab.value(silent) == 0


def test_on_paper_there_is_no_navigation_and_all_settings_show(page, tab):
    tab.open(page, media="print", scheme="dark")
    assert (
        tab.value("getComputedStyle(document.querySelector('nav')).display") == "none"
    )
    texts = tab.value(COLORS)
    assert texts[0][2] == [255, 255, 255]
    assert contrast(*texts[0][1:]) > 4.5
    heights = """[...document.querySelectorAll('details > *')].map(each =>
      each.getBoundingClientRect().height)"""
    assert min(tab.value(heights)) > 10  # a line, at three quarters of its size
    assert tab.value(EMPTY) == 0


def test_what_a_picture_or_a_name_smuggles_in_stays_outside(page, tab, tmp_path):
    folder = tmp_path / "study"
    shutil.copytree(page.parent.parent / "study", folder)
    evil = (
        "<svg xmlns='http://www.w3.org/2000/svg' width='90' height='90'>"
        "<image href='http://example.org/a.png' width='9' height='9'/>"
        "<script>throw new Error('ran')</script><rect width='90' height='90'/></svg>"
    )
    (folder / "figure.svg").write_text(evil)
    document = read_document(folder / "results.json", "results")
    document["title"] = "<img src='http://example.org/b.png'><script>throw 1</script>"
    write_document(folder / "results.json", "results", document)
    tab.open(write_report(load_reports([folder]), tmp_path))
    asked = [event["request"]["url"] for event in tab.told("Network.requestWillBeSent")]
    assert [url for url in asked[1:] if not url.startswith("data:")] == []
    assert tab.told("Runtime.exceptionThrown") == []
    inside = "document.querySelectorAll('main img, main script, main image').length"
    assert tab.value(inside) == 1  # the picture, of which nothing is part of the page
    assert tab.value(EMPTY) == 0


def test_the_checks_notice_what_they_look_for(page, tab, tmp_path):
    text = page.read_text()
    assert POLICY in text
    bad = "<img src='http://example.org/c.png' alt=''><svg width='0' height='0'></svg>"
    file = tmp_path / "bad.html"
    file.write_text(text.replace("</main>", f"{bad}<script>throw 1</script></main>"))
    tab.open(file)
    assert tab.value(EMPTY) == 2
    refused = [event["entry"]["text"] for event in tab.told("Log.entryAdded")]
    assert len(refused) == 2  # the policy lets neither the image nor the script in
    file.write_text(file.read_text().replace(POLICY, ""))
    tab.open(file)
    assert len(tab.told("Runtime.exceptionThrown")) == 1
    asked = [event["request"]["url"] for event in tab.told("Network.requestWillBeSent")]
    assert "http://example.org/c.png" in asked


def test_the_answers_take_at_most_four_screens(page, tab):
    tab.open(page, 1400)
    end = "document.querySelector('.folded').getBoundingClientRect().top + scrollY"
    assert tab.value(end) < 4 * 900
