"""Pieces of HTML from the templates beside this file, which escape every string."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tepui.core.text import printable
from tepui.report.shapes import FORMS, Look, Panel, Plot


class TableCell(NamedTuple):
    """A cell of a table."""

    text: str  # what it says
    small: str = ""  # what stands below it
    shade: float | None = None  # percent of its background's strongest color
    hue: str = ""  # the CSS class of that color


class Multiple(NamedTuple):
    """One of several pictures of the same kind; a method's, or of some data."""

    title: str
    plot: Plot
    look: Look | None = None  # of the method
    sub: str = ""  # a line below the title


def _finalize(value: object) -> object:
    return printable(value, lines=True) if type(value) is str else value


@cache
def templates() -> Environment:
    """Return what finds and fills the templates."""
    made = Environment(
        loader=PackageLoader("tepui.report"),
        autoescape=True,
        finalize=_finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["forms"] = range(FORMS)
    return made


def part(name: str, *values: object) -> Markup:
    """Return a piece of a page by the name of its macro in ``parts.html.j2``."""
    piece: Markup = getattr(templates().get_template("parts.html.j2").module, name)(
        *values
    )
    return piece


def figure(title: str, caption: str, *body: Markup) -> Markup:
    """Return pictures with a title and how to read them."""
    return part("figure", title, caption, body)


def row_panels(panels: Iterable[Panel]) -> Markup:
    """Return rows of methods in panels, one below the other."""
    return part("panels", list(panels))


def multiples(items: Iterable[Multiple]) -> Markup:
    """Return small pictures side by side; on a phone they lie below each other."""
    return part("multiples", list(items))


def table(
    caption: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[str | TableCell]],
    *,
    words: int = 1,
) -> Markup:
    """Return a table that can be scrolled sideways, with the keyboard too."""
    return grouped_table(caption, headings, {"": rows}, words=words)


def grouped_table(
    caption: str,
    headings: Sequence[str],
    groups: Mapping[str, Iterable[Sequence[str | TableCell]]],
    *,
    words: int = 1,
) -> Markup:
    """Return a table whose rows stand below the names of their groups."""
    bodies = {name: list(map(cells_of, rows)) for name, rows in groups.items()}
    return part("table", caption, headings, bodies, words)


def definitions(items: Mapping[str, object]) -> Markup:
    """Return a list of names with their meanings or values."""
    return part("definitions", items)


def folded(title: str, *body: Markup) -> Markup:
    """Return what opens when its title is chosen."""
    return part("folded", title, body)


def paragraph(text: str, kind: str = "") -> Markup:
    """Return a paragraph, of a CSS class if one is named."""
    return part("paragraph", text, kind)


def lead(text: str) -> Markup:
    """Return the sentence with which a section begins."""
    return paragraph(text, "lead")


def note(text: str) -> Markup:
    """Return a remark below a table."""
    return paragraph(text, "note")


def cells_of(row: Sequence[str | TableCell]) -> list[TableCell]:
    """Return a row of a table, whose plain texts are cells, too."""
    return [cell if isinstance(cell, TableCell) else TableCell(cell) for cell in row]
