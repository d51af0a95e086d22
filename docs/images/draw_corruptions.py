"""Draws one photograph under every corruption and severity: ``corruptions.png``.

Usage: PYTHONPATH=src python docs/images/draw_corruptions.py
"""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch

from tepui.data import CORRUPTIONS, corrupt

mpl.use("agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
FIXTURE = HERE.parents[1] / "tests" / "data" / "fixtures" / "imagecorruptions.npz"
COLUMNS, ROWS, SEVERITIES = 2, 10, 5


def main():
    with np.load(FIXTURE, allow_pickle=False) as recorded:
        image = torch.from_numpy(recorded["images"][1:2]).permute(0, 3, 1, 2)
    figure, axes = plt.subplots(
        ROWS, COLUMNS * (SEVERITIES + 1), figsize=(10, 8.6), layout="constrained"
    )
    for axis in axes.flat:
        axis.axis("off")
    for number, name in enumerate(CORRUPTIONS):
        block, row = divmod(number, ROWS)
        line = axes[row, block * (SEVERITIES + 1) : (block + 1) * (SEVERITIES + 1)]
        line[0].text(1, 0.5, name.replace("_", "\n"), ha="right", va="center", size=9)
        for severity, axis in enumerate(line[1:], start=1):
            changed = corrupt(image, name, severity, strength="tiny_imagenet")
            axis.imshow(changed[0].permute(1, 2, 0))
            if row == 0:
                axis.set_title(str(severity), size=9)
    axes[-1, -1].imshow(image[0].permute(1, 2, 0))
    axes[-1, -2].text(1, 0.5, "clean", ha="right", va="center", size=9)
    figure.savefig(HERE / "corruptions.png", dpi=80)


if __name__ == "__main__":
    main()
