"""Pieces of HTML from the templates beside this file, which escape every string."""

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from io import StringIO
from typing import TYPE_CHECKING, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tepui.report.drawing import GRID, STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Drawing:
    """A figure of a page."""

    name: str  # names its files
    alt: str  # what it shows, for those who cannot see it
    caption: str  # how to read it
    figure: "Figure"  # the figure


class TableCell(NamedTuple):
    """A cell of a table."""

    text: str  # what it says
    best: bool = False  # whether it is set off as the best of its column
    color: str = ""  # its background, as CSS; none if empty
    edge: bool = False  # whether a group of columns begins with it


@cache
def templates() -> Environment:
    """Return what finds and fills the templates."""
    return Environment(
        loader=PackageLoader("tepui.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def part(name: str, *values: object) -> Markup:
    """Return a piece of a page by the name of its macro in ``parts.html.j2``."""
    piece: Markup = getattr(templates().get_template("parts.html.j2").module, name)(
        *values
    )
    return piece


def table(
    caption: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[str | TableCell]],
    *,
    words: int = 1,
    above: Sequence[tuple[str, int]] = (),
    kind: str = "",
) -> Markup:
    """Return a table that can be scrolled sideways, with the keyboard too."""
    cells = [
        [cell if isinstance(cell, TableCell) else TableCell(cell) for cell in row]
        for row in rows
    ]
    return part("table", caption, headings, cells, words, above, kind)


def definitions(items: Mapping[str, object]) -> Markup:
    """Return a list of names with their meanings or values."""
    return part("definitions", items)


def paragraph(text: str, kind: str = "") -> Markup:
    """Return a paragraph, of a CSS class if one is named."""
    return part("paragraph", text, kind)


def drawn(drawing: Drawing) -> Markup:
    """Return a drawing as part of the page, in the page's colors."""
    svg = Markup(inline_svg(drawing.figure, drawing.name))
    return part("figure", svg, drawing.alt, drawing.caption)


def picture(svg: str, alt: str, caption: str) -> Markup:
    """Return an SVG document from a file, in which nothing can run or be fetched."""
    code = base64.b64encode(svg.encode()).decode("ascii")
    return part("figure", part("image", "svg+xml", code), alt, caption)


def inline_svg(figure: "Figure", name: str) -> str:
    """Return a figure as an SVG element in the colors of the page around it.

    Backgrounds are left out, black becomes the color of text, and identifiers begin
    with the figure's name, since a page has several figures.
    """
    import matplotlib as mpl

    buffer = StringIO()
    with mpl.rc_context(STYLE):
        figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    safe = re.sub(r"[^A-Za-z0-9-]", "-", name)
    text = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{safe}-", text)
    return text.replace("#000000", "currentColor").replace(GRID, "var(--grid)")
