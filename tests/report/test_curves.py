"""Curves of records."""

from tepui.experiments.results import averaged
from tepui.report.curves import Curves, curve_panels


def record(size, values):
    return averaged(
        values,
        [],
        item="x/figure1",
        dataset="d",
        architecture="a",
        method="m",
        metric="auroc",
        unit="fraction",
        at={"ensemble_size": size},
    )


def test_lines_run_along_their_coordinate_with_one_legend():
    first = [record(5, [0.5, 0.7]), record(2, [0.3, 0.3]), record(9, [None, None])]
    panels = [
        Curves("left", "ensemble_size", "AUROC", {"a": first}),
        Curves("right", "ensemble_size", "time", {"b": first, "a": first}, log=True),
    ]
    figure = curve_panels(panels)
    left, right = figure.axes
    (line,) = left.lines
    assert line.get_xdata().tolist() == [2, 5]
    assert line.get_ydata().tolist() == [0.3, 0.6]
    assert (left.get_xscale(), right.get_xscale()) == ("linear", "log")
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b"]
    colours = [axis.lines[-1].get_color() for axis in (left, right)]
    assert colours[0] == colours[1]
    assert left.get_xlabel() == "ensemble size"
