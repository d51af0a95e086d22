"""The picture of the six controls."""

import pytest

from tepui.report.controls import PANELS, control_panels, look
from tepui.studies.results import Record, Results

CONTROLS = [
    f"{name}{suffix}"
    for name in ("baseline", "augmentation", "weight_decay")
    for suffix in ("", "_sam")
]


def results(lowest=0.5, missing=None):
    records = []
    for number, control in enumerate(CONTROLS):
        for metric, _, sharp in PANELS:
            for data in ("clean", "augmented") if sharp else (None,):
                value = lowest + number + (10 if data == "augmented" else 0)
                records.append(
                    Record(
                        item="rethinking/table1",
                        dataset="cifar10",
                        architecture="resnet18",
                        method=control,
                        metric=metric,
                        value=None if metric == missing else value,
                        unit="none",
                        n=3,
                        sem=0.1,
                        at={} if data is None else {"sharpness_data": data},
                    )
                )
    return Results("rethinking/table1", "", "smoke", {}, {}, tuple(records))


def marks(axis):
    """Return x and y of every error bar's mark."""
    return [
        (float(bar.lines[0].get_xdata()[0]), float(bar.lines[0].get_ydata()[0]))
        for bar in axis.containers
    ]


def test_every_metric_has_a_panel_with_a_mark_per_control():
    axes = control_panels(results()).axes
    assert len(axes) == 9
    for axis, (_, title, sharp) in zip(axes, PANELS, strict=False):
        assert axis.get_title() == title
        assert len(marks(axis)) == (12 if sharp else 6)
        assert axis.get_xscale() == ("log" if sharp else "linear")
    assert [x for x, _ in marks(axes[0])] == pytest.approx([0.5 + n for n in range(6)])
    assert [round(y) for _, y in marks(axes[4])] == [0, 1, 2, 3, 4, 5] * 2


def test_sharpness_on_both_data_is_joined_in_the_scatter():
    axis = control_panels(results()).axes[-1]
    lines = [line for line in axis.lines if line.get_linestyle() == "-"]
    joins = [line.get_xdata() for line in lines if len(line.get_xdata()) == 2]
    assert [0.5, 10.5] in [list(map(float, ends)) for ends in joins]


@pytest.mark.parametrize("lowest", [-0.5, 100.0])
def test_negative_and_near_sharpness_is_drawn_on_a_straight_axis(lowest):
    axes = control_panels(results(lowest)).axes
    assert axes[5].get_xscale() == "linear"
    assert min(x for x, _ in marks(axes[5])) == lowest


def test_what_is_not_defined_is_left_out():
    axes = control_panels(results(missing="fisher_rao")).axes
    assert marks(axes[4]) == marks(axes[7]) == []
    assert len(marks(axes[1])) == 6


def test_controls_look_different():
    assert len({look(control)[1:] for control in CONTROLS}) == len(CONTROLS)
    with pytest.raises(ValueError, match="control must be one of"):
        look("dropout")
