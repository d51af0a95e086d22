"""Drawings from files: what draws passes, what acts or reaches out does not."""

import re
from xml.etree.ElementTree import fromstring

import matplotlib.figure
import pytest
from hypothesis import given
from hypothesis import strategies as some

from tepui.report.drawing import as_svg
from tepui.report.foreign_svg import _drawn, inlined

HEAD = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'


def passed(inner):
    """Return what is left of a drawing's inside."""
    found = inlined(f"{HEAD}{inner}</svg>", "one", "a drawing")
    return re.fullmatch(
        r'<svg role="img" aria-label="a drawing"(?: />|>(.*)</svg>)', found
    )[1]


@pytest.mark.parametrize(
    "evil",
    [
        "<script>alert(1)</script>",
        "<SCRIPT>alert(1)</SCRIPT>",
        "<style>* { color: red }</style>",
        "<foreignObject><p>text</p></foreignObject>",
        '<a href="javascript:alert(1)"><rect /></a>',
        "<metadata>who made it</metadata>",
        "<animate attributeName='href' to='javascript:alert(1)'/>",
    ],
)
def test_what_acts_is_left_out(evil):
    assert passed(evil) is None
    assert passed(f"<g>{evil}</g>") == "<g />"


@pytest.mark.parametrize(
    "evil",
    [
        'onload="alert(1)"',
        'href="http://example.org/a.svg#b"',
        'xlink:href="javascript:alert(1)"',
        'class="swipe"',
        'fill="url(http://example.org/a)"',
        'fill="URL(http://example.org/a)"',
        'fill="url(#a) url(http://example.org/a)"',
        r'fill="u\72l(http://example.org/a)"',
        r'fill="\75rl(//example.org/a)"',
        r'clip-path="u\72 l(http://example.org/a#b)"',
        "fill=\"image-set('http://example.org/a' 1x)\"",
        'fill="url(&quot;http://example.org/a&quot;)"',
        "fill=\"'a' url(http://example.org/a) 'b'\"",
        'fill="src(http://example.org/a)"',
        'stroke="var(--page)"',
    ],
)
def test_attributes_that_reach_out_are_left_out(evil):
    assert passed(f"<rect {evil} />") == "<rect />"


def test_of_a_style_only_how_a_shape_is_drawn_is_kept():
    style = (
        "fill: #fff; stroke-width:2 ; position: fixed; stroke: url(//example.org); "
        "font-size: 9px; behavior: url(a)"
    )
    kept = "fill: #fff; stroke-width: 2; font-size: 9px"
    assert passed(f'<path style="{style}" />') == f'<path style="{kept}" />'


def test_pictures_inside_pass_and_words_stay_words():
    image = '<image href="data:image/png;base64,AAAA" />'
    assert passed(image) == image
    assert passed("<image href='data:text/html,evil'/>") == "<image />"
    assert (
        passed("<text>1 &lt; 2 &amp; <b/>3</text>") == "<text>1 &lt; 2 &amp; 3</text>"
    )
    dropped = "<text>a<title>b</title>c<tspan>d</tspan>e<title>f</title>g</text>"
    assert passed(dropped) == "<text>ac<tspan>d</tspan>eg</text>"


def test_what_a_style_hides_behind_escapes_and_functions_is_left_out():
    style = r"fill: u\72l(http://example.org/a); stroke: image-set('//example.org' 1x)"
    assert (
        passed(f'<path style="{style}; opacity: 1" />') == '<path style="opacity: 1" />'
    )


def test_how_shapes_are_drawn_passes_as_attributes():
    given = (
        '<rect stroke-width="3" fill-opacity="0.1" fill-rule="evenodd" display="none" '
        'visibility="hidden" fill="rgba(1, 2, 3, 50%)" stroke-dasharray="5.5,2.4" '
        'transform="translate(1e-3 -2) rotate(30)" />'
    )
    assert passed(given) == given
    hidden = '<rect style="fill: red; display: none" />'
    assert passed(hidden) == hidden


def test_parts_are_pointed_at_with_and_without_quotes():
    for quote in ("", "'", "&quot;"):
        pointed = f'<rect style="fill: url({quote}#h{quote})" />'
        assert passed(pointed) == '<rect style="fill: url(#one-h)" />'


def test_a_semicolon_within_quotes_ends_no_declaration():
    style = "font-family: 'a;b', serif; fill: red"
    assert passed(f'<text style="{style}" />') == f'<text style="{style}" />'


@given(some.text("url(\\72'\"#;:)/ae,-*!\n", max_size=40))
def test_no_value_calls_what_is_not_listed(value):
    kept = _drawn(value, "one-")
    if kept is not None:
        bare = re.sub("'[^']*'|\"[^\"]*\"", "", kept)
        assert "\\" not in kept
        assert bare.count("(") == len(re.findall(r"url\(#one-[^()]+\)", bare))


def test_hatches_of_matplotlib_are_kept():
    figure = matplotlib.figure.Figure()
    figure.add_subplot().bar([1, 2], [3, 4], hatch="//")
    drawn = inlined(as_svg(figure), "one", "bars")
    (name,) = re.findall(
        '<pattern id="(one-[^"]*)" patternUnits="userSpaceOnUse"', drawn
    )
    assert drawn.count(f"fill: url(#{name})") >= 2


@pytest.mark.slow
@given(some.text())
def test_whatever_is_no_drawing_is_refused(text):
    assert inlined(text, "one", "a drawing") is None
    assert inlined("<html><body/></html>", "one", "a drawing") is None
    assert inlined("<g>" * 5000 + "</g>" * 5000, "one", "a drawing") is None


def test_two_figures_of_matplotlib_are_whole_and_point_at_their_own_parts():
    figure = matplotlib.figure.Figure()
    axes = figure.add_subplot(title="a < b")
    axes.plot([1, 2, 3], marker="o")
    axes.imshow([[1, 2], [3, 4]])
    given = as_svg(figure)
    both = [inlined(given, name, "a line, made up") for name in ("one", "two")]
    names = [set(re.findall(' id="([^"]*)"', drawn)) for drawn in both]
    assert not names[0] & names[1]
    for own, drawn in zip(names, both, strict=True):
        pointed = re.findall(r'href="#([^"]*)"|url\(#([^)]*)\)', drawn)
        assert {one or other for one, other in pointed} <= own
        assert len(pointed) > 10
        for tag in ("path", "text", "use", "image", "clipPath"):
            assert drawn.count(f"<{tag}") == given.count(f"<{tag}") > 0
        assert "a &lt; b" in drawn
        fromstring(drawn)
