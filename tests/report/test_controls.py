"""The picture of the six controls."""

from tepui.report.controls import DATA, SCORES, SHARPNESS, control_panels
from tepui.studies.results import Record, Results

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
