"""The theory's figures, quickly."""

import math

import numpy as np
import pytest

from tepui.papers.recipe import Order, look_up
from tepui.papers.sharpbalance.theory_curves import (
    PANELS,
    QUICK,
    figure1b_curves,
    matched,
)
from tepui.report.trade_offs import DIVERGENT
from tepui.studies.results import results
from tepui.studies.store import Store


@pytest.fixture(scope="module")
def built():
    return {name: panels(QUICK) for name, panels in PANELS.items()}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    made, store = {}, Store(tmp_path_factory.mktemp("store"))
    for name in PANELS:
        item, recipe, panels = look_up(f"sharpbalance/{name}")
        order = Order("smoke", panels)
        records = recipe.records(store, order)
        about = "title", "smoke", recipe.described(order)
        made[name] = recipe, results(item, *about, records, store.device)
    return made


def curves(panels):
    return [(panel.title, curve) for _, panel in panels for curve in panel.curves]


@pytest.mark.parametrize("name", PANELS)
def test_records_flag_the_regime(name, found):
    for record in found[name][1].records:
        at = record.at
        edge = (math.sqrt(20 if record.method == "sam" else 2) + 1) ** 2
        factor = 1 - at["eta"] * edge * (1 + at["rho"] * edge)
        # The last radius of figure 2's second panel is the edge of stability itself.
        if factor != pytest.approx(-1, abs=1e-12):
            assert at["regime"] == ("stable" if factor > -1 else "divergent"), at


@pytest.mark.parametrize("name", PANELS)
def test_equally_sharp_members_are_compared_in_the_stable_regime(name, found):
    matched = [
        record
        for record in found[name][1].records
        if record.at["panel"].startswith("equally sharp")
    ]
    assert {record.at["regime"] for record in matched} == {"stable"}
    assert any(record.at["source"] == "simulation" for record in matched)
    sharpness, diversity = {}, {}
    for record in matched:
        kept = {"upper_bound": sharpness, "theory": diversity}.get(record.at["source"])
        if kept is not None:
            key = record.at["panel"], record.at["curve"]
            kept.setdefault(key, []).append(record.value)
    panel = matched[0].at["panel"]
    for rho in ("0", "0.4"):
        whole, blocks = (
            dict(zip(np.round(sharpness[key], 9), diversity[key], strict=True))
            for key in (
                (panel, f"SAM, rho = {rho}"),
                (panel, f"SharpBalance, rho = {rho}"),
            )
        )
        common = sorted(whole.keys() & blocks.keys())
        assert len(common) >= 2
        # Near the start they are equal; the further trained, the further apart.
        gains = [blocks[each] / whole[each] for each in common]
        assert gains == sorted(gains, reverse=True)
        assert gains[0] > 1.15
        assert gains[-1] == pytest.approx(1, abs=0.01)


def test_divergent_panels_are_tinted_and_divergent_lines_dotted(found):
    tinted = {}
    for name in ("figure2", "figure9", "figure10"):
        recipe, made = found[name]
        figure = recipe.draw(made)
        color = DIVERGENT.lower()
        tinted[name] = sum(_hex(axes) == color for axes in figure.axes)
        labels = [text.get_text() for text in figure.legends[0].get_texts()]
        assert any("divergent" in label for label in labels) == (name != "figure9")
        scales = {axes.get_xscale() for axes in figure.axes}
        assert ("log" in scales) == (name == "figure10")
    assert tinted == {"figure2": 1, "figure9": 0, "figure10": 9}


def test_figure2_has_both_bounds_around_the_simulation(built):
    drawn = [
        curve for _, curve in curves(built["figure2"]) if "rho" not in curve.method
    ]
    assert sum(len(curve.rho) for curve in drawn) == 2 * QUICK.points
    for curve in drawn:
        near, error = curve.sharpness_simulated, curve.sharpness_error
        assert (curve.sharpness_lower < curve.sharpness_upper).all()
        assert (error < near / 2).all()
        assert (curve.sharpness_lower - 3 * error < near).all()
        assert (near < curve.sharpness_upper + 3 * error).all()


def test_published_ranges(built):
    (ours,) = matched([3], QUICK)
    radii = {curve.method: curve.rho for curve in figure1b_curves(QUICK)}
    assert (radii["SAM"][0], radii["SAM"][-1]) == (0.255, 0.24)
    assert (radii["SharpBalance"][0], radii["SharpBalance"][-1]) == (1.5, 0.01)
    assert ours.title == "equally sharp, stable, k = 3"
    steps = dict(built["figure9"])["b"].curves[0].k
    assert steps.tolist() == list(range(1, 16))
    letters = [letter for letter, _ in built["figure11"] if letter]
    assert "".join(letters) == "abcdefghi"
    last = dict(built["figure11"])["i"].curves[0]
    assert (set(last.k), set(last.eta)) == ({12}, {0.1})


def test_one_panel_can_be_made_alone(tmp_path):
    item, recipe, panels = look_up("sharpbalance/figure9b")
    assert (item, panels) == ("sharpbalance/figure9", ("b",))
    records = [*recipe.records(Store(tmp_path), Order("smoke", panels))]
    assert {record.item for record in records} == {"sharpbalance/figure9b"}
    assert {record.at["k"] for record in records} == set(range(1, 16))


def _hex(axes):
    from matplotlib.colors import to_hex

    return to_hex(axes.get_facecolor())
