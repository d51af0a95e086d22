"""The page of benchmarks shows what its files of raw numbers hold."""

import json

import pytest

from pages import ROOT

MEASURED = ROOT / "benchmarks" / "measured"
PAGE = " ".join((ROOT / "benchmarks" / "README.md").read_text("utf-8").split())


def measured(name):
    return json.loads((MEASURED / f"h200_{name}.json").read_text())


def rows_of_sharpbalance():
    found = measured("sharpbalance")
    steps, scoring = found["steps"], found["scoring"]
    base = steps["published mixed step"]
    yield f"| published mixed step | {base:.1f} | 1.0 |"
    labels = {"SharpBalance": "SharpBalance (graph, bfloat16)"}
    for name in ("SharpBalance", "SAM", "deep ensemble"):
        value = steps[f"tepui, {name}"]
        label = labels.get(name, name)
        yield f"| tepui, {label} | {value:.2f} | {base / value:.1f} |"
    for precision, shown in {"tf32": "TF32", "bfloat16": "bfloat16"}.items():
        value = scoring[f"tepui, {precision}"]
        cells = (value, scoring["published"] / value)
        plain = value / scoring[f"plain pass, {precision}"]
        yield f"| tepui, {shown} | {cells[0]:.1f} | {cells[1]:.1f} | {plain:.2f} |"
    overlaps = [scoring[f"overlap, {name}"] for name in ("tf32", "bfloat16")]
    yield "random images, on {:.4f} and {:.4f}.".format(*overlaps)


def rows_of_large_batches():
    names = ("sharpbalance", "sam", "deep ensemble")
    large, steps = measured("batch512"), measured("sharpbalance")["steps"]
    small = [steps[f"tepui, {n}"] for n in ("SharpBalance", "SAM", "deep ensemble")]
    values = [large[name] for name in names]
    shares = [a / b / 4 for a, b in zip(values, small, strict=True)]
    times = "{:.2f} ms, of SAM {:.2f} ms, of the deep ensemble {:.2f} ms".format(
        *values
    )
    yield times + ": {:.2f}, {:.2f} and {:.2f} of the time".format(*shares)


def rows_of_dropout():
    for found in measured("dropout")["results"]:
        values = " | ".join(f"{found[key]:.1f}" for key in ("eager", "graph", "ratio"))
        yield f"| {found['model']} | {found['method']} | {values} |"


def rows_of_many_members():
    found = measured("many_members")
    for images in ("8 pixels", "32 pixels"):
        four, many = found[images]["4"], found[images]["16"]
        yield f"| {images} | {four:.3f} | {many:.3f} | {many / four:.1f} |"
    yield f"was {found['held after each run'][0] / 2**20:.0f} MiB after each"


def rows_of_profiles():
    both = [measured(f"profile_{name}")["by kind"] for name in ("de", "sam")]
    for kind in both[0]:
        label = kind.replace(" (", ": ").replace(")", "")
        cells = [f"{each[kind][v]:.0f}" for each in both for v in ("us", "kernels")]
        yield f"| {' | '.join([label, *cells])} |"


def rows_of_exams():
    for precision, exams in measured("exam")["seconds"].items():
        found = exams["first exam"]
        copies = (found["copies without JPEG"], found["copies by JPEG"])
        shown = " | ".join(f"{value:.2f}" for value in copies)
        rest = f"{found['predictions']:.1f} | {found['metrics']:.2f}"
        label = {"tf32": "TF32"}.get(precision, precision)
        yield f"| {label} | first | {found['whole']:.1f} | {shown} | {rest} |"


def rows_of_whole_runs():
    names = ("deep_ensemble", "late_sharpbalance", "sharpbalance")
    found = measured("end_to_end")
    runs = [found[name]["whole_run"] for name in (*names, "late_sharpbalance_exam")]
    seconds = [sum(run.values()) for run in runs]
    yield f"| all | {' | '.join(f'{each:.1f}' for each in seconds)} |"
    for goal, each in zip((7.5, 11, 15, 5.5), seconds, strict=True):
        yield f"{each / 60:.1f} ({goal})"


@pytest.mark.parametrize(
    "rows",
    [
        rows_of_sharpbalance,
        rows_of_large_batches,
        rows_of_dropout,
        rows_of_many_members,
        rows_of_profiles,
        rows_of_exams,
        rows_of_whole_runs,
    ],
    ids=lambda rows: rows.__name__.removeprefix("rows_of_"),
)
def test_the_page_shows_what_was_measured(rows):
    expected = list(rows())
    assert expected
    assert [row for row in expected if row not in PAGE] == []
