"""The theory's figures, quickly."""

import csv
import math
from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pytest

from tepui.recipes import sharpbalance_theory

FIGURES = ("figure1b", "figure2", "figure9", "figure10", "figure11")
DIVERGENT = "#fbe3dc"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    out = tmp_path_factory.mktemp("figures")
    return {
        name: getattr(sharpbalance_theory, name)(out, quick=True) for name in FIGURES
    }


def rows(written, name):
    with written[name][2].open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", FIGURES)
def test_each_figure_writes_svg_png_and_csv(name, written):
    svg, png, table = written[name]
    assert ElementTree.parse(svg).getroot().tag.endswith("svg")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert table.name == f"{name}.csv"


@pytest.mark.parametrize("name", FIGURES)
def test_each_table_flags_the_regime(name, written):
    for row in rows(written, name):
        edge = (math.sqrt(20 if row["method"].startswith("SAM") else 2) + 1) ** 2
        factor = 1 - float(row["eta"]) * edge * (1 + float(row["rho"]) * edge)
        # The last radius of figure 2's second panel is the edge of stability itself.
        if factor != pytest.approx(-1, abs=1e-12):
            assert row["stable"] == str(factor > -1), row


@pytest.mark.parametrize("name", FIGURES)
def test_each_figure_compares_equally_sharp_members_in_the_stable_regime(name, written):
    matched = [r for r in rows(written, name) if r["panel"].startswith("equally sharp")]
    assert {row["stable"] for row in matched} == {"True"}
    by_method = {}
    for row in matched:
        key = (row["panel"], row["method"])
        sharpness = round(float(row["sharpness_upper"]), 9)
        by_method.setdefault(key, {})[sharpness] = float(row["diversity"])
        assert row["diversity_simulated"]
    panel = matched[0]["panel"]
    for rho in ("0", "0.4"):
        whole = by_method[panel, f"SAM, rho = {rho}"]
        blocks = by_method[panel, f"SharpBalance, rho = {rho}"]
        common = sorted(whole.keys() & blocks.keys())
        assert len(common) >= 2
        # Near the start they are equal; the further trained, the further apart.
        gains = [blocks[sharpness] / whole[sharpness] for sharpness in common]
        assert gains == sorted(gains, reverse=True)
        assert gains[0] > 1.15
        assert gains[-1] == pytest.approx(1, abs=0.01)


def test_divergent_panels_are_tinted_and_divergent_lines_dotted(written):
    shown = {name: written[name][0].read_text() for name in FIGURES}
    assert shown["figure2"].count(DIVERGENT) == 1
    assert shown["figure10"].count(DIVERGENT) == 3
    assert DIVERGENT not in shown["figure9"]
    assert "SAM, divergent" in shown["figure1b"]
    assert "divergent" not in shown["figure9"]


def test_figure2_has_both_bounds_around_the_simulation(written):
    drawn = [r for r in rows(written, "figure2") if "equally" not in r["panel"]]
    assert len(drawn) == 8
    for row in drawn:
        upper, lower = float(row["sharpness_upper"]), float(row["sharpness_lower"])
        near, error = (
            float(row["sharpness_simulated"]),
            float(row["sharpness_error"]),
        )
        assert lower < upper
        assert error < near / 2
        assert lower - 3 * error < near < upper + 3 * error


@pytest.mark.parametrize("name", FIGURES)
def test_no_two_methods_of_a_figure_look_alike(name, written):
    methods = {row["method"] for row in rows(written, name)}
    for one, other in combinations(methods, 2):
        colours = sharpbalance_theory.METHOD_COLOURS
        assert colours[one] != colours[other]


def test_published_ranges(written):
    first = [r for r in rows(written, "figure1b") if r["panel"].startswith("as publ")]
    radii = {
        method: [float(r["rho"]) for r in first if r["method"] == method]
        for method in ("SAM", "SharpBalance")
    }
    assert (radii["SAM"][0], radii["SAM"][-1]) == (0.255, 0.24)
    assert (radii["SharpBalance"][0], radii["SharpBalance"][-1]) == (1.5, 0.01)
    steps = [r["k"] for r in rows(written, "figure9") if r["panel"].startswith("(b)")]
    assert [float(k) for k in steps] == list(np.arange(1.0, 16.0))


def test_files_are_not_overwritten_silently(tmp_path):
    first = sharpbalance_theory.figure1b(tmp_path, quick=True)
    before = first[2].read_bytes()
    with pytest.raises(FileExistsError, match=r"figure1b\.svg exists; pass overwrite"):
        sharpbalance_theory.figure1b(tmp_path, quick=True, seed=1)
    assert first[2].read_bytes() == before
    sharpbalance_theory.figure1b(tmp_path, quick=True, seed=1, overwrite=True)
    assert first[2].read_bytes() != before


@pytest.mark.parametrize("name", FIGURES)
def test_files_in_the_way_are_found_before_the_work_begins(name, tmp_path, monkeypatch):
    (tmp_path / f"{name}.csv").write_text("mine")
    monkeypatch.setattr(sharpbalance_theory, "_curve", None)
    with pytest.raises(FileExistsError, match=rf"{name}\.csv exists"):
        getattr(sharpbalance_theory, name)(tmp_path, quick=True)
