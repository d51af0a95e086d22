"""Photographs the figures of a report in Chromium, for the documents.

Usage: PYTHONPATH=src:tests python docs/images/draw_report.py RUN
"""

import base64
import io
import sys
import tempfile
from pathlib import Path

from PIL import Image

from browser import browser
from tepui.report import write_report
from tepui.report.loading import load_reports

HERE = Path(__file__).parent
WIDTH, SCALE, MARGIN, COLORS = 1000, 2, 8, 256
RARE_TOO = Image.Quantize.MAXCOVERAGE
TRUST = "when-can-it-be-trusted"
# Which figure of which section, counted from 0; the first question is shown whole.
FIGURES = {
    "report": ("is-the-ensemble-better-than-one-network", None),
    "trust": (TRUST, 0),
    "samples": (TRUST, 1),
}
PLACE = """(() => {{
  const section = document.getElementById('{section}').closest('section');
  const figures = section.querySelectorAll('figure');
  const each = {figure} === null ? section : figures[{figure}];
  const box = each.getBoundingClientRect();
  return [box.left + scrollX, box.top + scrollY, box.width, box.height];
}})()"""


def main(run):
    with tempfile.TemporaryDirectory() as folder, browser() as tab:
        tab.call("Emulation.setScrollbarsHidden", hidden=True)
        tab.open(write_report(load_reports([run]), folder), WIDTH)
        for name, (section, figure) in FIGURES.items():
            number = "null" if figure is None else figure
            place = PLACE.format(section=section, figure=number)
            left, top, width, height = tab.value(place)
            clip = {
                "x": left - MARGIN,
                "y": top - MARGIN,
                "width": width + 2 * MARGIN,
                "height": height + 2 * MARGIN,
                "scale": SCALE,
            }
            shot = tab.call(
                "Page.captureScreenshot", captureBeyondViewport=True, clip=clip
            )
            with Image.open(io.BytesIO(base64.b64decode(shot["data"]))) as image:
                few = image.convert("RGB").quantize(COLORS, RARE_TOO, 1)
                few.save(HERE / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main(sys.argv[1])
