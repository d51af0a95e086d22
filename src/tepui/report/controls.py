"""Pictures of the six controls: every score of networks against their sharpness."""

from typing import TYPE_CHECKING

from tepui.report.scatter import Cloud, Scatter, scatter_panels
from tepui.studies.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCORES = ("accuracy", "ece", "corruption_accuracy", "disagreement")
SHARPNESS = ("fisher_rao", "sam_sharpness", "relative_flatness")
DATA = ("clean", "augmented")


def control_panels(results: Results) -> "Figure":
    """Draw each score against each sharpness, on clean data joined to augmented."""

    def cloud(control: str, sharp: str, score: str) -> Cloud:
        found = (
            results.one(method=control, metric=sharp, sharpness_data=data).value
            for data in DATA
        )
        y = results.one(method=control, metric=score).value
        return Cloud(control.replace("_", " "), [*found], [y] * 2, joined=True)

    controls = list(dict.fromkeys(record.method for record in results.records))
    panels = [
        Scatter(
            f"{score} against {sharp}".replace("_", " "),
            f"{sharp.replace('_', ' ')}, on clean and on augmented training data",
            score.replace("_", " "),
            tuple(cloud(control, sharp, score) for control in controls),
        )
        for score in SCORES
        for sharp in SHARPNESS
    ]
    return scatter_panels(panels)
