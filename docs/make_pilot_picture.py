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


def main() -> None:
    folder = HERE / "results" / "cifar10_pilot"
    found = {
        label: json.loads((folder / f"{name}.json").read_text())
        for name, label in RULES.items()
        if (folder / f"{name}.json").exists()
    }
    with plt.rc_context(STYLE):
        figure, (left, right) = plt.subplots(
            1, 2, figsize=(9.5, 3.8), layout="constrained"
        )
        for (label, result), color, marker in zip(
            found.items(), COLORS, MARKERS, strict=False
        ):
            levels = {0: result["clean"]} | {
                int(level): scores for level, scores in result["severities"].items()
            }
            for axis, key in ((left, "accuracy"), (right, "der")):
                values = [scores[key] for scores in levels.values()]
                scale = 100 if key == "accuracy" else 1
                axis.plot(
                    list(levels),
                    [scale * value for value in values],
                    color=color,
                    marker=marker,
                    label=label,
                )
        left.set_ylabel("accuracy of the ensemble in %")
        right.set_ylabel("disagreement over error (DER)")
        for axis in (left, right):
            axis.set_xlabel("severity of the corruption (0: clean)")
            axis.set_xticks([0, 1, 3, 5])
        handles, labels = left.get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="outside lower center", ncols=3, frameon=False
        )
        figure.savefig(HERE / "images" / "cifar10_pilot.png", dpi=110)
    for data in ("clean", "shifted"):
        for label, result in found.items():
            scores = result[data]
            cells = [
                f"{100 * scores['individual_accuracy']:.2f}",
                f"{100 * scores['accuracy']:.2f}",
                f"{100 * scores['improvement']:.2f}",
                f"{scores['der']:.3f}",
                f"{100 * scores['ece']:.2f}",
                f"{scores['nll']:.3f}",
            ]
            name = "clean" if data == "clean" else "corrupted"
            print(f"| {name} | {label} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
