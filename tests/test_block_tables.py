"""Pictures of decisions: names that do not collide, legends that tell blocks apart."""

import importlib
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.syspath_prepend(ROOT / "docs")
    return importlib.import_module("block_tables")


@pytest.mark.parametrize(
    ("labels", "slanted"),
    [
        (["deep ensemble", "SAM", "released"], False),
        (["deep ensemble", "late SharpBalance", "late SharpBalance, 0.05"], True),
    ],
    ids=["short", "long"],
)
def test_long_names_are_slanted(tables, labels, slanted):
    figure, axis = plt.subplots()
    before = figure.get_figheight()
    tables.name_ticks(axis, labels)
    angles = {text.get_rotation() for text in axis.get_xticklabels()}
    assert angles == ({40.0} if slanted else {0.0})
    assert (figure.get_figheight() != before) == slanted
    plt.close(figure)


@pytest.mark.parametrize(("blocks", "names"), [(3, 3), (12, 0)])
def test_a_legend_names_blocks_only_where_marks_tell_them_apart(
    tables, blocks, names, monkeypatch, tmp_path
):
    scores = {"accuracy": 0.9, "der": 0.5}
    found = [
        {"arm": arm, "block": block, "clean": scores, "corrupted": scores}
        for arm in ("a", "b")
        for block in range(blocks)
    ]
    drawn = []
    monkeypatch.setattr(plt, "close", drawn.append)
    tables.Arms(found, {"a": "a", "b": "b"}, range(blocks)).draw(tmp_path / "a.png")
    (figure,) = drawn
    legends = [text for legend in figure.legends for text in legend.get_texts()]
    assert len(legends) == names
    assert len(figure.axes[0].lines) == blocks


def test_detection_is_shown_where_every_ensemble_has_it(tables, capsys):
    found = [
        {"arm": "a", "block": n, "unfamiliar": {"cifar100": {"pds": 0.8 + 0.1 * n}}}
        for n in range(2)
    ]
    tables.Arms(found, {"a": "A"}, range(2)).print_unfamiliar()
    assert "| A | 0.850 ± 0.050 |" in capsys.readouterr().out
    without = [*found, {**found[0], "unfamiliar": {}}]
    tables.Arms(without, {"a": "A"}, range(2)).print_unfamiliar()
    assert capsys.readouterr().out == ""
