"""The samples on which members agree and differ most, as pictures."""

from pathlib import Path

from markupsafe import Markup

from tepui.evaluation.gallery import read_gallery
from tepui.report.comparison import Comparison
from tepui.report.markup import figure, part
from tepui.report.shapes import look


def gallery_figure(comparison: Comparison) -> Markup | None:
    """Return the pictures of each method's first ensemble; None without any."""
    strips = []
    for place, method in enumerate(comparison.methods):
        for found in read_gallery(Path(method.ensembles[0].folder)):
            data = "test samples" if found.data is None else found.data
            sides = {"lowest PDS": found.lowest, "highest PDS": found.highest}
            for side, pictures in sides.items():
                where = f"ensemble 1: {data}, {side}"
                own = look(place)
                strips.append(part("strip", method.label, own, where, data, pictures))
    if not strips:
        return None
    caption = (
        "The samples to which members give the most similar (lowest PDS) and the most "
        "different predictions (highest PDS), in each method's first ensemble: the "
        "true class where it is known, what every member says, and the PDS."
    )
    return figure("Where members agree and differ", caption, *strips)
