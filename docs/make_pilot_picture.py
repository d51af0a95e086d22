"""Draw the CIFAR-10 pilot from its result files and print its table.

PYTHONPATH=src python3 docs/make_pilot_picture.py
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt

from tepui.report.drawing import COLORS, MARKERS, STYLE

HERE = Path(__file__).parent
RULES = {
    "deep_ensemble": "deep ensemble",
    "sam": "SAM",
    "sharpbalance_paper": "SharpBalance, paper",
    "sharpbalance_released": "SharpBalance, released",
    "sharpbalance_random": "SharpBalance, random sets",
}
PERCENT = dict.fromkeys(("individual_accuracy", "accuracy", "improvement"), (100, 2))
SHOWN = {**PERCENT, "der": (1, 3), "ece": (100, 2), "nll": (1, 3)}  # factor, digits


def main() -> None:
    folder = HERE / "results" / "cifar10_pilot"
    found = {
        label: json.loads((folder / f"{name}.json").read_text())
        for name, label in RULES.items()
    }
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
        names = "accuracy of the ensemble in %", "disagreement over error (DER)"
        for axis, key, name in zip(axes, ("accuracy", "der"), names, strict=True):
            looks = zip(found.items(), COLORS, MARKERS, strict=False)
            for (label, result), color, marker in looks:
                levels = {0: result["clean"], **result["severities"]}
                values = [SHOWN[key][0] * scores[key] for scores in levels.values()]
                style = {"color": color, "marker": marker}
                axis.plot([*map(int, levels)], values, label=label, **style)
            axis.set_ylabel(name)
            axis.set_xlabel("severity of the corruption (0: clean)")
            axis.set_xticks([0, 1, 3, 5])
        below = {"loc": "outside lower center", "ncols": 3, "frameon": False}
        figure.legend(*axes[0].get_legend_handles_labels(), **below)
        figure.savefig(HERE / "images" / "cifar10_pilot.png", dpi=110)
    for data, name in (("clean", "clean"), ("shifted", "corrupted")):
        for label, result in found.items():
            cells = [f"{s * result[data][k]:.{d}f}" for k, (s, d) in SHOWN.items()]
            print(f"| {name} | {label} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
