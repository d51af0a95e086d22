"""Bars, scatter plots and curves of made-up numbers."""

import math
from itertools import pairwise

import pytest
from matplotlib.collections import FillBetweenPolyCollection, PathCollection

from tepui.papers.rethinking.six_controls import (
    DATA,
    SCORES,
    SHARPNESS,
    control_panels,
)
from tepui.report.bars import Bar, bar_panels
from tepui.report.curves import Curves, curve_panels
from tepui.report.scatter import Cloud, Scatter, scatter_panels
from tepui.studies.results import Record, Results, averaged


def record(values, size):
    return averaged(
        values,
        [],
        item="x/figure1",
        dataset="digits",
        architecture="mlp",
        method="sam",
        metric="accuracy",
        unit="percent",
        at={"ensemble_size": size},
    )


def bars(values):
    members, ensemble = record(values, 1), record([v + 1 for v in values], 3)
    return Bar("sam", members.value, ensemble.value, ensemble.sem, 5.0)


def test_bars_have_errors_only_where_ensembles_were_repeated():
    once, twice = (
        bar_panels({"t": [bars(values)]}).axes[0] for values in ([1.0], [1.0, 2.0])
    )
    assert (len(once.collections), len(twice.collections)) == (0, 1)


@pytest.mark.parametrize("panels", [1, 3])
def test_names_below_bars_do_not_run_into_each_other(panels):
    names = ["deep\nensemble", "sam", "sharpbalance", "sharpbalance\nreleased"]
    several = [bars([1.0, 2.0])._replace(label=name) for name in names]
    figure = bar_panels(dict.fromkeys("abc"[:panels], several))
    figure.canvas.draw()
    boxes = [t.get_window_extent() for t in figure.axes[0].get_xticklabels()]
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


def test_the_legend_of_a_narrow_figure_stays_inside_it():
    figure = bar_panels({"t": [bars([1.0, 2.0])]})
    figure.canvas.draw()
    box = figure.legends[0].get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.x1


def test_undefined_points_are_left_out():
    x, y = [1.0, None, -1.0, 2.0], [1.0, 1.0, 1.0, None]
    cloud = Cloud("a", x, y, [0.0, 1.0, 2.0, 3.0])
    assert cloud.points() == [(1.0, 1.0, 0.0), (-1.0, 1.0, 2.0)]
    assert cloud.points(log=True) == [(1.0, 1.0, 0.0)]


def test_every_point_is_drawn_and_colored_by_one_scale():
    first = Cloud("a", [1.0, 2.0], [1.0, 2.0], [0.0, 1.0])
    second = Cloud("b", [3.0], [3.0], [1.0])
    figure = scatter_panels([Scatter("t", "x", "y", (first, second), "color")])
    axis, bar = figure.axes
    marks = [c for c in axis.collections if isinstance(c, PathCollection)]
    assert [len(each.get_offsets()) for each in marks] == [2, 1]
    low, high, same = [*marks[0].get_facecolors(), marks[1].get_facecolors()[0]]
    assert tuple(high) == tuple(same) != tuple(low)
    assert bar.get_ylabel() == "color"


@pytest.mark.parametrize("log", [True, False])
def test_the_line_has_its_slope_and_passes_through_the_center(log):
    x, y = [1.0, 2.0, 4.0], [1.0, 3.0, 2.0]
    cloud = Cloud("a", x, y, slope=0.7)
    figure = scatter_panels([Scatter("t", "x", "y", (cloud,), log=log)])
    (line,) = figure.axes[0].get_lines()
    there = math.log if log else float
    (x0, x1), (y0, y1) = ([there(v) for v in side] for side in line.get_data())
    assert (y1 - y0) / (x1 - x0) == pytest.approx(0.7)
    center = [sum(map(there, side)) / 3 for side in (x, y)]
    assert y0 + 0.7 * (center[0] - x0) == pytest.approx(center[1])


def test_an_empty_cloud_is_no_error():
    figure = scatter_panels([Scatter("t", "x", "y", (Cloud("a", [None], [1.0]),))])
    assert not figure.axes[0].collections


def test_curves_have_bands_of_one_standard_error():
    lines = {"sam": [record([3.0, 5.0], 2), record([1.0, 2.0], 1), record([None], 3)]}
    figure = curve_panels([Curves("t", "ensemble_size", "accuracy", lines)])
    (axis,) = figure.axes
    (line,) = axis.get_lines()
    assert line.get_xdata().tolist() == [1, 2]
    assert line.get_ydata().tolist() == [1.5, 4.0]
    (band,) = (c for c in axis.collections if isinstance(c, FillBetweenPolyCollection))
    heights = {tuple(vertex) for vertex in band.get_paths()[0].vertices.tolist()}
    assert {(1, 1.0), (1, 2.0), (2, 3.0), (2, 5.0)} <= heights
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["sam"]


CONTROLS = ["baseline", "baseline_sam", "augmentation"]
NAMES = {"item": "rethinking/table1", "dataset": "c", "architecture": "r"}


def results(missing=None):
    def record(control, metric, value, **at):
        shown = None if metric == missing else value
        more = {"value": shown, "unit": "none", "n": 3, "at": at}
        return Record(method=control, metric=metric, **NAMES, **more)

    records = []
    for number, control in enumerate(CONTROLS):
        records += [record(control, metric, number / 4) for metric in SCORES]
        records += [
            record(control, metric, number + 10.0 * place, sharpness_data=data)
            for metric in SHARPNESS
            for place, data in enumerate(DATA)
        ]
    return Results("rethinking/table1", "", "smoke", {}, {}, tuple(records))


def points(axis):
    return sorted(
        map(tuple, (p.tolist() for c in axis.collections for p in c.get_offsets()))
    )


def test_every_score_stands_against_every_sharpness_on_both_data():
    axes = control_panels(results()).axes
    assert len(axes) == len(SCORES) * len(SHARPNESS)
    expected = sorted((n + 10.0 * d, n / 4) for n in range(3) for d in range(2))
    assert all(points(axis) == expected for axis in axes)
    joins = [list(map(float, line.get_xdata())) for line in axes[0].lines]
    assert joins == [[0, 10], [1, 11], [2, 12]]


def test_what_is_not_defined_is_left_out():
    axes = control_panels(results(missing="fisher_rao")).axes
    assert [len(points(axis)) for axis in axes] == [0, 6, 6] * len(SCORES)
