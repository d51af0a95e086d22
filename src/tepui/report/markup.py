"""Pieces of HTML, in which every string is escaped."""

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, NamedTuple

from tepui.report.figures import GRID, STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Drawing:
    """A figure of a page.

    Attributes:
        name: Names its files.
        alt: What it shows, for those who cannot see it.
        caption: How to read it.
        figure: The figure.
    """

    name: str
    alt: str
    caption: str
    figure: "Figure"


class Cell(NamedTuple):
    """A cell of a table.

    Attributes:
        text: What it says.
        best: Whether it is set off as the best of its column.
        color: Its background, as CSS; none if empty.
        edge: Whether a group of columns begins with it.
    """

    text: str
    best: bool = False
    color: str = ""
    edge: bool = False


def table(
    caption: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[str | Cell]],
    *,
    words: int = 1,
    above: Sequence[tuple[str, int]] = (),
    kind: str = "",
) -> str:
    """Return a table that can be scrolled sideways, with the keyboard too."""
    head = "".join(
        f'<th scope="col"{_class("word" * (column < words))}>{escape(text)}</th>'
        for column, text in enumerate(headings)
    )
    over = "".join(
        f'<th scope="colgroup" colspan="{span}">{escape(text)}</th>'
        for text, span in above
    )
    if over:
        over = f'<tr class="above"><td colspan="{words}"></td>{over}</tr>'
    lines, last = [], None
    for row in rows:
        cells = [each if isinstance(each, Cell) else Cell(each) for each in row]
        start = ' class="first"' if words > 1 and cells[0].text != last else ""
        last = cells[0].text
        inside = "".join(_cell(n, each, words) for n, each in enumerate(cells))
        lines.append(f"<tr{start}>{inside}</tr>")
    body = "\n".join(lines)
    label = escape(caption, quote=True)
    return (
        f'<div class="scroll" role="region" aria-label="{label}" tabindex="0">'
        f"<table{_class(kind)}><caption>{escape(caption)}</caption>"
        f"<thead>{over}<tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def definitions(items: Mapping[str, object]) -> str:
    """Return names with what they mean or hold."""
    rows = "".join(
        f"<dt>{escape(str(name))}</dt><dd>{escape(str(value))}</dd>"
        for name, value in items.items()
    )
    return f"<dl>{rows}</dl>"


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph, of a CSS class if one is named."""
    return f"<p{_class(kind)}>{escape(text)}</p>"


def drawn(drawing: Drawing) -> str:
    """Return a drawing as part of the page, in the page's colors."""
    svg = inline_svg(drawing.figure, drawing.name)
    return framed(svg, drawing.alt, drawing.caption)


def picture(svg: str, alt: str, caption: str) -> str:
    """Return an SVG document from a file, in which nothing can run or be fetched."""
    code = base64.b64encode(svg.encode()).decode("ascii")
    image = f'<img alt="" src="data:image/svg+xml;base64,{code}">'
    return framed(image, alt, caption)


def framed(image: str, alt: str, caption: str) -> str:
    """Return an image with its description and its caption."""
    label = escape(alt, quote=True)
    return (
        '<figure><div class="scroll" role="region" aria-label="figure" tabindex="0">'
        f'<div role="img" aria-label="{label}">{image}</div></div>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


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


def _cell(column: int, cell: Cell, words: int) -> str:
    text = escape(cell.text)
    text = f"<strong>{text}</strong>" if cell.best else text
    tag = 'th scope="row"' if column < words else "td"
    kinds = ["word"] * (column < words) + ["edge"] * cell.edge
    style = f' style="background: {cell.color}"' if cell.color else ""
    return f"<{tag}{_class(' '.join(kinds))}{style}>{text}</{tag[:2]}>"


def _class(kind: str) -> str:
    return f' class="{escape(kind, quote=True)}"' if kind else ""
