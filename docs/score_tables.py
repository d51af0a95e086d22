"""What the scripts that read decisions' results share: folders, cells, panels.

Each reads the committed results, or those of a rerun in a folder that the command line
names; the picture of a rerun goes into its folder.
"""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from tepui.report.drawing import STYLE
from tepui.studies.significance import Difference
from tepui.studies.statistics import estimate

IMAGES = Path(__file__).parent / "images"
DECISIONS = Path(__file__).parent / "results" / "decisions"
SHOWN = {
    "clean %": ("clean", "accuracy", 100, 2),
    "corrupted %": ("corrupted", "accuracy", 100, 2),
    "NLL clean": ("clean", "nll", 1, 3),
    "NLL corrupted": ("corrupted", "nll", 1, 3),
    "ECE % clean": ("clean", "ece", 100, 2),
    "ECE % corrupted": ("corrupted", "ece", 100, 2),
    "DER clean": ("clean", "der", 1, 3),
    "DER corrupted": ("corrupted", "der", 1, 3),
    "disagreement % clean": ("clean", "disagreement", 100, 2),
    "disagreement % corrupted": ("corrupted", "disagreement", 100, 2),
}
PANELS = {
    "accuracy on clean images, %": ("clean", "accuracy", 100),
    "accuracy on corrupted images, %": ("corrupted", "accuracy", 100),
    "DER on corrupted images": ("corrupted", "der", 1),
}

Results = Sequence[dict[str, Any]]


def folders_asked_for(*committed: Path, beside: Sequence[Path] = ()) -> list[Path]:
    """Return the folders that the command line names, else the committed ones.

    Which they are is printed, so that nobody takes committed numbers for a rerun's.

    Args:
        committed: What is read if none is named; else as many must be.
        beside: Committed folders that are read in any case.
    """
    parser = argparse.ArgumentParser(description="Reads results by a decision's rules.")
    told = "what a rerun wrote, instead of the committed results; gets the picture"
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help=told)
    folders: list[Path] = parser.parse_args().folders or list(committed)
    if len(folders) != len(committed):
        rule = f"be given 0 or {len(committed)} times"
        parser.error(f"FOLDER must {rule}, got {len(folders)}")
    for folder in folders:
        if not folder.is_dir():
            parser.error(f"FOLDER must be a folder of results, got {folder}")
    also = f"; beside them, from {_named(beside)}" if beside else ""
    print(f"from {_named(folders)}{also}")
    return folders


def _named(folders: Sequence[Path]) -> str:
    here = Path.cwd()
    absolute = [folder.resolve() for folder in folders]
    return ", ".join(
        str(each.relative_to(here) if each.is_relative_to(here) else each)
        for each in absolute
    )


def picture_of(folder: Path, name: str) -> Path:
    """Return where a picture goes: to the pages' own, or into a rerun's folder."""
    committed = folder.resolve().parent == DECISIONS.resolve()
    return (IMAGES if committed else folder) / name


def row(*cells: object) -> str:
    """Return a row of a table."""
    return "| " + " | ".join(map(str, cells)) + " |"


def mean_and_error(values: Sequence[float], digits: int) -> str:
    """Return a mean with its standard error."""
    found = estimate(values)
    return f"{found.mean:.{digits}f} ± {found.error:.{digits}f}"


def score_cells(several: Results) -> list[str]:
    """Return mean and standard error of each score over ensembles."""
    return [
        mean_and_error([scale * each[data][key] for each in several], digits)
        for data, key, scale, digits in SHOWN.values()
    ]


def with_interval(found: Difference, digits: int = 2) -> str:
    """Return a difference with the interval that it lies in."""
    low, high = f"{found.low:.{digits}f}", f"{found.high:.{digits}f}"
    return f"{found.mean:.{digits}f} ({low} to {high})".replace("-", "−")


def member_accuracies(several: Results, data: str) -> list[float]:
    """Return the accuracy of every member of every ensemble, in points."""
    return [100 * value for r in several for value in r[data]["members"]["accuracy"]]


@contextmanager
def panels(file: Path) -> Iterator[list[tuple[Axes, tuple[str, str, float]]]]:
    """Yield axes with what each shows, and write the picture with one legend."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
        for axis, title in zip(axes, PANELS, strict=True):
            axis.set_ylabel(title)
        yield list(zip(axes, PANELS.values(), strict=True))
        handles, labels = axes[0].get_legend_handles_labels()
        if labels:
            place, columns = "outside lower center", min(len(labels), 7)
            figure.legend(handles, labels, loc=place, ncols=columns, frameon=False)
        figure.savefig(file, dpi=110)
        plt.close(figure)
