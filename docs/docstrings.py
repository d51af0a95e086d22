"""Docstrings for the site: mathematics as MathML, examples as code to copy.

mkdocstrings loads this while it reads the package. Browsers draw MathML by themselves,
so that no page fetches a script for it.
"""

import html
import re

import griffe
from latex2mathml.converter import convert

INLINE = re.compile(r":math:`([^`]+)`")
BLOCK = re.compile(r"^( *)\.\. math::(.*(?:\n(?:\1 +.*)?)*?)(?=\n\s*\n|\Z)", re.M)
SIZE = re.compile(r"\\[bB]igg?[lr]?(?=\W)")
ROLE = re.compile(r":[a-z]+:`~?([^`]+)`")
EXAMPLE = re.compile(r"^( *)Example:$", re.M)


def for_the_site(docstring):
    """Return a docstring as Markdown in Google's style."""
    docstring = BLOCK.sub(_block, docstring)
    docstring = INLINE.sub(_inline, docstring)
    docstring = ROLE.sub(r"`\1`", docstring)
    return EXAMPLE.sub(r"\1Examples:", docstring)


def as_mathml(latex, display):
    """Return one line of MathML, without a colon, which would part it in a list."""
    known = SIZE.sub("", latex).replace(r"\arg", r"\operatorname{arg}")
    text = convert(" ".join(known.split()), display=display)
    text = text.replace(' xmlns="http://www.w3.org/1998/Math/MathML"', "")
    return re.sub(r"&#x(\w+);", _character, text)


def _block(found):
    return f"{found[1]}{as_mathml(found[2], 'block')}"


def _inline(found):
    # In a span, since Markdown takes <math> at the start of a line for a paragraph.
    return f"<span>{as_mathml(found[1], 'inline')}</span>"


def _character(found):
    character = chr(int(found[1], 16))
    return f"&#{ord(character)};" if character in ":*_`\\|" else html.escape(character)


class Docstrings(griffe.Extension):
    """Rewrites every docstring once, when its object is read."""

    def on_instance(self, *, obj, **_):
        """Rewrite the docstring of a module, class, function or attribute."""
        if obj.docstring:
            obj.docstring.value = for_the_site(obj.docstring.value)
