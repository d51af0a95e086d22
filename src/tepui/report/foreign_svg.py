"""A drawing from a file inside a page: shapes and words pass, nothing that acts.

What is not listed here is left out: scripts, links, styles of a whole page, files from
elsewhere. Names get a prefix, so that two drawings do not point at each other's parts.
"""

import re
from xml.etree.ElementTree import Element, ParseError, fromstring, tostring

from markupsafe import Markup

TAGS = re.compile(
    "svg|g|defs|clipPath|path|rect|circle|ellipse|line|polyline|polygon|text|tspan|use|"
    "image|linearGradient|stop|pattern"
)
# How a shape is drawn, as an attribute or within a style.
STYLES = re.compile(
    "(fill|stroke|font|opacity|text-anchor|stop)(-[a-z]+)*|display|visibility|color|"
    "clip-(path|rule)|(image|shape)-rendering|dominant-baseline"
)
ATTRIBUTES = re.compile(
    "id|href|style|d|[xyr]|[xy][12]|[crd][xy]|width|height|points|viewBox|transform|"
    "preserveAspectRatio|offset|gradientUnits|gradientTransform|"
    f"pattern((Content)?Units|Transform)|{STYLES.pattern}"
)
POINTER = re.compile(r"""url\(\s*(["']?)#([^()'"\\\s]+)\1\s*\)""", re.IGNORECASE)
# Besides words and numbers: texts, colors and movements, parts of the same drawing.
SHAPES = re.compile(
    r"""'[^'\\\n]*'|"[^"\\\n]*"|"""
    r"\b(?:rgba?|hsla?|matrix|translate|scale|rotate|skew[XY])\([\w\s.,%/+-]*\)|"
    f"(?i:{POINTER.pattern})"
)
PLAIN = re.compile(r"[\w\s.,%/#+-]*(!\s*important\s*)?")
DECLARATION = re.compile(r"""(?:[^;'"]|'[^']*'|"[^"]*")+""")
PICTURE = "data:image/png;base64,"


def inlined(svg: str, name: str, said: str) -> Markup | None:
    """Return a drawing as an element of a page; None where it is no SVG document.

    Args:
        svg: The document.
        name: Begins all names within it.
        said: What it shows, in words.

    Returns:
        The element.
    """
    try:
        drawn = _cleaned(fromstring(svg), f"{name}-")
        drawn.attrib |= {"role": "img", "aria-label": said}
        text = tostring(drawn, encoding="unicode")
    except (ParseError, RecursionError):
        return None
    return Markup(text) if drawn.tag == "svg" else None


def _cleaned(given: Element, prefix: str) -> Element:
    """Return an element with what may pass of its attributes and its children."""
    made = Element(_local(given.tag))
    made.text, made.tail = given.text, given.tail
    for key, value in given.items():
        kept = _value(_local(key), value, prefix)
        if kept is not None:
            made.set(_local(key), kept)
    for child in given:
        if TAGS.fullmatch(_local(child.tag)):
            made.append(_cleaned(child, prefix))
        elif len(made):
            made[-1].tail = (made[-1].tail or "") + (child.tail or "")
        else:
            made.text = (made.text or "") + (child.tail or "")
    return made


def _local(name: str) -> str:
    """Return a name without its namespace."""
    return name.rpartition("}")[2]


def _value(key: str, value: str, prefix: str) -> str | None:
    """Return an attribute as it may stand on the page; None where it may not."""
    if not ATTRIBUTES.fullmatch(key):
        return None
    if key == "id":
        return prefix + value
    if key == "href":
        inside = f"#{prefix}{value[1:]}" if value.startswith("#") else None
        return value if value.startswith(PICTURE) else inside
    if key == "style":
        return "; ".join(_declarations(value, prefix))
    return _drawn(value, prefix)


def _drawn(value: str, prefix: str) -> str | None:
    """Return how a shape is drawn; None where it is written in another way than known.

    What is left must not call anything, nor hide a call behind a backslash.
    """
    if not PLAIN.fullmatch(SHAPES.sub(" ", value)):
        return None
    return POINTER.sub(rf"url(#{prefix}\2)", value)


def _declarations(style: str, prefix: str) -> list[str]:
    """Return those of a style that say how a shape is drawn."""
    found = []
    for declaration in DECLARATION.findall(style):
        key, _, value = (part.strip() for part in declaration.partition(":"))
        kept = _drawn(value, prefix) if STYLES.fullmatch(key) else None
        if kept is not None:
            found.append(f"{key}: {kept}")
    return found
