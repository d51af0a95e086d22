"""SED's offline study, quickly."""

from pathlib import Path

import pytest
import torch

from tepui.core.storage import read_json
from tepui.papers.sed import controls as recipe
from tepui.papers.sed.controls import SCALES, images, offline_sed, tables

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    out = tmp_path_factory.mktemp("offline_sed")
    return out, offline_sed(out, size="smoke")


def runs(document):
    return {row["label"]: row["runs"] for row in document["variants"]}


def test_smoke_writes_what_it_returns(smoke):
    out, document = smoke
    assert {path.name for path in out.iterdir()} == set(recipe.FILES)
    assert read_json(out / "offline_sed.json") == document
    assert (out / "offline_sed.md").read_text() == tables(document)
    assert (out / "offline_sed.png").read_bytes().startswith(b"\x89PNG")


def test_heads_learn_and_are_scored_within_range(smoke):
    found = runs(smoke[1])
    assert min(run["clean"]["accuracy"] for run in found["deep ensemble"]) > 0.3
    for row in found.values():
        for run in row:
            for part in ("clean", "severity 1", "severity 5"):
                assert 1 <= run[part]["unique_predictions"] <= recipe.MEMBERS
            assert set(run["auroc"]) == {
                "inverted",
                "noise",
                "severity 1",
                "severity 5",
            }
            for scores in run["auroc"].values():
                assert all(0 <= value <= 1 for value in scores.values())


def test_every_control_differs_from_what_it_controls(smoke):
    found = runs(smoke[1])
    seen = [row[0]["clean"]["nll"] for row in found.values()]
    assert len(set(seen)) == len(recipe.VARIANTS)


def test_the_controls_are_complete():
    sed = {
        (v.method.weight, v.method.alpha, v.label_smoothing)
        for v in recipe.VARIANTS
        if isinstance(v.method, recipe.SED)
    }
    assert {(w, "active", s) for w in (0.0, 0.1) for s in (0.0, 0.5)} <= sed
    assert (0.1, "none", 0.0) in sed


def test_repetitions_repeat(smoke):
    again = recipe._repetition(SCALES["smoke"], 1)
    assert again == {label: row[1] for label, row in runs(smoke[1]).items()}


def test_parts_share_no_image_and_others_have_no_label():
    found = images(SCALES["smoke"], 0)
    parts = [
        {tuple(image) for image in part.inputs.flatten(1).tolist()}
        for part in (found.extractor, found.heads, found.test)
    ]
    assert [len(part) for part in parts] == [800, 400, 200]
    assert len(set.union(*parts)) == 1400
    inverted = found.others["inverted"].inputs
    assert torch.allclose(inverted + found.test.inputs, torch.ones(()))
    for other in found.others.values():
        assert other.targets.unique().tolist() == [-1]
        assert other.normalize == found.test.normalize


def test_digits_take_the_size_of_the_clothes():
    like = recipe.UniformNoise(2, (1, 28, 28))
    digits = recipe._digits(like)
    assert digits.inputs.shape == (1437, 1, 28, 28)
    assert digits.inputs.dtype == torch.uint8
    # Interpolation keeps the mean brightness.
    small = float(recipe.Digits().inputs.mean())
    assert float(digits.inputs.float().mean() / 255) == pytest.approx(small, abs=0.02)


def test_differences_are_paired(smoke):
    document = smoke[1]
    last = tables(document).split("\n\n")[2]
    row = next(
        line for line in last.splitlines() if line.startswith("| SED, less deep ens")
    )
    found = runs(document)
    values = [
        a["clean"]["unique_predictions"] - b["clean"]["unique_predictions"]
        for a, b in zip(found["SED"], found["deep ensemble"], strict=True)
    ]
    mean, error = sum(values) / 2, abs(values[0] - values[1]) / 2
    assert row.split(" | ")[1] == f"{mean:+.3f} ± {error:.3f}"


def test_nothing_is_trained_where_files_are_in_the_way(smoke, monkeypatch):
    monkeypatch.setattr(recipe, "_repetition", None)
    with pytest.raises(FileExistsError, match=r"offline_sed\.json exists"):
        offline_sed(smoke[0], size="smoke")


def test_the_published_results_are_those_of_the_page():
    document = read_json(DOCS / "results" / "diversification" / "offline_sed.json")
    page = (DOCS / "diversification_studies.md").read_text()
    for block in tables(document).split("\n\n"):
        assert block.strip() in page
    assert all(len(row) >= 3 for row in runs(document).values())
